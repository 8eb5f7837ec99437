"""An install tree: time until it is ready, and the cost of reading it."""

import shutil

from .results import rate, seconds

RANDOM_READS = 3000


def run(bench):
    first_byte(bench, bench.inputs.tree)
    for tree in bench.inputs.rewritten:
        rewritten(bench, tree)
    unchanged(bench, bench.inputs.plain)


def first_byte(bench, tree):
    """From the start of the command to the first byte of the rewritten library, without an index."""
    bench.warm(tree.path / tree.library)
    times = []
    for _ in range(bench.rounds):
        with bench.mount(tree.path, cache=bench.fresh("cache")) as mount:
            with (mount.path / "host" / tree.library).open("rb") as file:
                file.read(1)
            times.append(mount.elapsed())
    bench.absolute(f"{tree.name}: mount to first byte of the rewritten library", times, seconds, at_most=0.05)


def rewritten(bench, tree):
    """The library without its device code: every mount is new, so that the kernel has nothing of it."""
    cache = bench.fresh("cache")
    copy = copy_out(bench, tree, cache)
    cold, served, warm, served_warm, native, random = [], [], [], [], [], []
    for _ in range(bench.rounds):
        with bench.mount(tree.path, cache=cache) as mount:
            file = mount.path / "host" / tree.library
            cold.append(bench.sequential(file))
            warm.append(bench.sequential(file))
        bench.warm(copy)
        native.append(bench.sequential(copy))
        with bench.memfs(copy) as mount:
            served.append(bench.sequential(mount.path / copy.name))
            served_warm.append(bench.sequential(mount.path / copy.name))
        with bench.mount(tree.path, cache=cache) as mount:
            done = bench.control("random", mount.path / "host" / tree.library, "--count", RANDOM_READS)
            random.append(done["median_seconds"])
    bench.compare(f"{tree.name}: rewritten library, cold, sequential", cold, served, rate, "C1", at_least=0.85)
    bench.compare(f"{tree.name}: rewritten library, warm", warm, native, rate, "C0", at_least=0.75)
    bench.compare(f"{tree.name}: rewritten library, warm", warm, served_warm, rate, "C1, warm")
    bench.absolute(f"{tree.name}: rewritten library, random 4 KiB, first touch, median", random, seconds, at_most=25e-6)


def copy_out(bench, tree, cache):
    """A copy of the rewritten library for the controls."""
    copy = bench.fresh("copy") / "library.so"
    with bench.mount(tree.path, cache=cache) as mount:
        shutil.copyfile(mount.path / "host" / tree.library, copy)
    with bench.mount(tree.path, cache=cache) as mount:
        bench.same(mount.path / "host" / tree.library, copy)
    return copy


def unchanged(bench, tree):
    native = tree.path / tree.library
    bench.warm(native)
    subject, control = [], []
    for _ in range(bench.rounds):
        with bench.mount(tree.path) as mount:
            subject.append(bench.sequential(mount.path / "host" / tree.library))
        control.append(bench.sequential(native))
    with bench.mount(tree.path) as mount:
        bench.same(mount.path / "host" / tree.library, native)
    bench.compare("unchanged file, cold, sequential", subject, control, rate, "C0", at_least=0.95)
