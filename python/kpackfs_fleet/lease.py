"""Which runs are alive: each renews a lease in DST until it ends."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path

from .store import TEMPORARY, Store

RENEWAL_SECONDS = 60
# What another machine's run left is deleted this long after its last sign of life.
STALE = datetime.timedelta(hours=1)

_RUN = re.compile(rf"{re.escape(TEMPORARY)}/(?P<run>\d{{8}}T\d{{6}}-[0-9a-f]{{8}})/[0-9a-z.]+", re.ASCII)


class Lease:
    """The lease of a run. Its time is that of DST's clock, so the clocks of machines need not agree."""

    def __init__(self, store: Store, run: str, is_local: bool) -> None:
        self.store, self.run = store, run
        # If all workers end with this process, nothing can go on after it.
        self.process = _process(os.getpid()) if is_local else None
        self.renewed = 0.0

    def take(self) -> None:
        """Writes the lease."""
        self.renewed = time.monotonic()
        self.store.write_json(_name(self.run), self.run, {"process": self.process})

    def renew(self) -> None:
        """Writes it again if that is due. DST may be full or not answer for a while: the next time will do."""
        if time.monotonic() - self.renewed > RENEWAL_SECONDS:
            with contextlib.suppress(Exception):
                self.take()

    def others(self, names: Iterable[str]) -> dict[str, bool]:
        """All other runs that have temporary files in DST, and whether they may still be alive."""
        files: dict[str, list[str]] = {}
        for name in names:
            if (match := _RUN.fullmatch(name)) and match["run"] != self.run:
                files.setdefault(match["run"], []).append(name)
        return {run: self._may_be_alive(run, names) for run, names in files.items()}

    def _may_be_alive(self, run: str, names: list[str]) -> bool:
        lease = self.store.read_json({_name(run)} & {*names}).get(_name(run))
        process = lease.get("process") if isinstance(lease, dict) else None
        here = _process(os.getpid())
        if here and isinstance(process, list) and len(process) == len(here) and process[:2] == here[:2]:
            return isinstance(process[2], int) and process == _process(process[2])
        signs = [self.store.modified(name) for name in names]
        now = self.store.modified(_name(self.run))
        # A file that is gone was deleted by its run.
        return now is None or any(sign is None or now - sign < STALE for sign in signs)


def _name(run: str) -> str:
    return f"{TEMPORARY}/{run}/lease"


def _process(pid: int) -> list[str | int] | None:
    """A process: the boot of its machine, its PID namespace, its ID there and its start; None if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return None if stat[0] in "ZX" else [boot, os.readlink("/proc/self/ns/pid"), pid, stat[19]]
    except OSError:
        return None
