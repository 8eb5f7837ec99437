"""Mounts that never outlive the bench: of kpackfs, of the control, and of peers."""

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

from .programs import Failure

PATIENCE = 120
# Options of C1: over rings, with requests as large as those of kpackfs.
RINGS = ("--transport", "uring", "--max-request", 128 << 10)


class Mount:
    """A mount served by a process in the foreground, for use in a `with` statement."""

    def __init__(self, bench, command, ready=None, environment=None):
        """ready: what the process writes when the mount is ready; without it, waits until the mount appears."""
        self.bench = bench
        self.path = bench.fresh("mount")
        self.command = [str(part).replace("{}", str(self.path)) for part in command]
        self.ready = ready
        self.environment = {**bench.environment(), **(environment or {})}
        self.output = []

    def __enter__(self):
        pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
        self.started = time.monotonic()
        self.process = subprocess.Popen(self.command, env=self.environment, stdin=subprocess.DEVNULL, **pipe)
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            self.measure()
        finally:
            self._end()
            self.bench.discard(self.path)

    def measure(self):
        """Called before the process ends."""

    def elapsed(self):
        """Seconds since the process was started."""
        return time.monotonic() - self.started

    def cpu(self):
        """Seconds of CPU time of the process (proc(5): user and system time are fields 14 and 15)."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _wait(self):
        if self.ready is not None:
            for line in self.process.stdout:
                self.output.append(line)
                if self.ready in line:
                    # The process must not block on a full pipe.
                    threading.Thread(target=self._drain, daemon=True).start()
                    return
            raise self._failure()
        threading.Thread(target=self._drain, daemon=True).start()
        while not os.path.ismount(self.path):
            if self.process.poll() is not None or self.elapsed() > PATIENCE:
                raise self._failure()
            time.sleep(0.001)

    def _drain(self):
        self.output.extend(self.process.stdout)

    def _failure(self):
        return Failure(f"{' '.join(self.command)}: nothing is mounted: {''.join(self.output[-20:])}")

    def _end(self):
        for _ in range(50):
            if not os.path.ismount(self.path) or self._unmount().returncode == 0:
                break
            time.sleep(0.1)
        else:
            subprocess.run(["umount", "--lazy", self.path])
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def _unmount(self):
        root = os.geteuid() == 0
        command = ["umount", self.path] if root else ["fusermount3", "-u", self.path]
        return subprocess.run(command, capture_output=True)


class KpackfsMount(Mount):
    """A mount of kpackfs, with an empty directory for temporary files. Records its peak memory in the results."""

    def __init__(self, bench, source, *options, cache=None):
        self.temporary = bench.fresh("tmp")
        command = bench.kpackfs.command("mount", "--foreground", *options, source, "{}", cache=cache)
        super().__init__(bench, command, "mounted on", {"TMPDIR": str(self.temporary)})

    def status(self):
        return json.loads((self.path / ".kpackfs" / "status.json").read_text())

    def counter(self, name):
        return self.status()["counters"].get(name, 0)

    def measure(self):
        if self.process.poll() is not None:
            return
        busy = {}
        for _ in range(30):
            busy = gauges(self.status())
            if not any(busy.values()):
                break
            time.sleep(0.1)
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        peak = next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM:"))
        self.bench.saw_daemon(peak, sorted(self.temporary.rglob("*")), busy)
        self.bench.discard(self.temporary)


def gauges(status):
    """What work holds; caches do not count, nor do threads, which stay for ten seconds in case there is more to do. Which names
    there are depends on the version."""
    held = next((status[name] for name in ("gauges", "memory", "budget") if isinstance(status.get(name), dict)), {})
    others = {"capacity", "frames", "spans", "streams", "peak", "threads"}
    return {name: value for name, value in held.items() if isinstance(value, int) and name not in others}


def abandoned(work):
    """Mount points below a directory, the innermost first."""
    with open("/proc/self/mountinfo") as file:
        points = [line.split()[4] for line in file]
    return sorted((point for point in points if point.startswith(f"{work}/")), reverse=True)
