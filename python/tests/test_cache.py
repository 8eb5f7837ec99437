"""Fetched wheels on a worker's disk, and downloads that are damaged."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest
from conftest import make_wheel

from kpackfs_fleet import cache, task
from kpackfs_fleet.cache import WheelCache
from kpackfs_fleet.kpackfs import KpackfsError
from kpackfs_fleet.settings import Limits, Settings
from kpackfs_fleet.store import Source, Store, describe
from kpackfs_fleet.task import Order, Outcome, Worker


@pytest.fixture
def wheel(tmp_path: Path) -> Source:
    """A wheel in a store that is not of this machine."""
    file = make_wheel(tmp_path, "alpha", {"alpha/data.bin": bytes(1000)})
    fsspec.filesystem("memory").pipe_file(f"/wheels/{file.name}", file.read_bytes())
    store = Store(f"memory://wheels/{file.name}")
    return describe(store, store.root)


def test_a_dropped_wheel_is_fetched_again_while_it_is_in_use(tmp_path: Path, wheel: Source) -> None:
    held = WheelCache(tmp_path / "cache", 1 << 20)
    with held.hold(wheel) as (first, is_new):
        assert is_new
        held.drop(first)
        with held.hold(wheel) as (second, is_new):
            assert is_new and second != first
            # The other user of the damaged copy finds it later; that is no reason to fetch once more.
            held.drop(first)
            with held.hold(wheel) as third:
                assert third == (second, False)
            assert first.exists() and second.exists()
    assert not first.parent.exists() and second.exists()
    held.clear()
    assert not list((tmp_path / "cache").iterdir())


def test_a_bound_counts_dropped_wheels_that_are_in_use(tmp_path: Path, wheel: Source) -> None:
    held = WheelCache(tmp_path / "cache", wheel.size)
    with held.hold(wheel) as (first, _):
        held.drop(first)
        with held.hold(wheel) as (second, _):
            pass
        assert first.exists() and not second.exists()


def test_a_fetch_that_fails_leaves_nothing(tmp_path: Path, wheel: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    held = WheelCache(tmp_path / "cache", 1 << 20)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "fetch", lambda self, path, local: local.write_bytes(b"part"))
        with pytest.raises(cache.ChangedSource), held.hold(wheel):
            pass
    assert not list((tmp_path / "cache").iterdir())
    with held.hold(wheel) as (_, is_new):
        assert is_new


def test_a_damaged_download_of_two_tasks_is_fetched_again(tmp_path: Path, wheel: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(tmp_path / "worker", 1, None, 1)
    fetch, damages = Store.fetch, [b"x"]

    def damaging(store: Store, path: str, local: Path) -> None:
        fetch(store, path, local)
        if damages:
            whole = bytearray(local.read_bytes())
            whole[60:61] = damages.pop()
            local.write_bytes(whole)

    right = fsspec.filesystem("memory").cat_file(Store(wheel.url).root)

    def split(_worker: Worker, _order: Order, path: Path, _outcome: Outcome) -> None:
        if path.read_bytes() != right:
            raise KpackfsError("alpha/data.bin is damaged")

    monkeypatch.setattr(Store, "fetch", damaging)
    monkeypatch.setattr(task, "_split", split)
    order = Order(wheel, str(tmp_path / "dst"), Settings("wheel", (), False, None, "0.2.0"), Limits(), "run")
    outcome = Outcome(wheel.name)
    # The other task.
    with worker.cache.hold(wheel):
        task._try_twice(worker, order, outcome)
    assert outcome.counters["wheels_fetched"] == 1 and outcome.counters["damaged_downloads"] == 1
    assert "damaged on its way" in outcome.warnings[0]
