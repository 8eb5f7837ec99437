"""C1 over /dev/fuse against C1 over io_uring: what a transport with fewer system calls gains before kpackfs has one.

Both serve the same files from memory, with the attributes and caching of kpackfs, and copy what is read once, as kpackfs does.
Over /dev/fuse, kpackfs has two threads; one is faster for some readers. Each measurement begins with a new mount, so the kernel
has nothing cached.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from .mounts import RINGS
from .programs import Failure, setting
from .results import seconds

READERS = (1, 2, 8)
RANDOM_READS = 2000
# Names that are looked up on each processor.
STATS = 500
SLEEP = 2
# Bytes of each of the large files, of which each reader has one.
LARGE = 32 << 20
# The issue that asked for this: with less, kpackfs gets no second transport.
WORTH_IT = 1.15
# FAULTS.md promises that readers that wait hold up nobody else.
HELD_UP = 2

ALLOWED = Path("/sys/module/fuse/parameters/enable_uring")
TRANSPORTS = {
    "/dev/fuse": ("--threads", 2, "--copy"),
    "/dev/fuse, 1 thread": ("--threads", 1, "--copy"),
    "io_uring": RINGS,
}

# Looks up names on one processor, and prints the median time.
STAT = """
import os, sys, time
from statistics import median
os.sched_setaffinity(0, {int(sys.argv[1])})
times = []
for name in sys.argv[2:]:
    start = time.perf_counter()
    os.stat(name)
    times.append(time.perf_counter() - start)
print(median(times))
"""

# Opens and reads Python files as importlib does, and prints the seconds.
OPEN = """
import os, sys, time
names = [os.path.join(parent, name) for top in sys.argv[1:] for parent, _, files in os.walk(top) for name in files]
start = time.perf_counter()
for name in names:
    with open(name, "rb") as file:
        file.read()
print(time.perf_counter() - start)
"""


def run(bench):
    if not os.access(ALLOWED, os.W_OK):
        return bench.left_out(f"FUSE over io_uring needs Linux 6.14, and root to allow it ({ALLOWED})")
    sources = Sources(bench)
    times = {}
    with allowed():
        try:
            with bench.memfs(sources.other, *TRANSPORTS["io_uring"]):
                pass
        except Failure as failure:
            return bench.left_out(f"C1 has no rings here: {failure}")
        for _ in range(bench.rounds):
            for readers in READERS:
                for transport in TRANSPORTS:
                    for what, value in measured(bench, sources, transport, readers).items():
                        times.setdefault((what, readers), {}).setdefault(transport, []).append(value)
            for transport in TRANSPORTS:
                for what, value in held_up(bench, sources, transport).items():
                    times.setdefault((what, 1), {}).setdefault(transport, []).append(value)
    for (what, readers), of in sorted(times.items(), key=lambda row: row[0][1]):
        name = f"{what}, {readers} reader{'s' if readers > 1 else ''}"
        for other in ("/dev/fuse", "/dev/fuse, 1 thread"):
            bench.faster(name, of["io_uring"], of[other], other, at_least=WORTH_IT)
    for transport in TRANSPORTS:
        idle, waiting = times["stat, idle", 1][transport], times["stat, a reader sleeps on each core", 1][transport]
        what = f"{transport}: stat while a reader sleeps on each core"
        bench.compare(what, waiting, idle, seconds, "idle", at_most=HELD_UP)


def allowed():
    """Lets filesystems use io_uring."""
    return setting(ALLOWED, "Y", ALLOWED)


class Sources:
    """What is served: the tree of databases, Python files, and large files."""

    def __init__(self, bench):
        self.small = bench.inputs.small_files
        self.directories = sorted({Path(parent).relative_to(self.small) for parent, _, files in os.walk(self.small) if files})
        self.other = bench.fresh("other")
        (self.other / "python").mkdir()
        body = "".join(f"def function_{number}(value):\n    return value + {number}\n\n\n" for number in range(60))
        for number in range(bench.inputs.modules):
            file = self.other / "python" / f"package_{number % 40}" / f"module_{number}.py"
            file.parent.mkdir(exist_ok=True)
            file.write_text(f'"""Module {number}."""\n\n{body}')
        for number in range(max(READERS)):
            (self.other / f"large-{number}").write_bytes(os.urandom(min(LARGE, bench.inputs.plain_size)))


def measured(bench, sources, transport, readers):
    """Seconds of each access, by this many readers at once."""
    options = TRANSPORTS[transport]
    parts = [part for number in range(readers) if (part := sources.directories[number::readers])]
    result = {}
    with bench.memfs(sources.small, *options) as mount:
        for what in ("tar, first", "tar, second"):
            # To /dev/null itself tar would write nothing and so read nothing.
            commands = [["sh", "-c", 'tar -cf - "$@" | cat >/dev/null', "tar", *map(str, part)] for part in parts]
            result[what], _ = together(commands, mount.path)
    with bench.memfs(sources.small, *options) as mount:
        result["find"], _ = together([["find", *map(str, part)] for part in parts], mount.path)
    with bench.memfs(sources.other, *options) as mount:
        reads = ["--count", str(RANDOM_READS)]
        commands = [[str(bench.controls), "random", f"large-{number}", *reads] for number in range(readers)]
        _, printed = together(commands, mount.path)
        result["random 4 KiB, of a reader"] = median(json.loads(text)["mean_seconds"] for text in printed)
        packages = sorted(str(path.relative_to(sources.other)) for path in (sources.other / "python").iterdir())
        for what in ("opens of Python, first", "opens of Python, warm"):
            commands = [[sys.executable, "-S", "-E", "-c", OPEN, *packages[number::readers]] for number in range(readers)]
            _, printed = together(commands, mount.path)
            result[what] = max(float(text) for text in printed)
    with bench.memfs(sources.other, *options) as mount:
        done = bench.control("many", *(mount.path / f"large-{number}" for number in range(readers)))
        result["sequential"] = done["seconds"]
    return result


def together(commands, directory):
    """Runs commands at the same time. Returns the seconds, and what they printed."""
    start = time.monotonic()
    processes = [subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True) for command in commands]
    printed = [process.communicate()[0] for process in processes]
    taken = time.monotonic() - start
    if any(process.returncode for process in processes):
        raise Failure(f"{commands[0][0]} failed in {directory}")
    return taken, printed


def held_up(bench, sources, transport):
    """Seconds of a lookup on each processor, idle and while a reader on each of them waits for the filesystem."""
    processors = sorted(os.sched_getaffinity(0))
    names = [str(directory / name) for directory in sources.directories for name in sorted(os.listdir(sources.small / directory))]
    sleeping = ("--sleeping", len(processors), "--sleep", SLEEP)
    result = {}
    with bench.memfs(sources.small, *TRANSPORTS[transport], *sleeping) as mount:

        def stat(first):
            times = []
            for processor in processors:
                part = names[2 * processor + first :: 2 * len(processors)][:STATS]
                command = [sys.executable, "-S", "-E", "-c", STAT, str(processor), *part]
                times.append(float(subprocess.run(command, cwd=mount.path, capture_output=True, text=True, check=True).stdout))
            return max(times)

        result["stat, idle"] = stat(0)
        readers = [
            subprocess.Popen(["taskset", "-c", str(processor), "head", "-c1", mount.path / f"sleep-{number}"], stdout=subprocess.DEVNULL)
            for number, processor in enumerate(processors)
        ]
        time.sleep(0.3)
        result["stat, a reader sleeps on each core"] = stat(1)
        if any(reader.poll() is not None for reader in readers):
            raise Failure("the readers did not sleep long enough")
        for reader in readers:
            reader.wait()
    return result
