"""Wheels that are made of trees: what deflating them in blocks costs, against one stream for each file."""

import zipfile

from .results import seconds, size

# Bytes. Smaller members are many, more than an argument list holds, and say little.
SMALLEST = 4096


def run(bench):
    for wheel in bench.inputs.wheels:
        tree = bench.fresh("unpacked")
        with zipfile.ZipFile(wheel.path) as archive:
            archive.extractall(tree)
        target = next(iter(bench.inspect(wheel.path)["device"]))
        deflating(bench, wheel.name, tree, ("wheel",))
        deflating(bench, wheel.name, tree, ("thin-wheel", "--gpu-targets", target))
        bench.discard(tree)


def deflating(bench, name, tree, form):
    """The CPU time of deflating is what a split takes longer than one that stores members."""
    longer, control = [], []
    for _ in range(bench.rounds):
        out = bench.fresh("deflated")
        deflated = bench.cost(command(bench, tree, out, form, 6)).cpu
        files, packed = members(bench, out)
        stored_out = bench.fresh("stored")
        longer.append(deflated - bench.cost(command(bench, tree, stored_out, form, 0)).cpu)
        done = bench.control("deflate", *(file for file in files.rglob("*") if file.is_file()))
        control.append(done["cpu_seconds"])
        for directory in (out, stored_out, files):
            bench.discard(directory)
    what = f"{form[0]} of {name}, unpacked: deflating {size(done['bytes'])}"
    bench.compare(f"{what}, CPU time", longer, control, seconds, "C4", at_most=1.15)
    bench.compare(f"{what}, bytes", [packed], [done["packed_bytes"]], size, "C4", at_most=1.02)


def command(bench, tree, out, form, level):
    return bench.kpackfs.command("split", tree, "--format", *form, "--deflate", level, "-o", out)


def members(bench, out):
    """The deflated members of all wheels in a directory as files, and their deflated size."""
    files, packed = bench.fresh("members"), 0
    for number, wheel in enumerate(out.rglob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            deflated = [it for it in archive.infolist() if it.compress_type == zipfile.ZIP_DEFLATED and it.file_size >= SMALLEST]
            archive.extractall(files / str(number), deflated)
            packed += sum(it.compress_size for it in deflated)
    return files, packed
