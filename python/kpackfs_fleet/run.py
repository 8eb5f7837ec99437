"""A run: submits what DST lacks to Dask as tasks, and collects their results."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import time
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from typing import Any

from distributed import Client, Future, wait
from distributed.scheduler import KilledWorker

from . import plan, task
from .lease import Lease
from .manifest import Conflict, Destination, Manifest
from .report import Report, Wheel
from .settings import Limits, Settings
from .store import TEMPORARY, Source, Store
from .task import Inspected, Order, Outcome

# A resource that a Dask worker may declare: MiB of its disk.
DISK = "kpackfs-disk"
POLL_SECONDS = 5


class Lost(Exception):
    """The scheduler no longer answers."""


@dataclass(frozen=True)
class Policy:
    """Options of a run."""

    retries: int = 2
    # auto, never, or MiB of code for each group
    cut: str = "auto"
    check: str = "sizes"
    force: bool = False
    # Seconds without any worker after which the run ends; None if workers may come at any time.
    patience: float | None = None


@dataclass
class Work:
    """A wheel that is not complete yet."""

    source: Source
    row: Wheel
    state: Manifest
    # All parts if empty.
    missing: tuple[str, ...] = ()
    # The output of `inspect`, if it was run.
    inspected: dict[str, Any] | None = None
    waiting: int = 0
    failures: list[str] = field(default_factory=list)
    was_split: bool = False
    # Whether each of its tasks makes only some of its parts.
    is_cut: bool = False


class Run:
    """One run of `kpackfs-fleet split`."""

    client: Client

    def __init__(self, settings: Settings, limits: Limits, policy: Policy, report: Report) -> None:
        self.settings, self.limits, self.policy, self.report = settings, limits, policy, report
        now = datetime.datetime.now(datetime.timezone.utc)
        self.name = f"{now:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
        self.source, self.target = Store(report.source), Store(report.destination)
        self.works: dict[str, Work] = {}
        self.code: dict[str, dict[str, int]] = {}
        self.progress: Callable[[str], None] = lambda line: None

    def begin(self) -> None:
        """Refuses what cannot be done, before workers are started. Writes nothing."""
        started = time.monotonic()
        plan.check_places(self.source, self.target)
        self.found, refused = plan.sources(self.source)
        self.report.wheels = [Wheel(path.rpartition("/")[2], 0, "failed", reason) for path, reason in refused.items()]
        plan.check_sources(self.source, self.found, self.target)
        self._read_destination()
        self.report.seconds = time.monotonic() - started

    def run(self, client: Client) -> None:
        """Does all missing work. The report has the results, even if the run cannot continue."""
        started = time.monotonic()
        self.client = client
        # The workers of this machine end with the run.
        self.lease = Lease(self.target, self.name, is_local=client.cluster is not None)
        try:
            self._claim()
            self._look(self.found)
            if self.works:
                self._work()
            self.target.remove_temporary(self.name)
        finally:
            self.report.seconds += time.monotonic() - started
            for work in self.works.values():
                if not work.row.status:
                    work.row.status, work.row.reason = "failed", "the run ended before it was done"

    def _read_destination(self) -> None:
        """Reads what DST has, and refuses what conflicts with it."""
        self.destination = Destination(self.target)
        plan.check_outputs(self.found, self.settings, self.destination.wheels())
        if not self.policy.force:
            try:
                self.destination.check(self.settings)
            except Conflict as error:
                raise plan.Refused(f"{self.report.destination}: {error}") from error

    def _claim(self) -> None:
        """Takes a lease, deletes what dead runs left, and refuses what conflicts with other runs."""
        self.lease.take()
        try:
            # Other runs may have begun while the workers started.
            self._read_destination()
            others = self.lease.others(self.destination.listing)
            alive = [run for run, may_be_alive in others.items() if may_be_alive]
            if self.policy.force and alive:
                lease = self.target.url(self.target.path(f"{TEMPORARY}/{alive[0]}"))
                refusal = f"--force may delete files of another run; wait until it ends, or delete {lease}"
                raise plan.Refused(f"{self.report.destination}: {refusal}")
            self.destination.claim(self.settings, self.name)
        except plan.Refused:
            self.target.remove_temporary(self.name)
            raise
        for run in others.keys() - alive:
            self.target.remove_temporary(run)

    def _look(self, found: list[Source]) -> None:
        """Finds out which parts of each wheel exist."""
        states = {}
        for source in found:
            row = Wheel(source.name, source.size)
            self.report.wheels.append(row)
            try:
                states[source.name] = self._state(source)
            except Conflict as error:
                row.status, row.reason = "failed", str(error)
                continue
            self.works[source.name] = Work(source, row, states[source.name] or Manifest.of(source, self.settings))
        if self.policy.check == "digests":
            self._check()
        for work in list(self.works.values()):
            state, name = work.state, work.source.name
            missing = state.missing()
            if states[name] is None or (missing and not state.parts):
                continue
            if missing or (state.parts and not self.destination.is_whole(work.source.host)):
                work.missing = tuple(missing)
                work.is_cut = True
                if not missing:
                    self._finish(work)
                    del self.works[name]
                continue
            work.row.status = "there" if state.expected else "nothing to split"
            work.row.parts = state.parts
            self.report.counters["wheels_there"] += 1
            del self.works[name]

    def _state(self, source: Source) -> Manifest | None:
        try:
            return self.destination.state(source, self.settings)
        except Conflict:
            if not self.policy.force:
                raise
            self.destination.forget(source.host)
            return None

    def _check(self) -> None:
        """Lets workers read all files in DST. Parts with a wrong digest count as missing."""
        asked = {}
        for work in self.works.values():
            if work.state.parts:
                self.report.counters["files_checked"] += len(work.state.files())
                key = f"check-{work.source.name}-{self.name}"
                order, retries = self._order(work), self.policy.retries
                future = self.client.submit(task.check, order, work.state.parts, key=key, retries=retries, pure=False)
                asked[future] = work
        while asked:
            for future in self._ended(list(asked)):
                work = asked.pop(future)
                try:
                    for part in self._result(future):
                        del work.state.parts[part]
                except Lost:
                    raise
                except Exception as error:  # noqa: BLE001 - whatever a task raises is why this wheel failed
                    work.row.status, work.row.reason = "failed", f"what DST has of it cannot be checked: {error or repr(error)}"
                    del self.works[work.source.name]

    def _work(self) -> None:
        """Submits tasks to Dask, the most expensive first, until no wheel is left."""
        self.client.wait_for_workers(1)
        self._workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        self.slots = sum(worker["nthreads"] for worker in self._workers)
        self.pending: dict[Future, tuple[Work, tuple[str, ...]]] = {}
        self.suspects: list[tuple[Work, tuple[str, ...]]] = []
        self.works_by_cost = sorted(self.works.values(), key=lambda work: -plan.seconds(work.source))
        for work in self.works_by_cost:
            is_large = self.policy.cut != "never" and not work.missing and self._may_be_cut(work.source)
            self._submit(work, task.inspect if is_large else task.split, work.missing)
        self._gather()
        # Dask suspects all tasks that a worker has when it dies, also those that wait there. One at a time shows which it is.
        while self.suspects:
            work, parts = self.suspects.pop(0)
            self._submit(work, task.split, parts, is_alone=True)
            self._gather(is_alone=True)

    def _gather(self, is_alone: bool = False) -> None:
        """Collects the results of tasks until none is left."""
        while self.pending:
            for future in self._ended(list(self.pending)):
                self._receive(future, is_alone)

    def _ended(self, pending: list[Future]) -> list[Future]:
        """The tasks that have ended, as soon as there is one."""
        alone_since = time.monotonic()
        while True:
            self.lease.renew()
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError, asyncio.CancelledError, CancelledError):
                wait(pending, timeout=POLL_SECONDS, return_when="FIRST_COMPLETED")
            ended = [future for future in pending if future.status != "pending"]
            if ended:
                return ended
            self._check_connection()
            if self.client.scheduler_info(n_workers=-1)["workers"]:
                alone_since = time.monotonic()
                continue
            self._replace_workers()
            if self.policy.patience is not None and time.monotonic() - alone_since > self.policy.patience:
                raise Lost("no worker is left")

    def _replace_workers(self) -> None:
        """Starts the workers of this machine again: Dask itself does not replace one that is killed while it starts."""
        cluster: Any = self.client.cluster
        if cluster is not None:
            cluster.scale(len(cluster.worker_spec))

    def _receive(self, future: Future, is_alone: bool) -> None:
        """Collects the result of a task."""
        work, parts = self.pending.pop(future)
        work.waiting -= 1
        try:
            result = self._result(future)
        except Lost:
            raise
        except KilledWorker as error:
            if not is_alone:
                self.suspects.append((work, parts))
                return
            reason = f"the worker was killed, as were {error.allowed_failures} before it that had this task"
            result = Outcome(work.source.name, reason)
        except Exception as error:  # noqa: BLE001 - whatever a task raises is why this wheel failed
            result = Outcome(work.source.name, str(error) or repr(error))
        if isinstance(result, Inspected):
            self._cut(work, result)
            return
        self._collect(work, result)
        if not work.waiting and not any(suspect is work for suspect, _ in self.suspects):
            self._end(work)

    def _may_be_cut(self, source: Source) -> bool:
        if self.settings_are_uncuttable():
            return False
        return self.policy.cut != "auto" or (self.slots > 1 and plan.may_be_cut(source, self._share()))

    def settings_are_uncuttable(self) -> bool:
        """A variant wheel is made together with the host wheel and its index."""
        return self.settings.variant_label() is not None

    def _share(self) -> float:
        """The processor time of each worker thread if all wheels were distributed evenly."""
        works = self.works.values()
        return sum(plan.seconds(work.source, self.code.get(work.source.name)) for work in works) / self.slots

    def _cut(self, work: Work, found: Inspected) -> None:
        """Submits the groups of a wheel that was inspected; the first one where the wheel is already."""
        self._count(work, found.cpu_seconds, found.counters)
        groups: list[tuple[str, ...]] = [()]
        work.inspected = found.found
        if found.code:
            self.code[work.source.name] = found.code
        if found.parts:
            work.state.expected = found.parts
            code = {part: found.code[part] for part in found.parts}
            most = None if self.policy.cut == "auto" else max(1, int(float(self.policy.cut) * (1 << 20)))
            groups = plan.groups(work.source, code, self._share(), most)
        count = len(found.parts) // len(groups) or None
        for index, parts in enumerate(groups):
            self._submit(work, task.split, parts, found.worker if not index else None, count)

    def _submit(
        self,
        work: Work,
        function: Callable[[Order], object],
        parts: tuple[str, ...],
        near: str | None = None,
        count: int | None = None,
        is_alone: bool = False,
    ) -> Future:
        words = [
            function.__name__,
            work.source.name.removesuffix(".whl"),
            *parts[:1],
            *(["alone"] if is_alone else []),
            self.name,
        ]
        future = self.client.submit(
            function,
            replace(self._order(work), parts=parts),
            key="-".join(words),
            retries=self.policy.retries,
            priority=plan.seconds(work.source, self.code.get(work.source.name)),
            resources=self._demand(work.source, count),
            workers=[near] if near else None,
            allow_other_workers=bool(near),
            pure=False,
        )
        self.pending[future] = work, parts
        work.is_cut = work.is_cut or bool(parts)
        work.waiting += 1
        work.row.tasks += 1
        return future

    def _order(self, work: Work) -> Order:
        return Order(
            work.source,
            self.report.destination,
            self.settings,
            self.limits,
            self.name,
            expected=work.state.expected,
            inspected=work.inspected,
        )

    def _demand(self, source: Source, parts: int | None) -> dict[str, float] | None:
        """The disk that a task takes, if workers say how much they have. A wheel too big for all of them has one for itself."""
        declared = [worker["resources"][DISK] for worker in self._workers if worker["resources"].get(DISK)]
        if not declared:
            return None
        needed = plan.disk(source, self.settings, not self.source.is_local, parts) / (1 << 20)
        return {DISK: min(needed, max(declared))}

    def _result(self, future: Future) -> Any:
        self._check_connection(future.status in ("cancelled", "lost"))
        return future.result()

    def _check_connection(self, is_lost: bool = False) -> None:
        if is_lost or self.client.status not in ("running", "connecting"):
            raise Lost(f"the connection to the scheduler {self.client.scheduler.address} was lost")

    def _collect(self, work: Work, outcome: Outcome) -> None:
        self._count(work, outcome.cpu_seconds, outcome.counters)
        work.row.warnings.extend(line for line in outcome.warnings if line not in work.row.warnings)
        if outcome.failure:
            work.failures.append(outcome.failure)
        else:
            work.was_split = True
            work.state.expected = outcome.expected
            work.state.parts.update(outcome.parts)

    def _count(self, work: Work, cpu_seconds: float, counters: Counter[str]) -> None:
        work.row.cpu_seconds += cpu_seconds
        self.report.counters.update(counters)

    def _end(self, work: Work) -> None:
        """All tasks of a wheel have ended."""
        if work.failures or not work.was_split:
            work.row.status, work.row.reason = "failed", "\n".join(dict.fromkeys(work.failures))
            work.row.parts = work.state.parts
        else:
            self._finish(work)
        done = sum(bool(other.row.status) for other in self.works_by_cost)
        self.progress(f"{done} of {len(self.works_by_cost)}: {work.row.name}: {work.row.status}")

    def _finish(self, work: Work) -> None:
        state = work.state
        work.row.parts = state.parts
        work.row.status = ("completed" if work.missing else "split") if state.expected else "nothing to split"
        if work.is_cut:
            self.destination.finish(state, self.name)
            self.report.counters["notes_written"] += 1
