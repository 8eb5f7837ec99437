"""Many concurrent readers. The rows of every scenario include the daemon's memory."""

import os
from pathlib import Path

from .results import rate, seconds

READERS = 16


def run(bench):
    """Half of the readers read the largest files of host/, the others archives."""
    wheel = bench.inputs.torch
    cache = bench.fresh("cache")
    rates, longest = [], []
    for _ in range(bench.rounds):
        with bench.mount(wheel, cache=cache) as mount:
            files = largest(mount.path / "host")[: READERS // 2]
            views = sorted(path for path in mount.path.iterdir() if path.name.startswith("gfx"))
            archives = [path for view in views for path in sorted(view.rglob("?*.kpack"))]
            done = bench.control("many", *files, *archives[: READERS - len(files)])
            rates.append(done["bytes"] / done["seconds"])
            longest.append(done["longest_seconds"])
    bench.absolute(f"{READERS} readers of different files of a torch-shaped wheel, together", rates, rate)
    bench.absolute("the longest that one of their reads took", longest, seconds)


def largest(directory):
    files = [Path(parent) / name for parent, _, names in os.walk(directory) for name in names]
    return sorted((file for file in files if not file.is_symlink()), key=lambda file: -file.stat().st_size)
