"""Wheels that a worker has fetched, on its own disk and below a bound."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from .store import Source, Store, directory


class ChangedSource(OSError):
    """What was fetched is not what the run was planned with."""


class WheelCache:
    """The wheels below a directory; the least recently used ones go first, and none that is in use."""

    def __init__(self, place: Path, bound: int) -> None:
        self.place, self.bound = place, bound
        self._lock = threading.Lock()
        self._fetching: dict[str, threading.Lock] = {}
        # Size and number of users, the least recently used first.
        self._held: OrderedDict[str, list[int]] = OrderedDict()

    @contextlib.contextmanager
    def hold(self, source: Source) -> Iterator[tuple[Path, bool]]:
        """The wheel as a file of this machine while it is used, and whether it was fetched just now."""
        key = f"{source.fingerprint or 'unknown'}-{source.size}"
        path = self.place / key / source.name
        with self._lock:
            turn = self._fetching.setdefault(key, threading.Lock())
        with turn:
            with self._lock:
                is_new = key not in self._held or not path.exists()
                users = 0 if key not in self._held else self._held[key][1]
                self._held[key] = [source.size, users + 1]
                self._held.move_to_end(key)
                self._evict()
            try:
                if is_new:
                    _fetch(source, path)
            except BaseException:
                self._release(key)
                self.drop(source)
                raise
        try:
            yield path, is_new
        finally:
            self._release(key)

    def drop(self, source: Source) -> None:
        """Forgets a wheel that nobody uses."""
        key = f"{source.fingerprint or 'unknown'}-{source.size}"
        with self._lock:
            if self._held.get(key, [0, 0])[1] == 0:
                self._held.pop(key, None)
                shutil.rmtree(self.place / key, ignore_errors=True)

    def clear(self) -> None:
        """Forgets all wheels that nobody uses, to have room on the disk."""
        with self._lock:
            self._evict(0)

    def _release(self, key: str) -> None:
        with self._lock:
            self._held[key][1] -= 1
            self._evict()

    def _evict(self, bound: int | None = None) -> None:
        bound = self.bound if bound is None else bound
        for key in list(self._held):
            if sum(size for size, _ in self._held.values()) <= bound:
                return
            if self._held[key][1] == 0:
                del self._held[key]
                shutil.rmtree(self.place / key, ignore_errors=True)


def _fetch(source: Source, path: Path) -> None:
    """Fetches a wheel and sees that it is the one that was planned."""
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
