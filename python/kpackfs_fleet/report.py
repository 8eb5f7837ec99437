"""The result of a run, as a table and as JSON."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .manifest import Parts
from .names import escaped

JSON_VERSION = 1


@dataclass
class Wheel:
    """The result for one wheel."""

    name: str
    size: int
    # there, split, completed, nothing to split, failed
    status: str = ""
    reason: str = ""
    tasks: int = 0
    parts: Parts = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    cpu_seconds: float = 0.0

    def sizes(self) -> dict[str, int]:
        """The bytes of each part."""
        return {part: sum(file.size for file in files.values()) for part, files in sorted(self.parts.items())}


@dataclass
class Report:
    """The results for all wheels."""

    source: str
    destination: str
    format: str
    wheels: list[Wheel] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    failure: str = ""

    def failed(self) -> list[Wheel]:
        """The wheels that are not complete."""
        return [wheel for wheel in self.wheels if wheel.status == "failed"]

    def targets(self) -> dict[str, dict[str, int]]:
        """For each part, the number of wheels that have it and their bytes."""
        found: dict[str, dict[str, int]] = defaultdict(lambda: {"wheels": 0, "size": 0})
        for wheel in self.wheels:
            for part, size in wheel.sizes().items():
                found[part]["wheels"] += 1
                found[part]["size"] += size
        return dict(sorted(found.items()))

    def to_json(self) -> dict[str, Any]:
        """docs/fleet.md describes it."""
        wheels = [
            {
                "name": wheel.name,
                "size": wheel.size,
                "status": wheel.status,
                "reason": wheel.reason,
                "tasks": wheel.tasks,
                "parts": wheel.sizes(),
                "warnings": wheel.warnings,
                "cpu_seconds": round(wheel.cpu_seconds, 3),
            }
            for wheel in self.wheels
        ]
        return {
            "json_version": JSON_VERSION,
            "source": self.source,
            "destination": self.destination,
            "format": self.format,
            "failure": self.failure,
            "seconds": round(self.seconds, 3),
            "counters": {name: self.counters[name] for name in COUNTERS},
            "wheels": wheels,
            "targets": self.targets(),
        }

    def table(self) -> str:
        """The report as a table."""
        rows = [("wheel", "status", "tasks", "input", "host", "device", "parts", "CPU s")]
        for wheel in self.wheels:
            sizes = wheel.sizes()
            host = sizes.pop("host", 0)
            device = sum(sizes.values())
            seconds = f"{wheel.cpu_seconds:.1f}"
            tasks, parts = str(wheel.tasks), str(len(sizes))
            rows.append((wheel.name, wheel.status, tasks, size(wheel.size), size(host), size(device), parts, seconds))
        lines = _aligned(rows)
        targets = [("part", "wheels", "size")]
        targets += [(part, str(sums["wheels"]), size(sums["size"])) for part, sums in self.targets().items()]
        if len(targets) > 1:
            lines += ["", *_aligned(targets)]
        counts = ", ".join(f"{self.counters[name]} {name.replace('_', ' ')}" for name in COUNTERS if self.counters[name])
        lines += ["", f"{self.seconds:.1f} s; {counts or 'nothing was done'}"]
        for wheel in self.wheels:
            lines += [escaped(f"{wheel.name}: warning: {line}") for line in wheel.warnings]
        for wheel in self.failed():
            lines += [escaped(f"{wheel.name}: failed: {line}") for line in wheel.reason.splitlines()]
        if self.failure:
            lines.append(escaped(f"kpackfs-fleet: {self.failure}"))
        return "\n".join(lines)


COUNTERS = (
    "wheels_there",
    "wheels_opened",
    "wheels_fetched",
    "bytes_fetched",
    "damaged_downloads",
    "inspections",
    "splits",
    "verifications",
    "files_checked",
    "files_published",
    "bytes_published",
    "notes_written",
)


def size(number: int) -> str:
    """A number of bytes in a readable unit."""
    amount, unit = float(number), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    rows = [tuple(map(escaped, row)) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    left = (0, 1)
    return [
        "  ".join(
            cell.ljust(width) if column in left[: len(rows[0]) - 2] else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]
