"""The records in DST: the settings of its runs, and for each wheel the files with size and SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from .names import OWN, WheelName, checked
from .settings import Settings
from .store import File, Source, Store

JSON_VERSION = 1
SETTINGS = f"{OWN}/settings.json"

# The files of each part, by name in DST.
Parts = dict[str, dict[str, File]]


class Conflict(Exception):
    """DST was made from other wheels, or with other settings."""


@dataclass
class Manifest:
    """The parts of one wheel that are complete and verified."""

    # The name of the host wheel, whatever the input was called.
    wheel: str
    size: int
    fingerprint: str | None
    settings: str
    # All parts of the wheel; empty if there is nothing to split in it.
    expected: tuple[str, ...] = ()
    parts: Parts = field(default_factory=dict)

    @classmethod
    def of(cls, source: Source, settings: Settings) -> Manifest:
        """A manifest without parts."""
        return cls(source.host, source.size, source.fingerprint, settings.digest())

    def missing(self) -> list[str]:
        """The missing parts."""
        return [part for part in self.expected if part not in self.parts]

    def files(self) -> dict[str, File]:
        """All files of all parts."""
        return {name: file for files in self.parts.values() for name, file in files.items()}

    def to_json(self) -> dict[str, Any]:
        """The form in which DST stores it."""
        return {"json_version": JSON_VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, document: Any) -> Manifest | None:
        """None if it is not a manifest of this version, or has names that may lead out of DST."""
        try:
            if document["json_version"] != JSON_VERSION:
                return None
            parts = {
                checked(part): {checked(name): File(**file) for name, file in files.items()}
                for part, files in document["parts"].items()
            }
            return cls(
                WheelName(document["wheel"]).host,
                document["size"],
                document["fingerprint"],
                document["settings"],
                tuple(map(checked, document["expected"])),
                parts,
            )
        except (KeyError, TypeError, AttributeError, ValueError):
            return None


def whole(wheel: str) -> str:
    """Where the manifest of a wheel is."""
    return f"{OWN}/manifests/{wheel}.json"


def group(wheel: str, parts: Iterable[str]) -> str:
    """Where some parts of a wheel are noted until all of them are complete."""
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return f"{OWN}/groups/{wheel}/{digest}.json"


class Destination:
    """DST as it was when the run began."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.listing = store.listing()
        notes = [name for name in self.listing if name.startswith((f"{OWN}/manifests/", f"{OWN}/groups/"))]
        read = {name: Manifest.from_json(document) for name, document in store.read_json(notes).items()}
        # Notes of groups first, since the manifest of the whole wheel is written later.
        self._notes = {name: note for name, note in sorted(read.items()) if note and _is_of(name, note.wheel)}
        before = store.read_json([SETTINGS]).get(SETTINGS) if SETTINGS in self.listing else None
        # If it is damaged: each manifest has the digest of its settings, so wheels with other options are still refused.
        self._settings = before if isinstance(before, dict) else None

    def check(self, settings: Settings) -> None:
        """Refuses settings that differ from those of earlier runs."""
        if self._settings is not None and (conflict := settings.conflict(self._settings)):
            raise Conflict(f"it was made with other options: {conflict}; choose another DST, or --force")

    def claim(self, settings: Settings, run: str) -> None:
        """Writes the settings, unless the same ones are there."""
        if self._settings != settings.to_json():
            self.store.write_json(SETTINGS, run, settings.to_json())

    def state(self, source: Source, settings: Settings) -> Manifest | None:
        """The parts of a wheel that exist with right sizes and etags; None if nothing is known about the wheel."""
        known = None
        for name in self._names(source.host):
            note = self._notes[name]
            if note.settings != settings.digest():
                raise Conflict("it was split with other options; choose another DST, or --force")
            if (note.size, note.fingerprint) != (source.size, source.fingerprint):
                raise Conflict("DST has the split of another wheel of this name; choose another DST, or --force")
            known = known or Manifest.of(source, settings)
            known.expected = note.expected
            known.parts.update(note.parts)
        if known is not None:
            known.parts = {part: files for part, files in known.parts.items() if self.is_there(files)}
        return known

    def wheels(self) -> set[str]:
        """The wheels that have files in DST."""
        return {note.wheel for note in self._notes.values() if note.parts}

    def is_whole(self, wheel: str) -> bool:
        """Whether the manifest of the whole wheel exists."""
        return whole(wheel) in self._notes

    def is_there(self, files: dict[str, File]) -> bool:
        """Whether all files of a part have the size and the etag that they were published with."""
        for name, file in files.items():
            size, etag = self.listing.get(name, (None, None))
            if size != file.size or (file.etag and etag and file.etag != etag):
                return False
        return True

    def forget(self, wheel: str) -> None:
        """Deletes all files of a wheel."""
        names = self._names(wheel)
        # The notes are deleted first: after an interruption the next run finds files without a note, and makes them again.
        self.store.remove(names)
        for name in names:
            self.store.remove(self._notes.pop(name).files())

    def finish(self, manifest: Manifest, run: str) -> None:
        """Writes the manifest of a wheel with all parts complete. It replaces the notes of groups."""
        self.store.write_json(whole(manifest.wheel), run, manifest.to_json())
        self.store.remove_below(group(manifest.wheel, ()).rpartition("/")[0])

    def _names(self, wheel: str) -> list[str]:
        return [name for name in self._notes if _is_of(name, wheel)]


def _is_of(name: str, wheel: str) -> bool:
    """Whether a manifest is one of a wheel."""
    return name == whole(wheel) or name.startswith(f"{OWN}/groups/{wheel}/")
