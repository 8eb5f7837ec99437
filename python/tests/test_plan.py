"""Planning: pure functions, which need neither Dask nor kpackfs."""

from __future__ import annotations

import random
import zipfile
from pathlib import Path

import fsspec
import pytest

from kpackfs_fleet import plan
from kpackfs_fleet.manifest import SETTINGS, Conflict, Destination
from kpackfs_fleet.settings import Settings
from kpackfs_fleet.store import Source, Store


def wheel(name: str = "torch-1.0-py3-none-any.whl", unpacked: int = 1 << 30) -> Source:
    return Source(f"file:///{name}", name, unpacked // 4, "", unpacked)


def settings(*options: tuple[str, ...], per_wheel: bool = False) -> Settings:
    return Settings("wheel", options, per_wheel, None, "0.2.0")


def test_groups_hold_each_part_once_and_none_is_much_larger_than_needed() -> None:
    chance = random.Random(7)
    for _ in range(200):
        costs = {f"gfx{number}": chance.randrange(1000) for number in range(chance.randrange(1, 40))}
        number = chance.randrange(1, 12)
        made = plan.balanced(costs, number)
        assert sorted(part for group in made for part in group) == sorted(costs)
        # LPT's bound (Graham 1969): 4/3 of the best there can be, which is neither below the mean nor below the largest part.
        best = max(sum(costs.values()) / number, max(costs.values()))
        assert max(sum(costs[part] for part in group) for group in made) <= best * 2


def test_a_wheel_that_fits_its_share_is_not_cut() -> None:
    code = {"host": 0, "gfx942": 10**10, "gfx1100": 10**10}
    assert plan.groups(wheel(), code, 1e6, None) == [()]


def test_a_wheel_is_cut_until_groups_fit_the_share_or_reading_costs_as_much_as_they_do() -> None:
    code = {"host": 0, **{f"gfx{number}": 6 * 10**9 for number in range(10)}}
    source = wheel(unpacked=10**9)
    reading = source.unpacked / plan.READING
    cut = plan.groups(source, code, reading + 50, None)
    assert len(cut) == 4
    for group in plan.groups(source, code, reading + 0.001, None):
        assert sum(code[part] for part in group) / plan.COMPRESSING >= reading * 0.5


def test_code_of_a_group_can_be_bounded_by_hand() -> None:
    code = {"host": 0, "gfx942": 10 << 20, "gfx1100": 10 << 20}
    assert len(plan.groups(wheel(), code, 1e6, 10 << 20)) == 2
    # A part is not cut, and the host part is with another one: it cannot be verified alone.
    assert plan.groups(wheel(), code, 1e6, 1) == [("gfx1100", "host"), ("gfx942",)]


def test_wheels_that_would_write_the_same_files_are_refused_by_name() -> None:
    prefix = ("--device-package-prefix", "amd-device")
    torch, vision = wheel("torch-1.0-py3-none-any.whl"), wheel("vision-1.0-py3-none-any.whl")
    plan.check_outputs([torch, vision], settings())
    with pytest.raises(plan.Refused, match="torch-1.0.*vision-1.0.*--per-wheel"):
        plan.check_outputs([torch, vision], settings(prefix))
    plan.check_outputs([torch, vision], settings(prefix, per_wheel=True))
    two = [wheel("torch-1.0-cp311-cp311-any.whl"), wheel("torch-1.0-cp312-cp312-any.whl")]
    with pytest.raises(plan.Refused, match="torch-1.0-variants.json"):
        plan.check_outputs(two, settings(("--generate-variant-wheel",)))


def test_the_option_that_differs_is_named() -> None:
    before = settings(("--compression-level", "3")).to_json()
    now = settings(("--compression-level", "9"))
    assert now.conflict(before) == "--compression-level was 3 and is 9"
    assert settings().conflict(before) == "--compression-level was 3 and is not given"
    assert settings(("--compression-level", "3")).conflict(before) is None
    twice = settings(("--exclude-targets", "a"), ("--exclude-targets", "b"))
    once = settings(("--exclude-targets", "b"))
    assert once.conflict(twice.to_json()) == "--exclude-targets was a, b and is b"
    assert twice.conflict(once.to_json()) == "--exclude-targets was b and is a, b"
    assert twice.conflict(twice.to_json()) is None
    assert settings(per_wheel=True).conflict(settings().to_json()) == "--per-wheel was not given and is given"


def refused(source: object, destination: object) -> str:
    """Why a run from one place to another cannot begin; empty if it can."""
    store, target = Store(str(source)), Store(str(destination))
    try:
        plan.check_places(store, target)
        plan.check_sources(store, plan.sources(store)[0], target)
    except plan.Refused as error:
        return str(error)
    return ""


def test_a_wheel_in_dst_is_refused_by_name(tmp_path: Path) -> None:
    inside, outside = tmp_path / "d" / "a", tmp_path / "links"
    inside.mkdir(parents=True)
    outside.mkdir()
    torch = inside / "torch-1.0-py3-none-any.whl"
    torch.write_bytes(b"")
    (tmp_path / "to-a").symlink_to(inside)
    (outside / torch.name).symlink_to(torch)
    (tmp_path / "d" / "b").mkdir()
    (tmp_path / "d" / "b" / torch.name).symlink_to(outside / torch.name)
    assert str(torch) in refused(torch, inside)
    assert str(torch) in refused(inside, tmp_path / "d")
    assert str(torch) in refused(tmp_path / "d" / "*" / "*.whl", inside)
    assert str(torch) in refused(torch, tmp_path / "to-a")
    assert torch.name in refused(outside, inside)
    assert torch.name in refused(tmp_path / "d" / "b" / torch.name, tmp_path / "d" / "b")
    assert refused(torch, tmp_path / "d" / "aa") == refused(torch, outside / "new") == ""


def test_a_wheel_in_dst_of_a_store_is_refused_by_name() -> None:
    fsspec.filesystem("memory").pipe_file("/nightly/in/torch-1.0-py3-none-any.whl", b"")
    assert "in/torch-1.0" in refused("memory://nightly/in/*.whl", "memory://nightly//out/../in/")
    assert "in/torch-1.0" in refused("memory://nightly/in/torch-1.0-py3-none-any.whl", "memory://nightly")
    assert refused("memory://nightly/in", "memory://nightly/input") == ""


def test_settings_that_cannot_be_read_are_an_error_and_damaged_ones_count_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, now = Store(str(tmp_path)), settings(("--compression-level", "9"))
    Destination(store).claim(settings(), "run")
    before = (tmp_path / SETTINGS).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(type(store.fs), "cat_file", lambda *_, **__: (_ for _ in ()).throw(TimeoutError("no answer")))
        with pytest.raises(OSError, match="settings.json cannot be read: no answer"):
            Destination(store)
    assert (tmp_path / SETTINGS).read_bytes() == before
    with pytest.raises(Conflict, match="--compression-level"):
        Destination(store).check(now)
    for damaged in (before[:-9], b"[]"):
        (tmp_path / SETTINGS).write_bytes(damaged)
        destination = Destination(store)
        destination.check(now)
        destination.claim(now, "run")
        assert store.read_json([SETTINGS]) == {SETTINGS: now.to_json()}


def test_a_central_directory_that_zipfile_cannot_read_is_left_to_kpackfs(tmp_path: Path) -> None:
    path = tmp_path / "torch-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("\u00e9", b"")
    path.write_bytes(path.read_bytes().replace("\u00e9".encode(), b"\xff\xff"))
    [source], _ = plan.sources(Store(str(path)))
    assert (source.fingerprint, source.unpacked) == (None, path.stat().st_size)
