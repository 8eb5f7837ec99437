"""Shared by all scenarios: a work directory, programs, mounts, measurements, results."""

import filecmp
import json
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from . import mounts, programs
from .programs import Failure
from .results import Results, seconds, size

# Bytes: the default of --memory, and the allowance beyond it.
BUDGET = 256 << 20
BEYOND = 64 << 20


class Missing(Exception):
    """An input is missing, so a scenario cannot be measured."""


@dataclass
class Cost:
    """The cost of a command, in seconds and bytes."""

    seconds: float
    cpu: float
    peak: int


@dataclass
class Daemon:
    peak: int
    leftovers: list
    busy: dict


class Bench:
    def __init__(self, rounds, profile, work, judge):
        self.rounds = rounds
        self.cores = len(os.sched_getaffinity(0))
        kpackfs, self.controls = programs.build(profile)
        self.kpackfs = programs.Kpackfs(kpackfs)
        if work is not None:
            work.mkdir(parents=True, exist_ok=True)
        self.work = Path(tempfile.mkdtemp(prefix="kpackfs-bench-", dir=work)).resolve()
        self.user_cache = self.fresh("user-cache")
        self.results = Results(judge)
        self.scenario = ""
        self.daemons = []
        self.inputs = None
        # The transport of FUSE, of kpackfs and of C1; None for what they choose themselves.
        self.transport = None
        self._peers = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for point in mounts.abandoned(self.work):
            subprocess.run(["umount", "--lazy", point])
        shutil.rmtree(self.work, ignore_errors=True)

    # Scenarios

    def begin(self, scenario):
        self.scenario = scenario
        self.daemons = []

    def end(self):
        """Adds the peak memory of the scenario's daemons."""
        if not self.daemons:
            return
        peak = max(daemon.peak for daemon in self.daemons)
        self.results.absolute(self.scenario, "peak memory of the daemon", [peak], size, at_most=BUDGET + BEYOND)
        leftovers = sum(len(daemon.leftovers) for daemon in self.daemons)
        self.results.absolute(self.scenario, "files in its directory for temporary files", [leftovers], str, at_most=0)
        busy = {name: value for daemon in self.daemons for name, value in daemon.busy.items() if value}
        if any(daemon.busy for daemon in self.daemons):
            note = ", ".join(f"{name} {value}" for name, value in busy.items())
            self.results.absolute(self.scenario, "gauges above zero when idle", [len(busy)], str, note, at_most=0)
        else:
            self.results.left_out(self.scenario, "gauges when idle: status.json has none")
        if any(self.user_cache.iterdir()):
            raise Failure(f"{self.scenario}: kpackfs used the user's cache")

    def run(self, name, scenario):
        """Runs a scenario from begin to end, or says which input is missing."""
        self.begin(name)
        try:
            scenario(self)
        except Missing as missing:
            self.left_out(str(missing))
        self.end()

    def saw_daemon(self, peak, leftovers, busy):
        self.daemons.append(Daemon(peak, leftovers, busy))

    def compare(self, what, subject, control, unit, against, **goal):
        self.results.compare(self.scenario, what, subject, control, unit, against, **goal)

    def faster(self, what, times, control, against, **goal):
        """Compares times as speeds: the ratio is the control's time by the subject's."""
        speeds = [[1 / time for time in values] for values in (times, control)]
        self.compare(what, *speeds, lambda speed: seconds(1 / speed), against, **goal)

    def absolute(self, what, values, unit, note="", **goal):
        self.results.absolute(self.scenario, what, values, unit, note, **goal)

    def left_out(self, reason):
        self.results.left_out(self.scenario, reason)

    # Files

    def fresh(self, name):
        """A new directory."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.work))

    def discard(self, directory):
        if os.path.ismount(directory):
            raise Failure(f"{directory}: still mounted")
        shutil.rmtree(directory)

    def warm(self, *files):
        """Reads files into the page cache."""
        self.control("sequential", *files)

    def same(self, one, other):
        """Fails unless the result of a measured command is right."""
        if not filecmp.cmp(one, other, shallow=False):
            raise Failure(f"{one} and {other} differ")

    # Programs

    def control(self, *arguments):
        done = subprocess.run([self.controls, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode:
            raise Failure(f"controls {' '.join(map(str, arguments))}: {done.stderr}")
        return json.loads(done.stdout)

    def sequential(self, *files):
        """Bytes per second."""
        done = self.control("sequential", *files)
        return done["bytes"] / done["seconds"]

    def environment(self):
        """Keeps kpackfs from using the user's cache, even in commands without an option for it."""
        kept = {name: value for name, value in os.environ.items() if name != "KPACKFS_CACHE_DIR"}
        return {**kept, "XDG_CACHE_HOME": str(self.user_cache)}

    def inspect(self, source):
        command = self.kpackfs.command("inspect", "--json", source)
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment())
        if done.returncode:
            raise Failure(f"inspect {source}: {done.stderr}")
        return json.loads(done.stdout)

    def cost(self, command, processors=None):
        """Runs a command to its end."""
        pin = (lambda: os.sched_setaffinity(0, processors)) if processors else None
        start = time.monotonic()
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        process = subprocess.Popen([str(part) for part in command], env=self.environment(), preexec_fn=pin, **pipes)
        errors = process.stderr.read()
        _, code, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        process.stderr.close()
        process.returncode = os.waitstatus_to_exitcode(code)
        if process.returncode:
            raise Failure(f"{' '.join(map(str, command))}: {errors.decode(errors='replace')}")
        return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10)

    def peer(self, name):
        if name not in self._peers:
            self._peers[name] = programs.find_peer(name)
        return self._peers[name]

    # Mounts

    def mount(self, source, *options, cache=None):
        transport = ("--transport", self.transport) if self.transport else ()
        return mounts.KpackfsMount(self, source, *transport, *options, cache=cache)

    def memfs(self, source, *options):
        if self.transport == "uring":
            options = (*mounts.RINGS, *options)
        return mounts.Mount(self, [self.controls, "memfs", source, "{}", *options], "mounted")

    def fuse_zip(self, wheel):
        return mounts.Mount(self, [self.peer("fuse-zip"), "-r", "-f", wheel, "{}"])

    def ratarmount(self, wheel):
        return mounts.Mount(self, [self.peer("ratarmount"), "--foreground", "--index-file", ":memory:", wheel, "{}"])
