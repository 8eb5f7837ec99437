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
