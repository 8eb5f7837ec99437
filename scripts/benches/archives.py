"""Archives: all code objects compressed on all cores, and those of one architecture."""

from .results import plain

# Architectures whose archive is read alone: the first one that an input has.
ALONE = ("gfx942", "gfx90a", "gfx1030", "gfx1100", "gfx906")


def run(bench):
    for tree in bench.inputs.trees:
        bench.warm(tree.path / tree.library)
        keys = list(bench.inspect(tree.path)["device"])
        every(bench, tree, keys)
        alone(bench, tree, next((key for key in ALONE if key in keys), keys[0]))


def every(bench, tree, keys):
    written, spent, mounted, ideal, together, decoded, bundles = [], [], [], [], [], [], 0
    for _ in range(bench.rounds):
        cost = split(bench, tree, keys)
        written.append(cost.seconds)
        spent.append(cost.cpu)
        done = bench.control("compress", tree.path)
        ideal.append(done["compress_seconds"] + done["decode_seconds"])
        bundles = done["decoded_bytes"]
        with bench.mount(tree.path) as mount:
            archives = sorted(str(path) for key in keys for path in (mount.path / key).rglob("?*.kpack"))
            bench.control("sequential", *archives)
            mounted.append(mount.elapsed())
            decoded.append(mount.counter("bytes_decompressed"))
        together.append(bench.control("compress", tree.path, "--threads", bench.cores)["seconds"])
    what = f"{tree.name}: all archives, {len(keys)} architectures"
    against = "C3 + bundles"
    shared = [time / bench.cores for time in ideal]
    bench.faster(f"{what}, split", written, shared, f"({against}) / {bench.cores}", at_least=0.8)
    bench.faster(f"{what}, split, CPU time", spent, ideal, against)
    bench.faster(f"{what}, one reader of a mount", mounted, shared, f"({against}) / {bench.cores}", at_least=0.8)
    bench.faster(f"{what}, split", written, together, f"{against}, {bench.cores} threads")
    if bundles:
        shares = [value / bundles for value in decoded]
        bench.absolute(f"{what}, one reader of a mount: times that a bundle is decoded", shares, plain, at_most=2.01)


def alone(bench, tree, key):
    taken, ideal = [], []
    for _ in range(bench.rounds):
        taken.append(split(bench, tree, [key]).cpu)
        done = bench.control("compress", tree.path, "--processor", key)
        ideal.append(done["compress_seconds"] + done["decode_seconds"])
    bench.faster(f"{tree.name}: archive of {key} alone, CPU time", taken, ideal, "C3 + bundles", at_least=0.8)


def split(bench, tree, keys):
    out = bench.fresh("split")
    views = [f"--view={key}" for key in keys]
    cost = bench.cost(bench.kpackfs.command("split", tree.path, "-o", out, *views))
    bench.discard(out)
    return cost
