"""What a worker does for a wheel: fetch it, split it with kpackfs, verify the result, publish it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import kpackfs, manifest
from .cache import ChangedSource, WheelCache
from .kpackfs import KpackfsError
from .manifest import Manifest, Parts
from .settings import Limits, Settings
from .store import Source, Store, sha256

HOST = "host"
VARIANT = "variant"


class Retry(Exception):
    """Something that may go better on another worker, or a little later."""


@dataclass(frozen=True)
class Order:
    """A wheel, or some parts of one, to split."""

    source: Source
    destination: str
    settings: Settings
    limits: Limits
    run: str
    # All of them if there are none.
    parts: tuple[str, ...] = ()
    # All parts that the wheel has, if that is known.
    expected: tuple[str, ...] = ()


@dataclass
class Outcome:
    """What came of an order."""

    wheel: str
    # Empty unless it failed for good.
    failure: str = ""
    expected: tuple[str, ...] = ()
    parts: Parts = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    cpu_seconds: float = 0.0
    seconds: float = 0.0
    counters: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Inspected:
    """What planning has to know of a large wheel."""

    wheel: str
    worker: str
    # The bytes of code of each part; the host part has none.
    code: dict[str, int] = field(default_factory=dict)
    # The parts of its split; none if `inspect` does not tell.
    parts: tuple[str, ...] = ()
    failure: str = ""
    cpu_seconds: float = 0.0
    counters: Counter[str] = field(default_factory=Counter)


class Worker:
    """The place of a worker on its disk, and what it may use."""

    def __init__(self, place: Path, jobs: int, memory: int | None, cache: int) -> None:
        self.place, self.jobs, self.memory = place, jobs, memory
        self.name = ""
        self.cache = WheelCache(place / "wheels", cache << 20)
        self.index = place / "index"
        self.index.mkdir(parents=True, exist_ok=True)

    def environment(self, settings: Settings) -> dict[str, str | None]:
        """Variables for kpackfs; its index of an input that is inspected and then split is made once."""
        # A client without SOURCE_DATE_EPOCH unsets that of the worker: outputs do not depend on the worker.
        return {"KPACKFS_CACHE_DIR": str(self.index), "TMPDIR": str(self.place), "SOURCE_DATE_EPOCH": settings.epoch}

    def resources(self, limits: Limits, keeps_frames: bool) -> list[str]:
        """Options for kpackfs."""
        memory = limits.memory or self.memory
        options = ["-j", str(limits.jobs or self.jobs), *(["--memory", str(memory)] if memory else [])]
        return [*options, "--frame-cache", str(limits.frame_cache)] if keeps_frames and limits.frame_cache else options


_MAKING = threading.Lock()


def this_worker(limits: Limits) -> Worker:
    """That of the Dask worker which runs the calling task."""
    from dask.system import CPU_COUNT
    from distributed import get_worker

    dask_worker = get_worker()
    with _MAKING:
        worker: Worker | None = getattr(dask_worker, "kpackfs_fleet", None)
        if worker is None:
            threads = dask_worker.state.nthreads
            limit = getattr(dask_worker.memory_manager, "memory_limit", None)
            # Half of it, since a Dask worker wants to restart at 95 % and kpackfs's budget leaves out 32 MiB of tables.
            memory = min(max(limit // threads // 2 >> 20, 16), 1024) if limit else None
            place = Path(dask_worker.local_directory) / "kpackfs-fleet"
            worker = Worker(place, max(1, CPU_COUNT // threads), memory, limits.cache)
            worker.name = dask_worker.address
            dask_worker.kpackfs_fleet = worker  # type: ignore[attr-defined]
    return worker


def inspect(order: Order) -> Inspected:
    """Dask's task that finds out what is in a large wheel before it is cut into groups."""
    worker = this_worker(order.limits)
    outcome = Outcome(order.source.name)
    try:
        with _opened(worker, order.source, outcome) as path:
            found = _inspect(worker, order, path, outcome)
    except (KpackfsError, OSError) as error:
        # The split finds the same, and knows better what to do about it.
        return Inspected(order.source.name, worker.name, failure=str(error), counters=outcome.counters)
    code = {HOST: 0}
    for key, part in found["device"].items():
        code[key] = sum(archive["code_size"] for archive in part["archives"]) + part["database_size"]
    parts, seconds = Layout(order, found).expected, outcome.cpu_seconds
    return Inspected(order.source.name, worker.name, code, parts, cpu_seconds=seconds, counters=outcome.counters)


def split(order: Order) -> Outcome:
    """Dask's task for a wheel, or for some parts of one."""
    return split_on(this_worker(order.limits), order)


def split_on(worker: Worker, order: Order) -> Outcome:
    """Splits on a worker. A failure that another try cannot mend is in the outcome; others are raised."""
    outcome = Outcome(order.source.name)
    started, own = time.monotonic(), time.thread_time()
    try:
        if kpackfs.version() != order.settings.kpackfs:
            raise Retry(f"kpackfs is {kpackfs.version()} on this worker; the run needs {order.settings.kpackfs}")
        _try_twice(worker, order, outcome)
    except KpackfsError as error:
        outcome.failure = str(error)
    except ChangedSource as error:
        raise Retry(f"{error} (worker {worker.name})") from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            worker.cache.clear()
        raise Retry(f"{error} (worker {worker.name}, {worker.place})") from error
    outcome.seconds = time.monotonic() - started
    outcome.cpu_seconds += time.thread_time() - own
    return outcome


def _try_twice(worker: Worker, order: Order, outcome: Outcome) -> None:
    """Splits; if kpackfs cannot, fetches the wheel again to see whether the copy on this worker was damaged."""
    with _opened(worker, order.source, outcome) as path:
        try:
            return _split(worker, order, path, outcome)
        except KpackfsError as error:
            if os.strerror(errno.ENOSPC) in str(error):
                raise OSError(errno.ENOSPC, str(error)) from error
            if Store(order.source.url).is_local:
                raise
            digest, message = sha256(path), str(error)
            # Another task may use the same copy: it keeps its file, and what is opened from now on is fetched again.
            worker.cache.drop(path)
            shutil.rmtree(worker.index, ignore_errors=True)
            worker.index.mkdir(parents=True, exist_ok=True)
    with _opened(worker, order.source, outcome) as path:
        if sha256(path) == digest:
            raise KpackfsError(message)
        outcome.warnings.append(f"it was damaged on its way to {worker.name} and was fetched again: {message}")
        outcome.counters["damaged_downloads"] += 1
        _split(worker, order, path, outcome)


class _opened:
    """A wheel as a file: where it is if the worker sees it there, or fetched."""

    def __init__(self, worker: Worker, source: Source, outcome: Outcome) -> None:
        self.worker, self.source, self.outcome = worker, source, outcome
        self.held: Any = None

    def __enter__(self) -> Path:
        store = Store(self.source.url)
        if store.is_local:
            self.outcome.counters["wheels_opened"] += 1
            return Path(store.root)
        self.held = self.worker.cache.hold(self.source)
        path, is_new = self.held.__enter__()
        if is_new:
            self.outcome.counters["wheels_fetched"] += 1
            self.outcome.counters["bytes_fetched"] += self.source.size
        return path

    def __exit__(self, *error: object) -> None:
        if self.held is not None:
            self.held.__exit__(*error)


def _inspect(worker: Worker, order: Order, path: Path, outcome: Outcome) -> dict[str, Any]:
    resources, environment = worker.resources(order.limits, keeps_frames=False), worker.environment(order.settings)
    try:
        found, ran = kpackfs.inspect(path, [*order.settings.planning(), *resources], environment)
    except KpackfsError:
        # Options that no wheel without device code allows are no reason to fail for one.
        found, ran = kpackfs.inspect(path, resources, environment)
        if not is_host_only(found):
            raise
    outcome.cpu_seconds += ran.cpu_seconds
    outcome.counters["inspections"] += 1
    return found


def _split(worker: Worker, order: Order, path: Path, outcome: Outcome) -> None:
    found = _inspect(worker, order, path, outcome)
    note = Manifest.of(order.source, order.settings)
    if is_host_only(found):
        # Pure Python, or host code alone: every release has such wheels, and to kpackfs it is an error to split them.
        _note(order, note, outcome)
        return
    layout = Layout(order, found)
    with tempfile.TemporaryDirectory(prefix="split-", dir=worker.place) as stage:
        _run_split(worker, order, layout, path, Path(stage), outcome)
        layout.expect(Path(stage))
        note.expected = layout.expected
        note.parts = _publish(order, layout, Path(stage), outcome)
    outcome.expected, outcome.parts = note.expected, note.parts
    _note(order, note, outcome)


def is_host_only(inspected: dict[str, Any]) -> bool:
    """Whether there is nothing to split in a wheel, and nothing that could not be split."""
    return not inspected["device"] and not inspected["warnings"]


def _note(order: Order, note: Manifest, outcome: Outcome) -> None:
    name = manifest.group(note.wheel, order.parts) if order.parts else manifest.whole(note.wheel)
    Store(order.destination).write_json(name, order.run, note.to_json())
    outcome.counters["notes_written"] += 1


def _run_split(worker: Worker, order: Order, layout: Layout, path: Path, stage: Path, outcome: Outcome) -> None:
    environment = worker.environment(order.settings)
    options = [*layout.splitting(), *worker.resources(order.limits, keeps_frames=True)]
    try:
        ran = kpackfs.run(["split", str(path), "-o", str(stage), *options], environment)
        outcome.counters["splits"] += 1
        verified = map(str, layout.verified(stage))
        checked = kpackfs.run(["verify", *verified, *worker.resources(order.limits, keeps_frames=False)], environment)
        outcome.counters["verifications"] += 1
    except KpackfsError as error:
        # The directory is gone when the message is read.
        raise KpackfsError(str(error).replace(f"{stage}/", "")) from error
    outcome.warnings.extend(ran.warnings())
    outcome.cpu_seconds += ran.cpu_seconds + checked.cpu_seconds


def _publish(order: Order, layout: Layout, stage: Path, outcome: Outcome) -> Parts:
    """Gives the files their names in DST, the host part last: it is the part that names the others."""
    layout.complete_statement(stage)
    store = Store(order.destination)
    wanted = order.parts or layout.expected
    found: dict[str, list[Path]] = {part: [] for part in wanted}
    for file in sorted(path for path in stage.rglob("*") if path.is_file()):
        found.get(layout.part_of(file.relative_to(stage)), []).append(file)
    parts: Parts = {}
    for part in sorted(wanted, key=lambda part: (part == HOST, part)):
        parts[part] = {}
        for file in found[part]:
            name = layout.name_of(file.relative_to(stage))
            parts[part][name] = store.publish(file, name, order.run)
            outcome.counters["files_published"] += 1
            outcome.counters["bytes_published"] += parts[part][name].size
    return parts


class Layout:
    """Which part of a split is where: in what kpackfs writes, and in DST."""

    def __init__(self, order: Order, inspected: dict[str, Any]) -> None:
        self.order, self.format = order, order.settings.format
        self.keys, self.users = tuple(inspected["device"]), inspected["users"]
        self.code = {key: sum(archive["code_size"] for archive in part["archives"]) for key, part in inspected["device"].items()}
        self.expected = order.expected or self._expected(inspected)
        names = {part["wheel"]["name"]: key for key, part in inspected["parts"].items() if part["wheel"]}
        hosts = [wheel["name"] for wheel in inspected["host_wheels"]]
        self.parts_of_wheels = {**names, **dict(zip(hosts, (HOST, VARIANT)))}

    def _expected(self, inspected: dict[str, Any]) -> tuple[str, ...]:
        if self.format == "thin-wheel":
            # A family or a sub-family stands for more GPUs than have code of their own, and inspect does not say which.
            is_told = all(part["level"] == "target" for part in inspected["device"].values())
            return tuple(inspected["users"]) if is_told else ()
        variant = (VARIANT,) if len(inspected["host_wheels"]) > 1 else ()
        return (HOST, *self.keys, *variant)

    def expect(self, stage: Path) -> None:
        """Where inspect does not tell the parts, what kpackfs wrote does."""
        if not self.expected:
            self.expected = tuple(sorted(place.name for place in stage.iterdir()))

    def views(self) -> list[str]:
        """What kpackfs is to write: the parts that are wanted, and those without which they cannot be verified."""
        parts = self.order.parts
        if not parts or VARIANT in parts:
            return []
        if self.format == "thin-wheel":
            return list(parts)
        parts = self._verifiable(parts)
        if self.format == "directory":
            return list(parts)
        names = {part: name for name, part in self.parts_of_wheels.items()}
        return [f"wheels/{names[part]}" for part in parts]

    def _verifiable(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """Parts with the host part, the families that they belong to, and code for at least one GPU."""
        families = [key for part in parts if part in self.users for key in self.users[part]["keys"]]
        needed = dict.fromkeys((HOST, *parts, *families))
        if not any(self.code.get(part) for part in needed):
            needed.update(dict.fromkeys(sorted(filter(self.code.get, self.code), key=lambda key: self.code[key])[:1]))
        more = [key for part in needed if part in self.users for key in self.users[part]["keys"]]
        return tuple(dict.fromkeys((*needed, *more)))

    def splitting(self) -> list[str]:
        """Options of `kpackfs split`. `--format wheel` takes no views, but wheels are views of the directory form."""
        options, views = self.order.settings.splitting(), self.views()
        if views and self.format == "wheel":
            options[options.index("--format") + 1] = "directory"
        return [*options, *(word for view in views for word in ("--view", view))]

    def verified(self, stage: Path) -> list[Path]:
        """What `kpackfs verify` is to look at. Of wheels that are named one by one, some may be missing."""
        return sorted((stage / "wheels").glob("*.whl")) if self.format == "wheel" and self.views() else [stage]

    def part_of(self, path: Path) -> str:
        """The part that a file of the split belongs to."""
        if self.format == "wheel":
            return self.parts_of_wheels.get(path.name, VARIANT if path.suffix == ".json" and path.parts[0] != ".kpackfs" else "")
        return HOST if path.parts[0] == ".kpackfs" else path.parts[0]

    def name_of(self, path: Path) -> str:
        """The name of a file in DST: as one machine's `kpackfs split -o DST` would write it."""
        name = path.name if self.format == "wheel" else path.as_posix()
        stem = self.order.source.name.removesuffix(".whl")
        return f"{stem}/{name}" if self.order.settings.per_wheel else name

    def complete_statement(self, stage: Path) -> None:
        """Has `.kpackfs/split.json` of some parts say what that of the whole says (docs/json.md)."""
        file = stage / ".kpackfs" / "split.json"
        if self.format == "directory" and self.views():
            statement = json.loads(file.read_text())
            statement.pop("views", None)
            statement["parts"] = list(self.expected)
            file.write_text(json.dumps(statement, indent=2, ensure_ascii=False) + "\n")


def check(order: Order, parts: Parts) -> list[str]:
    """Dask's task that reads what is in DST and names the parts whose digest is wrong."""
    store = Store(order.destination)
    return [part for part, files in parts.items() if any(store.sha256(name) != file.sha256 for name, file in files.items())]
