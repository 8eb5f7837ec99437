"""Splitting: its cost, how the cost grows, and what manifests add to it."""

import os
from statistics import median

from .results import rate, seconds, size

# Seconds of CPU time.
SHORT = 0.5


def run(bench):
    for tree, allowed in bench.inputs.splits:
        if tree.library:
            bench.warm(tree.path / tree.library)
        cost(bench, tree, allowed)
    tree = bench.inputs.splits[0][0]
    scaling(bench, tree)
    growth(bench, tree, bench.inputs.twice(tree))
    for tree, is_wheel in bench.inputs.manifests:
        for options in ((), ("--format", "wheel"))[: 2 if is_wheel else 1]:
            manifests(bench, tree, options)


def split(bench, source, *options, processors=None, then=lambda out: None):
    out = bench.fresh("split")
    taken = bench.cost(bench.kpackfs.command("split", source, "-o", out, *options), processors)
    then(out)
    bench.discard(out)
    return taken


def cost(bench, tree, allowed):
    """CPU seconds. `allowed` is for one machine, so the speed of zstd on the same objects is printed next to it."""
    subject, writing, yardstick, peaks = [], [], [], []

    def write(out):
        copy = bench.fresh("copy")
        writing.append(bench.cost(["cp", "-r", f"{out}/.", copy]).cpu)
        bench.discard(copy)

    for _ in range(bench.rounds):
        taken = split(bench, tree.path, then=write)
        subject.append(taken.cpu)
        peaks.append(taken.peak)
        done = bench.control("compress", tree.path)
        yardstick.append(done["bytes"] / done["compress_seconds"])
    note = f"zstd-3: {rate(median(yardstick))}; writing: {seconds(median(writing))}"
    what = f"split of {tree.name}"
    bench.absolute(f"{what}, CPU time", subject, seconds, note, at_most=allowed + median(writing))
    bench.absolute(f"{what}, peak memory", peaks, size, at_most=(256 + 64) << 20)


def scaling(bench, tree):
    processors = sorted(os.sched_getaffinity(0))[:2]
    if len(processors) < 2:
        return bench.left_out("one core against two: there is one only")
    one, two = [], []
    for _ in range(bench.rounds):
        one.append(split(bench, tree.path, "-j", 1, processors=processors[:1]).seconds)
        two.append(split(bench, tree.path, "-j", 2, processors=processors).seconds)
    bench.compare(f"split of {tree.name}, one core against two", one, two, seconds, "two", at_least=1.8)


def growth(bench, tree, twice):
    small, large = [], []
    for _ in range(bench.rounds):
        large.append(split(bench, twice.path))
        small.append(split(bench, tree.path))
    what = f"split of {twice.name} against once"
    bench.compare(what, [it.seconds for it in large], [it.seconds for it in small], seconds, "once", at_most=2.1)
    bench.compare(f"{what}, memory", [it.peak for it in large], [it.peak for it in small], size, "once", at_most=1.1)


def manifests(bench, tree, options):
    """CPU time with and without manifests, in turn."""
    first = split(bench, tree.path, *options)
    # Two percent of a short run are less than the noise of a few runs.
    rounds = 10 * bench.rounds if first.cpu < SHORT and bench.rounds > 1 else bench.rounds
    subject, control = [], []
    for _ in range(rounds):
        control.append(split(bench, tree.path, *options, "--no-manifest").cpu)
        subject.append(split(bench, tree.path, *options).cpu)
    form = "wheels" if options else "directories"
    bench.compare(f"split of {tree.name} to {form}, CPU time with manifests", subject, control, seconds, "without", at_most=1.02)
