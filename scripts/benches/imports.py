"""Access to packages and libraries, as by a Python program."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from .results import seconds

PROGRAM = Path(__file__).with_name("load.py")

# The `buffering` argument of `open`. To decide by itself, Python up to 3.13 asks of each file whether it is a terminal, which the
# kernel passes on to the file system each time; importlib has it decide.
BUFFERED = -1
UNBUFFERED = 0


def run(bench):
    package = bench.inputs.package
    cache = bench.fresh("cache")
    with bench.mount(package.path, cache=cache) as mount:
        merged = sorted((mount.path / "merged").iterdir())[0]
        copy = bench.fresh("unpacked") / merged.name
        shutil.copytree(merged, copy, symlinks=True)
        # Both are warm: that was the first time for the mount, this is for the copy.
        use(copy, package)
        use(merged, package)
        what = f"{bench.inputs.modules} Python files and a library, from merged/{merged.name}, warm"
        measure(bench, what, merged, copy, package, BUFFERED)
        measure(bench, f"{what}, not asking whether they are terminals", merged, copy, package, UNBUFFERED)
        with bench.memfs(copy) as served:
            use(served.path, package)
            measure(bench, f"C1: {what}", served.path, copy, package, BUFFERED)
    bench.discard(copy.parent)


def measure(bench, what, merged, copy, package, buffering):
    subject, control = [], []
    for _ in range(bench.rounds):
        subject.append(use(merged, package, buffering))
        control.append(use(copy, package, buffering))
    bench.compare(what, subject, control, seconds, "unpacked", at_most=1.2)


def use(root, package, buffering=BUFFERED):
    """Seconds, without those for starting Python. In a process of its own, for which nothing is mapped yet."""
    command = [sys.executable, "-S", "-E", PROGRAM, root / package.modules, root / package.library, str(buffering)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)
