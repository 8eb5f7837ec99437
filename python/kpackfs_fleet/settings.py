"""The settings of a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

FORMATS = ("wheel", "directory", "thin-wheel")

ONLY_SPLIT = frozenset(
    {
        "--device-requires-dist",
        "--digests",
        "--generate-variant-wheel",
        "--keep-version",
        "--local-version",
        "--requirements",
        "--requirements-extras",
        "--variant-label",
    }
)
"""Options of `split` that `inspect` refuses: what they change is not in its report."""


@dataclass(frozen=True)
class Settings:
    """Everything that the bytes of the outputs depend on."""

    format: str
    options: tuple[tuple[str, ...], ...]
    per_wheel: bool
    epoch: str | None
    kpackfs: str

    def planning(self) -> list[str]:
        """The options that `inspect` and `split` have in common."""
        return [word for option in self.options if option[0] not in ONLY_SPLIT for word in option]

    def splitting(self) -> list[str]:
        """All options of `split`."""
        return ["--format", self.format, *(word for option in self.options for word in option)]

    def value(self, name: str) -> str | None:
        """The value of an option that has one; None if it is not given."""
        return next((option[1] for option in self.options if option[0] == name), None)

    def variant_label(self) -> str | None:
        """The label of the variant wheels; None if none are made."""
        if not any(option[0] == "--generate-variant-wheel" for option in self.options):
            return None
        return self.value("--variant-label") or "variant"

    def to_json(self) -> dict[str, Any]:
        """The form in which DST stores it."""
        return {**asdict(self), "options": [list(option) for option in self.options]}

    def digest(self) -> str:
        """Settings with the same digest make the same bytes."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    def conflict(self, other: dict[str, Any]) -> str | None:
        """A description of the difference to the settings of an earlier run."""
        mine = self.to_json()
        differing = [name for name in mine if mine[name] != other.get(name)]
        if not differing:
            return None
        name = differing[0]
        if name != "options":
            label = {"epoch": "SOURCE_DATE_EPOCH", "kpackfs": "kpackfs", "per_wheel": "--per-wheel", "format": "--format"}[name]
            return f"{label} was {_shown(other.get(name))} and is {_shown(mine[name])}"
        before, now = _by_name(other.get("options") or []), _by_name(self.options)
        option = next((key for key in sorted({*before, *now}) if before.get(key) != now.get(key)), None)
        if option is None:
            return "the options are in another order"
        return f"{option} was {_given(before, option)} and is {_given(now, option)}"


@dataclass(frozen=True)
class Limits:
    """What a worker may use; None leaves it to the worker. The bytes of the outputs do not depend on it."""

    jobs: int | None = None
    memory: int | None = None
    frame_cache: int | None = None
    cache: int = 20480


def _shown(value: object) -> str:
    if value is None or value == "":
        return "unset"
    return {True: "given", False: "not given"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _by_name(options: Iterable[Sequence[str]]) -> dict[str, list[str]]:
    """The values of each option; options may be repeated."""
    found: dict[str, list[str]] = {}
    for name, *values in options:
        found.setdefault(name, []).append(" ".join(values))
    return found


def _given(options: dict[str, list[str]], name: str) -> str:
    if name not in options:
        return "not given"
    return ", ".join(filter(None, options[name])) or "given"
