"""Directories for the files of local workers. The next run deletes those of runs that were killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX = "kpackfs-fleet-run-"

_NAME = re.compile(rf"{re.escape(PREFIX)}[0-9a-z_]+", re.ASCII)


@contextlib.contextmanager
def scratch(parent: str | None) -> Iterator[str]:
    """A directory of this run, in `parent` or where temporary files are, which is deleted at the end."""
    place = Path(parent or tempfile.gettempdir())
    for entry in os.scandir(place):
        if _NAME.fullmatch(entry.name):
            _delete_abandoned(place / entry.name)
    while True:
        with tempfile.TemporaryDirectory(prefix=PREFIX, dir=place) as name, _locked(Path(name)) as mine:
            # Another run may have found it before it was locked.
            if mine is not False:
                yield name
                return


def _delete_abandoned(path: Path) -> None:
    """Deletes a directory of this user that no living run has locked."""
    with contextlib.suppress(OSError):
        if path.lstat().st_uid == os.geteuid():
            with _locked(path) as mine:
                if mine:
                    shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool | None]:
    """Locks a directory as long as this process lives. False if another process has locked or deleted it; None if its file
    system has no locks."""
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield False
        return
    try:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        except OSError:
            yield None
        else:
            yield path.exists() and os.path.samestat(path.stat(), os.fstat(directory))
    finally:
        os.close(directory)
