"""Wheels that a worker has fetched, on its own disk and below a bound."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .store import Source, Store, directory


class ChangedSource(OSError):
    """A fetched wheel differs from the one that the run was planned with."""


@dataclass(eq=False)
class _Copy:
    """A fetched wheel, in a directory of its own."""

    key: str
    path: Path
    size: int
    users: int = 0


class WheelCache:
    """The wheels below a directory. The least recently used ones are deleted first; wheels in use are kept."""

    def __init__(self, place: Path, bound: int) -> None:
        self.place, self.bound = place, bound
        self._lock = threading.Lock()
        self._fetching: dict[str, threading.Lock] = {}
        self._generations = itertools.count()
        # All that are on the disk, the least recently used first.
        self._copies: list[_Copy] = []
        # Open wheels, by key. A dropped wheel stays on the disk until its last user has closed it.
        self._current: dict[str, _Copy] = {}

    @contextlib.contextmanager
    def hold(self, source: Source) -> Iterator[tuple[Path, bool]]:
        """The wheel as a file of this machine while it is used, and whether it was fetched just now."""
        key = f"{source.fingerprint or 'unknown'}-{source.size}"
        with self._lock:
            turn = self._fetching.setdefault(key, threading.Lock())
        with turn:
            copy, is_new = self._use(key, source)
            try:
                if is_new:
                    _fetch(source, copy.path)
            except BaseException:
                self.drop(copy.path)
                self._release(copy)
                raise
        try:
            yield copy.path, is_new
        finally:
            self._release(copy)

    def drop(self, path: Path) -> None:
        """Forgets a fetched wheel: the next `hold` fetches it again. Its users keep their file."""
        with self._lock:
            for copy in [copy for copy in self._copies if copy.path == path]:
                self._forget(copy)

    def clear(self) -> None:
        """Forgets all wheels that are not in use, to have room on the disk."""
        with self._lock:
            self._evict(0)

    def _use(self, key: str, source: Source) -> tuple[_Copy, bool]:
        """Adds a user to the copy of a wheel. Returns the copy, and whether it must still be fetched."""
        with self._lock:
            copy = self._current.get(key)
            if copy is not None and not copy.path.exists():
                self._forget(copy)
                copy = None
            is_new = copy is None
            if copy is None:
                copy = _Copy(key, self.place / f"{key}-{next(self._generations)}" / source.name, source.size)
                self._current[key] = copy
            else:
                self._copies.remove(copy)
            self._copies.append(copy)
            copy.users += 1
            self._evict()
            return copy, is_new

    def _release(self, copy: _Copy) -> None:
        with self._lock:
            copy.users -= 1
            if self._current.get(copy.key) is not copy:
                self._delete(copy)
            self._evict()

    def _forget(self, copy: _Copy) -> None:
        if self._current.get(copy.key) is copy:
            del self._current[copy.key]
        self._delete(copy)

    def _delete(self, copy: _Copy) -> None:
        if not copy.users:
            self._copies.remove(copy)
            shutil.rmtree(copy.path.parent, ignore_errors=True)

    def _evict(self, bound: int | None = None) -> None:
        bound = self.bound if bound is None else bound
        for copy in list(self._copies):
            if sum(held.size for held in self._copies) <= bound:
                return
            if not copy.users:
                self._forget(copy)


def _fetch(source: Source, path: Path) -> None:
    """Fetches a wheel and checks that it is the planned one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    store = Store(source.url)
    store.fetch(store.root, part)
    size = part.stat().st_size
    if size != source.size:
        raise ChangedSource(f"{source.url}: {size} bytes were fetched of {source.size}")
    if source.fingerprint is not None:
        with part.open("rb") as file:
            fingerprint = directory(file)[0]
        if fingerprint != source.fingerprint:
            raise ChangedSource(f"{source.url}: its central directory is another one than when the run was planned")
    part.rename(path)
