"""What a Python program does with its packages, and with the libraries below them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from .results import seconds

PROGRAM = Path(__file__).with_name("load.py")


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
        subject, control = [], []
        for _ in range(bench.rounds):
            subject.append(use(merged, package))
            control.append(use(copy, package))
    bench.discard(copy.parent)
    what = f"{bench.inputs.modules} Python files and a library, from merged/{merged.name}, warm"
    bench.compare(what, subject, control, seconds, "unpacked", at_most=1.2)


def use(root, package):
    """Seconds, without those for starting Python. In a process of its own, for which nothing is mapped yet."""
    command = [sys.executable, "-S", "-E", PROGRAM, root / package.modules, root / package.library]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)
