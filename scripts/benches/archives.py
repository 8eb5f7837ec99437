"""Archives: all code objects compressed on all cores, and those of one architecture."""

from .results import plain, seconds

# Architectures of which there is one alone, the first that an input has.
ALONE = ("gfx942", "gfx90a", "gfx1030", "gfx1100", "gfx906")


def run(bench):
    for tree in bench.inputs.trees:
        bench.warm(tree.path / tree.library)
        keys = list(bench.inspect(tree.path)["device"])
        every(bench, tree, keys)
        alone(bench, tree, next((key for key in ALONE if key in keys), keys[0]))


def every(bench, tree, keys):
    written, mounted, ideal, decoded, bundles = [], [], [], [], 0
    for _ in range(bench.rounds):
        written.append(split(bench, tree, keys).seconds)
        done = bench.control("compress", tree.path)
        ideal.append((done["compress_seconds"] + done["decode_seconds"]) / bench.cores)
        bundles = done["decoded_bytes"]
        with bench.mount(tree.path) as mount:
            archives = sorted(str(path) for key in keys for path in (mount.path / key).rglob("?*.kpack"))
            bench.control("sequential", *archives)
            mounted.append(mount.elapsed())
            decoded.append(mount.counter("bytes_decompressed"))
    against = f"(C3 + bundles) / {bench.cores}"
    speed = f"{tree.name}: all archives, {len(keys)} architectures"
    for how, times in (("split", written), ("one reader of a mount", mounted)):
        # Of speeds, as everywhere: the time that is ideal by the time that it takes.
        bench.compare(f"{speed}, {how}", per_second(times), per_second(ideal), per(seconds), against, at_least=0.8)
    if bundles:
        shares = [value / bundles for value in decoded]
        bench.absolute(f"{speed}, one reader of a mount: times that a bundle is decoded", shares, plain, at_most=1.05)


def alone(bench, tree, key):
    taken, ideal = [], []
    for _ in range(bench.rounds):
        taken.append(split(bench, tree, [key]).cpu)
        done = bench.control("compress", tree.path, "--target", key)
        ideal.append(done["compress_seconds"] + done["decode_seconds"])
    what = f"{tree.name}: archive of {key} alone, CPU time"
    bench.compare(what, per_second(taken), per_second(ideal), per(seconds), "C3 + bundles", at_least=0.8)


def split(bench, tree, keys):
    out = bench.fresh("split")
    views = [f"--view={key}" for key in keys]
    cost = bench.cost(bench.kpackfs.command("split", tree.path, "-o", out, *views))
    bench.discard(out)
    return cost


def per_second(times):
    return [1 / time for time in times]


def per(unit):
    return lambda value: unit(1 / value)
