"""Where wheels come from and where splits go: a directory or an object store, by its fsspec URL."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import struct
import uuid
import zipfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from .names import OWN, WheelName

PIECE = 1 << 20


@dataclass(frozen=True)
class File:
    """A file that was published."""

    size: int
    sha256: str
    # The etag that the store has for the content; None if it has none.
    etag: str | None = None


@dataclass(frozen=True)
class Source:
    """A wheel to split."""

    url: str
    name: str
    size: int
    # Of the central directory, which has the CRC-32 of each member; None if it cannot be read.
    fingerprint: str | None
    # All members, unpacked.
    unpacked: int

    @property
    def host(self) -> str:
        """The name of its host wheel. DST knows the wheel by this name, whatever the input is called."""
        return WheelName(self.name).host


class Store:
    """A directory of a file system that fsspec knows."""

    def __init__(self, url: str) -> None:
        self.fs, root = url_to_fs(url)
        self.root = root.rstrip("/") or "/"
        self.is_local = isinstance(self.fs, LocalFileSystem)

    def path(self, name: str) -> str:
        """A file below it, as the file system calls it."""
        return f"{self.root.rstrip('/')}/{name}" if name else self.root

    def url(self, path: str) -> str:
        """A file as any process on any machine calls it."""
        return self.fs.unstrip_protocol(path)

    def wheels(self) -> list[str]:
        """The wheels at or below it, or those that its pattern names."""
        if self.fs.isfile(self.root):
            return [self.root]
        if any(sign in self.root for sign in "*?["):
            found = self.fs.glob(self.root)
        else:
            found = self.fs.find(self.root)
        return sorted(path for path in found if path.endswith(".whl") and f"/{OWN}/" not in path)

    def listing(self) -> dict[str, tuple[int, str | None]]:
        """Size and etag of every file below it, by name. What is no file counts as missing: nothing reads a FIFO."""
        self.fs.invalidate_cache()
        try:
            found = self.fs.find(self.root, detail=True)
        except FileNotFoundError:
            return {}
        start = len(self.path("x")) - 1
        files = {path: info for path, info in found.items() if info["type"] == "file" or self.fs.isfile(path)}
        return {path[start:]: (info["size"], _etag(info)) for path, info in files.items()}

    def read_json(self, names: Iterable[str]) -> dict[str, Any]:
        """Reads JSON files. One that is truncated (not JSON) or deleted meanwhile counts as missing; others must be readable."""
        documents, wanted = {}, list(names)
        with ThreadPoolExecutor(16) as pool:
            # `cat` of several files would take names for patterns.
            contents = list(pool.map(self._content, wanted))
        for name, content in zip(wanted, contents):
            # Another run deletes the notes of groups when a wheel is complete.
            with contextlib.suppress(ValueError):
                documents[name] = json.loads(content)
        return documents

    def write_json(self, name: str, run: str, document: Any) -> None:
        """Writes a file so that it appears under its name when it is complete."""
        temporary = self._temporary(run)
        with self.fs.open(temporary, "wb") as file:
            file.write((json.dumps(document, indent=1, sort_keys=True) + "\n").encode())
        self._rename(temporary, self.path(name))

    def publish(self, local: Path, name: str, run: str) -> File:
        """Moves a file to a temporary name, and to its final name when it is complete."""
        temporary, final = self._temporary(run), self.path(name)
        size, digest = local.stat().st_size, sha256(local)
        try:
            if self.is_local:
                # On the same file system it is renamed; otherwise the kernel copies it, with its mode and times.
                shutil.move(local, temporary)
            else:
                self.fs.put_file(str(local), temporary)
            stored = self.fs.info(temporary)["size"]
            if stored != size:
                raise OSError(f"{name}: {size} bytes were written to the store, which has {stored}")
            self._rename(temporary, final)
        except OSError:
            # If the store is full, others need the room.
            with contextlib.suppress(OSError):
                self.fs.rm_file(temporary)
            raise
        etag = None if self.is_local else _etag(self.fs.info(final, refresh=True))
        return File(size, digest, etag)

    def fetch(self, path: str, local: Path) -> None:
        """Copies a file from the store."""
        self.fs.get_file(path, str(local))

    def sha256(self, name: str) -> str:
        """The digest of a file in the store."""
        digest = hashlib.sha256()
        with self.fs.open(self.path(name), "rb", cache_type="readahead") as file:
            while piece := file.read(8 * PIECE):
                digest.update(piece)
        return digest.hexdigest()

    def remove(self, names: Iterable[str]) -> None:
        """Deletes files, if they exist."""
        for name in names:
            try:
                self.fs.rm_file(self.path(name))
            except FileNotFoundError:
                continue

    def remove_temporary(self, runs: Iterable[str]) -> None:
        """Deletes temporary files that runs left."""
        for run in runs:
            self.remove_below(f"{OWN}/tmp/{run}")

    def remove_below(self, name: str) -> None:
        """Deletes a directory, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            if self.is_local:
                self.fs.rm(self.path(name), recursive=True)
            else:
                # `rm` would take names for patterns.
                self.remove(self._files(name))

    def _name(self, path: str) -> str:
        return path[len(self.path("x")) - 1 :]

    def _files(self, name: str) -> list[str]:
        """All files below a directory, by name."""
        self.fs.invalidate_cache()
        return [self._name(path) for path in self.fs.find(self.path(name))]

    def _content(self, name: str) -> bytes:
        """The content of a file; nothing if it does not exist."""
        try:
            return self.fs.cat_file(self.path(name))
        except FileNotFoundError:
            return b""
        except Exception as error:
            raise OSError(f"{self.url(self.path(name))} cannot be read: {error or repr(error)}") from error

    def _temporary(self, run: str) -> str:
        path = self.path(f"{OWN}/tmp/{run}/{uuid.uuid4().hex}")
        self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        return path

    def _rename(self, temporary: str, final: str) -> None:
        if self.is_local:
            os.makedirs(os.path.dirname(final), exist_ok=True)
            os.replace(temporary, final)
        else:
            # An object store copies on its side; the copy appears when it is complete.
            self.fs.mv(temporary, final)


def describe(store: Store, path: str) -> Source:
    """A wheel of a store, known from its central directory.

    Raises ValueError if it is not named as a wheel, OSError if it is no file or cannot be opened.
    """
    name = path.rpartition("/")[2]
    WheelName(name)
    with _opened(store, path) as file:
        size = file.seek(0, os.SEEK_END)
        fingerprint, unpacked = None, size
        # zipfile raises ValueError and struct.error, too: names that are not UTF-8, fields that are truncated.
        # kpackfs reports what is wrong with it.
        with contextlib.suppress(zipfile.BadZipFile, NotImplementedError, ValueError, struct.error):
            fingerprint, unpacked = directory(file)
    return Source(store.url(path), name, size, fingerprint, unpacked)


def _opened(store: Store, path: str) -> Any:
    """Opens a file, and nothing else: a FIFO would block, and a device may have no end."""
    if not store.is_local:
        if store.fs.info(path)["type"] != "file":
            raise OSError("it is no regular file")
        return store.fs.open(path, "rb", block_size=PIECE)
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError("it is no regular file")
    return file


def directory(file: Any) -> tuple[str, int]:
    """The fingerprint of a wheel, and the size of its members unpacked."""
    with zipfile.ZipFile(file) as wheel:
        members = wheel.infolist()
    lines = (f"{m.filename}\0{m.CRC}\0{m.file_size}\0{m.compress_size}\0{m.header_offset}\n" for m in members)
    digest = hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
    return digest, sum(member.file_size for member in members)


def sha256(path: Path) -> str:
    """The digest of a file on this machine."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _etag(info: dict[str, Any]) -> str | None:
    etag = info.get("ETag") or info.get("etag")
    return str(etag).strip('"') if etag else None
