"""Where wheels come from and where splits go: a directory or an object store, by its fsspec URL."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import shutil
import stat
import struct
import uuid
import zipfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from .names import OWN, WheelName, checked

# A directory for each run, with files that have no final name yet, and the records of its uploads.
TEMPORARY = f"{OWN}/tmp"
PIECE = 1 << 20
# What an upload to S3 sends with each request, the suffix of its record, and the number of such requests at a time.
PART = 50 << 20
RECORD = ".upload"
REQUESTS = 4
# Stores where a file appears under its name when it is complete. On others it grows under its name, and can be renamed.
OBJECT_STORES = {"s3", "gs", "gcs", "az", "abfs", "abfss", "oss", "oci", "memory"}


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
        protocols = {self.fs.protocol} if isinstance(self.fs.protocol, str) else set(self.fs.protocol)
        self._has_objects, self._is_s3 = bool(protocols & OBJECT_STORES), "s3" in protocols

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
        files = {path: info for path, info in found.items() if info["type"] == "file" or self.fs.isfile(path)}
        return {self._name(path): (info["size"], _etag(info)) for path, info in files.items()}

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
        with self._complete(self.path(name), run) as place:
            self.fs.pipe_file(place, (json.dumps(document, indent=1, sort_keys=True) + "\n").encode())

    def publish(self, local: Path, name: str, run: str) -> File:
        """Moves a file to the store, where it appears under its name when it is complete."""
        size, digest = local.stat().st_size, sha256(local)
        with self._complete(self.path(name), run) as place:
            if self.is_local:
                # On the same file system it is renamed; otherwise the kernel copies it, with its mode and times.
                shutil.move(local, place)
            elif self._is_s3 and size > PART:
                self._upload(local, size, name, run)
            else:
                self.fs.put_file(str(local), place)
            self.fs.invalidate_cache()
            info = self.fs.info(place)
            if info["size"] != size:
                raise OSError(f"{name}: {size} bytes were written to the store, which has {info['size']}")
        return File(size, digest, None if self.is_local else _etag(info))

    def modified(self, name: str) -> datetime.datetime | None:
        """When a file was written, by the clock of the store; None if it is gone, or the store does not know."""
        try:
            return self.fs.modified(self.path(name))
        except (FileNotFoundError, NotImplementedError):
            return None

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

    def remove_temporary(self, run: str) -> None:
        """Deletes the temporary files of a run, and aborts its uploads to S3."""
        place = f"{TEMPORARY}/{run}"
        if self._is_s3:
            # All else that a killed run left here are files, perhaps large ones: those of 0.2.0 had temporary names.
            for upload in self.read_json(name for name in self._files(place) if name.endswith(RECORD)).values():
                with contextlib.suppress(KeyError, TypeError, AttributeError, ValueError):
                    self._abort(self._key(checked(upload["upload_to"])), upload["id"])
        self.remove_below(place)

    def remove_below(self, name: str) -> None:
        """Deletes a directory, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            if self._has_objects:
                # `rm` would take names for patterns.
                self.remove(self._files(name))
            else:
                self.fs.rm(self.path(name), recursive=True)

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

    @contextlib.contextmanager
    def _complete(self, final: str, run: str) -> Iterator[str]:
        """Where to write a file that has its final name when it is complete: that name on object stores, or another one."""
        if self._has_objects:
            yield final
            return
        temporary = self._temporary(run)
        self.fs.makedirs(temporary.rpartition("/")[0], exist_ok=True)
        try:
            yield temporary
            self._rename(temporary, final)
        except OSError:
            # If the store is full, others need the room.
            with contextlib.suppress(OSError):
                self.fs.rm_file(temporary)
            raise

    def _temporary(self, run: str) -> str:
        return self.path(f"{TEMPORARY}/{run}/{uuid.uuid4().hex}")

    def _rename(self, temporary: str, final: str) -> None:
        self.fs.makedirs(final.rpartition("/")[0], exist_ok=True)
        if self.is_local:
            os.replace(temporary, final)
        else:
            self.fs.mv(temporary, final)

    def _upload(self, local: Path, size: int, name: str, run: str) -> None:
        """Uploads a file to S3 in parts. A record of the upload has its ID, so that it can be aborted if this process is killed."""
        key, record = self._key(name), self._temporary(run) + RECORD
        upload = self.fs.call_s3("create_multipart_upload", **key)["UploadId"]

        def send(start: int) -> dict[str, object]:
            with local.open("rb") as file:
                file.seek(start)
                number = start // PART + 1
                sent = self.fs.call_s3("upload_part", **key, UploadId=upload, PartNumber=number, Body=file.read(PART))
            return {"PartNumber": number, "ETag": sent["ETag"]}

        try:
            # No part is sent before the record exists: S3 charges for parts until their upload is aborted.
            self.fs.pipe_file(record, json.dumps({"upload_to": name, "id": upload}).encode())
            with ThreadPoolExecutor(REQUESTS) as pool:
                parts = list(pool.map(send, range(0, size, PART)))
            self.fs.call_s3("complete_multipart_upload", **key, UploadId=upload, MultipartUpload={"Parts": parts})
        except BaseException:
            self._abort(key, upload)
            raise
        self.fs.rm_file(record)

    def _abort(self, key: dict[str, str], upload: str) -> None:
        # It is completed or aborted already if S3 does not know it.
        with contextlib.suppress(FileNotFoundError):
            self.fs.call_s3("abort_multipart_upload", **key, UploadId=upload)

    def _key(self, name: str) -> dict[str, str]:
        bucket, key, _ = self.fs.split_path(self.path(name))
        return {"Bucket": bucket, "Key": key}


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
