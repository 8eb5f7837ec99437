"""A wheel of the size of the one that rocm-systems#3855 splits: what splitting and inspecting it costs, and what its bytes cost."""

import shutil
import zipfile

from .results import seconds, size

# MiB: the least that a split of this size is expected to do with, and its allowance at the default memory.
LITTLE = 64
PEAKS = {None: 304 << 20, LITTLE: 120 << 20}


def run(bench):
    if shutil.which("unzip") is None:
        return bench.left_out("unzip is not installed")
    wheel = bench.inputs.seed
    bench.warm(wheel)
    with zipfile.ZipFile(wheel) as archive:
        members = archive.namelist()
    names = ("split", "inspect", "unzip", "cp", "zlib-rs", "zstd")
    cpu, peaks, walls = {name: [] for name in names}, {memory: [] for memory in PEAKS}, []
    for _ in range(bench.rounds):
        cpu["unzip"].append(bench.cost(["unzip", "-tqq", wheel]).cpu)
        taken = split(bench, wheel)
        cpu["split"].append(taken.cpu)
        walls.append(taken.seconds)
        peaks[None].append(taken.peak)
        peaks[LITTLE].append(split(bench, wheel, "--memory", LITTLE).peak)
        cpu["inspect"].append(bench.cost(bench.kpackfs.command("inspect", wheel)).cpu)
        copy = bench.fresh("copy")
        cpu["cp"].append(bench.cost(["cp", wheel, copy]).cpu)
        bench.discard(copy)
        cpu["zlib-rs"].append(bench.control("inflate", wheel, *members)["cpu_seconds"])
        cpu["zstd"].append(bench.control("compress", wheel)["compress_seconds"])
    what = f"split --format wheel of {size(wheel.stat().st_size)}"
    bench.compare(f"{what}, CPU time", cpu["split"], cpu["unzip"], seconds, "unzip -t", at_most=0.6)
    for control, name in (("zlib-rs", "zlib-rs, all members"), ("zstd", "zstd -3 of the code objects"), ("cp", "cp")):
        bench.compare(f"{what}, CPU time", cpu["split"], cpu[control], seconds, name)
    bench.absolute(f"{what}, wall time", walls, seconds, f"{bench.cores} cores")
    for memory, allowed in PEAKS.items():
        bench.absolute(f"{what}, peak memory", peaks[memory], size, f"--memory {memory}" if memory else "", at_most=allowed)
    bench.compare("inspect, CPU time", cpu["inspect"], cpu["unzip"], seconds, "unzip -t")


def split(bench, wheel, *options):
    out = bench.fresh("split")
    taken = bench.cost(bench.kpackfs.command("split", wheel, "--format", "wheel", "-o", out, *options))
    bench.discard(out)
    return taken
