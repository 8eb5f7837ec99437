"""Where each part of a split is: in the output of kpackfs, and in DST."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .names import WheelName, normalised
from .settings import Settings

HOST = "host"
VARIANT = "variant"
STATEMENT = Path(".kpackfs", "split.json")


class Unclear(Exception):
    """The part of a wheel cannot be derived from its name."""


class Layout:
    """The parts of a wheel, and the part that each file belongs to."""

    def __init__(self, wheel: str, settings: Settings, expected: Iterable[str], wheels: dict[str, str]) -> None:
        self.wheel, self.settings = wheel, settings
        # All parts of the wheel; empty if they are not known.
        self.expected = tuple(expected)
        # With --format wheel: the part that each wheel contains.
        self.wheels = wheels

    @classmethod
    def of_split(cls, wheel: str, settings: Settings, stage: Path) -> Layout:
        """The layout of a whole split, as kpackfs wrote it."""
        if settings.format == "thin-wheel":
            return cls(wheel, settings, sorted(place.name for place in stage.iterdir()), {})
        if settings.format == "directory":
            return cls(wheel, settings, json.loads((stage / STATEMENT).read_text())["parts"], {})
        names = sorted(path.name for path in stage.iterdir())
        prefix = normalised(settings.value("--device-package-prefix") or f"amd-{_distribution(wheel)}-device") + "_"
        parts = {name: _distribution(name).removeprefix(prefix) for name in names if _distribution(name).startswith(prefix)}
        others = [name for name in names if name not in parts]
        if not parts or len(others) != 1:
            raise Unclear(", ".join(others))
        return cls(wheel, settings, (HOST, *sorted(parts.values())), {**parts, others[0]: HOST})

    def part_of(self, path: Path) -> str:
        """The part that a file of the split belongs to."""
        if self.settings.format == "wheel":
            return self.wheels.get(path.name, VARIANT if path.suffix == ".json" and path.parts[0] != ".kpackfs" else "")
        return HOST if path.parts[0] == ".kpackfs" else path.parts[0]

    def name_of(self, path: Path) -> str:
        """The name of a file in DST: as one machine's `kpackfs split -o DST` would write it."""
        name = path.name if self.settings.format == "wheel" else path.as_posix()
        return f"{WheelName(self.wheel).host.removesuffix('.whl')}/{name}" if self.settings.per_wheel else name


class Selection:
    """How kpackfs writes some parts of a wheel that `kpackfs inspect --json` has read."""

    def __init__(self, wheel: str, settings: Settings, inspected: dict[str, Any]) -> None:
        self.settings = settings
        device, users = inspected["device"], inspected["users"]
        self.code = {_part(settings, key): sum(archive["code_size"] for archive in it["archives"]) for key, it in device.items()}
        self.amounts = {part: self.code[part] + it["database_size"] for part, it in zip(self.code, device.values())}
        self.keys = {
            _part(settings, user): [_part(settings, key) for key in it["keys"]] for user, it in users.items() if user in device
        }
        devices = {it["wheel"]["name"]: _part(settings, key) for key, it in inspected["parts"].items() if it["wheel"]}
        hosts = [it["name"] for it in inspected["host_wheels"]]
        if label := settings.variant_label():
            hosts += [f"{host.removesuffix('.whl')}-{label}.whl" for host in hosts]
        expected: tuple[str, ...] = (HOST, *self.code, *((VARIANT,) if len(hosts) > 1 else ()))
        if settings.format == "thin-wheel":
            # A family or a sub-family is for more GPUs than those with code of their own, and inspect does not name them.
            is_known = all(part["level"] == "target" for part in device.values())
            expected = tuple(users) if is_known else ()
        self.layout = Layout(wheel, settings, expected, {**devices, **dict(zip(hosts, (HOST, VARIANT)))})

    def views(self, parts: tuple[str, ...]) -> list[str]:
        """The parts that kpackfs must write: the wanted ones, and those that verification needs."""
        if VARIANT in parts:
            return []
        if self.settings.format == "thin-wheel":
            return list(parts)
        parts = self._verifiable(parts)
        if self.settings.format == "directory":
            return list(parts)
        names = {part: name for name, part in self.layout.wheels.items()}
        return [f"wheels/{names[part]}" for part in parts]

    def _verifiable(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """Parts with the host part, the families that they belong to, and code for at least one GPU."""
        families = [key for part in parts for key in self.keys.get(part, ())]
        needed = dict.fromkeys((HOST, *parts, *families))
        if not any(self.code.get(part) for part in needed):
            needed.update(dict.fromkeys(sorted(filter(self.code.get, self.code), key=lambda key: self.code[key])[:1]))
        more = [key for part in needed for key in self.keys.get(part, ())]
        return tuple(dict.fromkeys((*needed, *more)))


def complete_statement(stage: Path, expected: Iterable[str]) -> None:
    """Changes `.kpackfs/split.json` of some parts to that of the whole split (docs/json.md)."""
    file = stage / STATEMENT
    statement = json.loads(file.read_text())
    statement.pop("views", None)
    statement["parts"] = list(expected)
    file.write_text(json.dumps(statement, indent=2, ensure_ascii=False) + "\n")


def _part(settings: Settings, key: str) -> str:
    """What a part is called: by its key, or with --format wheel as in the name of its wheel, which has no hyphen."""
    return key.replace("-", "_") if settings.format == "wheel" else key


def _distribution(wheel: str) -> str:
    return normalised(wheel.partition("-")[0])
