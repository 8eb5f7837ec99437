"""What a worker does for a wheel: fetch it, split it with kpackfs, verify the result, publish it."""

from __future__ import annotations

import errno
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
from .layout import HOST, Layout, Selection, Unclear, complete_statement
from .manifest import Manifest, Parts
from .settings import Limits, Settings
from .store import Source, Store, sha256

# MiB that kpackfs takes without --memory.
DEFAULT_MEMORY = 256


class Retry(Exception):
    """A failure that may not occur on another worker, or a little later."""


@dataclass(frozen=True)
class Order:
    """A wheel, or some parts of one, to split."""

    source: Source
    destination: str
    settings: Settings
    limits: Limits
    run: str
    # All parts if empty.
    parts: tuple[str, ...] = ()
    # All parts that the wheel has, if that is known.
    expected: tuple[str, ...] = ()
    # The result of planning, if the wheel was inspected.
    inspected: dict[str, Any] | None = None


@dataclass
class Outcome:
    """The result of an order."""

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
    """What planning needs to know about a large wheel."""

    wheel: str
    worker: str
    # The bytes of code of each part; the host part has none.
    code: dict[str, int] = field(default_factory=dict)
    # The parts of its split; empty if `inspect` does not list them.
    parts: tuple[str, ...] = ()
    found: dict[str, Any] | None = None
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
    """The place of the Dask worker that runs the calling task."""
    from dask.system import CPU_COUNT
    from distributed import get_worker

    dask_worker = get_worker()
    with _MAKING:
        worker: Worker | None = getattr(dask_worker, "kpackfs_fleet", None)
        if worker is None:
            threads = dask_worker.state.nthreads
            limit = getattr(dask_worker.memory_manager, "memory_limit", None)
            # Half of it, since a Dask worker wants to restart at 95 % and kpackfs's budget leaves out 32 MiB of tables. No more
            # than kpackfs takes by itself: a split reads everything once, and more memory would only cost page faults.
            memory = min(max(limit // threads // 2 >> 20, 16), DEFAULT_MEMORY) if limit else None
            place = Path(dask_worker.local_directory) / "kpackfs-fleet"
            worker = Worker(place, max(1, CPU_COUNT // threads), memory, limits.cache)
            worker.name = dask_worker.address
            dask_worker.kpackfs_fleet = worker  # type: ignore[attr-defined]
    return worker


def inspect(order: Order) -> Inspected:
    """Dask's task that inspects a large wheel before it is cut into groups."""
    worker = this_worker(order.limits)
    outcome = Outcome(order.source.name)
    try:
        with _opened(worker, order.source, outcome) as path:
            found = _inspect(worker, order, path, outcome)
    except (KpackfsError, OSError) as error:
        # The split fails in the same way, and handles the failure.
        return Inspected(order.source.name, worker.name, failure=str(error), counters=outcome.counters)
    selection = Selection(order.source.name, order.settings, found)
    code = {HOST: 0, **selection.amounts}
    expected, seconds = selection.layout.expected, outcome.cpu_seconds
    return Inspected(order.source.name, worker.name, code, expected, found, cpu_seconds=seconds, counters=outcome.counters)


def split(order: Order) -> Outcome:
    """Dask's task for a wheel, or for some parts of one."""
    return split_on(this_worker(order.limits), order)


def split_on(worker: Worker, order: Order) -> Outcome:
    """Splits on a worker. A failure that a retry cannot avoid is in the outcome; others are raised."""
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
            if _is_full(error):
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


def _is_full(error: KpackfsError) -> bool:
    return os.strerror(errno.ENOSPC) in str(error)


class _opened:
    """A wheel as a file: in its place if the worker can read it there, otherwise fetched."""

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
    return {name: found[name] for name in ("device", "users", "parts", "host_wheels", "warnings")}


def _split(worker: Worker, order: Order, path: Path, outcome: Outcome) -> None:
    note = Manifest.of(order.source, order.settings)
    with tempfile.TemporaryDirectory(prefix="split-", dir=worker.place) as name:
        stage = Path(name)
        if order.parts:
            layout = _split_some(worker, order, path, stage, outcome)
        else:
            whole = _split_whole(worker, order, path, stage, outcome)
            if whole is None:
                _note(order, note, outcome)
                return
            layout = whole
        note.expected = order.expected or layout.expected
        note.parts = _publish(order, layout, order.parts or note.expected, stage, outcome)
    outcome.expected, outcome.parts = note.expected, note.parts
    _note(order, note, outcome)


def _split_whole(worker: Worker, order: Order, path: Path, stage: Path, outcome: Outcome) -> Layout | None:
    """Splits all parts. None if there is nothing to split."""
    try:
        _run_split(worker, order, path, stage, order.settings.splitting(), outcome)
    except KpackfsError as error:
        # Pure Python, or host code alone: every release has such wheels, and to kpackfs it is an error to split them.
        if _is_full(error) or not _is_host_only(worker, order, path, outcome):
            raise
        return None
    try:
        return Layout.of_split(order.source.name, order.settings, stage)
    except Unclear:
        return Selection(order.source.name, order.settings, _inspect(worker, order, path, outcome)).layout


def _split_some(worker: Worker, order: Order, path: Path, stage: Path, outcome: Outcome) -> Layout:
    """Splits some parts, and others without which these cannot be verified."""
    inspected = order.inspected or _inspect(worker, order, path, outcome)
    selection = Selection(order.source.name, order.settings, inspected)
    options, views, verified = order.settings.splitting(), selection.views(order.parts), ""
    if views and order.settings.format == "wheel":
        # `--format wheel` takes no views, but wheels are views of the directory form. Some of them may be missing in what is
        # verified if they are named one by one.
        options[options.index("--format") + 1] = "directory"
        verified = "wheels/*.whl"
    options += [word for view in views for word in ("--view", view)]
    _run_split(worker, order, path, stage, options, outcome, verified)
    if views and order.settings.format == "directory":
        complete_statement(stage, order.expected)
    return selection.layout


def _is_host_only(worker: Worker, order: Order, path: Path, outcome: Outcome) -> bool:
    """Whether there is nothing to split in a wheel, and nothing that could not be split."""
    try:
        return is_host_only(_inspect(worker, order, path, outcome))
    except KpackfsError:
        return False


def is_host_only(inspected: dict[str, Any]) -> bool:
    """Whether there is nothing to split in a wheel, and nothing that could not be split."""
    return not inspected["device"] and not inspected["warnings"]


def _note(order: Order, note: Manifest, outcome: Outcome) -> None:
    name = manifest.group(note.wheel, order.parts) if order.parts else manifest.whole(note.wheel)
    Store(order.destination).write_json(name, order.run, note.to_json())
    outcome.counters["notes_written"] += 1


def _run_split(
    worker: Worker, order: Order, path: Path, stage: Path, options: list[str], outcome: Outcome, verified: str = ""
) -> None:
    """Runs `kpackfs split`, and `kpackfs verify` on the files that match a pattern."""
    environment = worker.environment(order.settings)
    try:
        resources = worker.resources(order.limits, keeps_frames=True)
        ran = kpackfs.run(["split", str(path), "-o", str(stage), *options, *resources], environment)
        outcome.counters["splits"] += 1
        looked_at = sorted(stage.glob(verified)) if verified else [stage]
        resources = worker.resources(order.limits, keeps_frames=False)
        checked = kpackfs.run(["verify", *map(str, looked_at), *resources], environment)
        outcome.counters["verifications"] += 1
    except KpackfsError as error:
        # The directory is gone when the message is read.
        raise KpackfsError(str(error).replace(f"{stage}/", "")) from error
    outcome.warnings.extend(ran.warnings())
    outcome.cpu_seconds += ran.cpu_seconds + checked.cpu_seconds


def _publish(order: Order, layout: Layout, wanted: tuple[str, ...], stage: Path, outcome: Outcome) -> Parts:
    """Gives the files their names in DST. The host part is last, since it names the other parts."""
    store = Store(order.destination)
    found: dict[str, list[Path]] = {part: [] for part in wanted}
    for file in sorted(path for path in stage.rglob("*") if path.is_file()):
        found.get(layout.part_of(file.relative_to(stage)), []).append(file)
    missing = [part for part in wanted if not found[part]]
    if missing:
        raise KpackfsError(f"kpackfs split wrote no file of {', '.join(missing)}")
    parts: Parts = {}
    for part in sorted(wanted, key=lambda part: (part == HOST, part)):
        parts[part] = {}
        for file in found[part]:
            name = layout.name_of(file.relative_to(stage))
            parts[part][name] = store.publish(file, name, order.run)
            outcome.counters["files_published"] += 1
            outcome.counters["bytes_published"] += parts[part][name].size
    return parts


def check(order: Order, parts: Parts) -> list[str]:
    """Dask's task that reads the files in DST and names the parts with a wrong digest."""
    store = Store(order.destination)
    return [part for part, files in parts.items() if any(store.sha256(name) != file.sha256 for name, file in files.items())]
