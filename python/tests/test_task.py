"""What a worker does, without Dask."""

from __future__ import annotations

from pathlib import Path

import pytest

from kpackfs_fleet import kpackfs
from kpackfs_fleet.settings import Settings
from kpackfs_fleet.task import Worker


def settings(epoch: str | None = None) -> Settings:
    return Settings("wheel", (), False, epoch, "0.2.0")


@pytest.mark.parametrize("epoch", [None, "1"])
def test_the_epoch_is_that_of_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: str | None) -> None:
    monkeypatch.setenv("KPACKFS", "/usr/bin/printenv")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "2")
    environment = Worker(tmp_path, 1, None, 1).environment(settings(epoch))
    if epoch is None:
        with pytest.raises(kpackfs.KpackfsError):
            kpackfs.run(["SOURCE_DATE_EPOCH"], environment)
    else:
        assert kpackfs.run(["SOURCE_DATE_EPOCH"], environment).output == "1\n"


@pytest.mark.parametrize(("end", "wanted"), [("exit 2", "exit code 2"), ("kill -TERM $$", "ended by SIGTERM"), ("exit 5", None)])
def test_options_are_right_if_kpackfs_looks_for_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, wanted: str | None
) -> None:
    program = tmp_path / "kpackfs"
    program.write_text(f"#!/bin/sh\n{end}\n")
    program.chmod(0o755)
    monkeypatch.setenv("KPACKFS", str(program))
    if wanted is None:
        kpackfs.check([])
    else:
        with pytest.raises(kpackfs.KpackfsError, match=wanted):
            kpackfs.check([])
