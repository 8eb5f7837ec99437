"""Wheels: the first mount and the second, and deflated members."""

from .results import rate, seconds, share

RANDOM_READS = 200
# ratarmount inflates from the beginning for each read.
RATARMOUNT_READS = 8
# C2 in bytes per second from which on the filesystem, not inflating, is the limit.
FAST = 1e9


def run(bench):
    for wheel in bench.inputs.wheels:
        bench.warm(wheel.path)
        mounting(bench, wheel)
        member(bench, wheel)


def usable(mount, wheel):
    """Seconds until every fat library has its size and a first byte."""
    for path in wheel.fat:
        with (mount.path / "host" / path).open("rb") as file:
            file.read(1)
    return mount.elapsed()


def mounting(bench, wheel):
    first, second, control, spent, inflating, index = [], [], [], [], [], []
    for _ in range(bench.rounds):
        cache = bench.fresh("cache")
        with bench.mount(wheel.path, cache=cache) as mount:
            first.append(usable(mount, wheel))
            spent.append(mount.cpu())
        done = bench.control("inflate", wheel.path, *wheel.fat, "--threads", bench.cores)
        control.append(done["seconds"])
        inflating.append(done["cpu_seconds"])
        with bench.mount(wheel.path, cache=cache) as mount:
            second.append(usable(mount, wheel))
        index.append(sum(file.stat().st_size for file in cache.rglob("*") if file.is_file()))
        bench.discard(cache)
    against = f"C2, {bench.cores} threads"
    bench.compare(f"{wheel.name}: first mount until all fat libraries can be read", first, control, seconds, against, at_most=1.15)
    bench.compare(f"{wheel.name}: the same, CPU time", spent, inflating, seconds, "C2")
    bench.absolute(f"{wheel.name}: second mount until the same", second, seconds, at_most=0.03)
    if bench.kpackfs.has("mount", "--cache-dir"):
        shares = [value / wheel.path.stat().st_size for value in index]
        bench.absolute(f"{wheel.name}: index, part of the wheel", shares, share, at_most=0.01)
    else:
        bench.left_out("the index: kpackfs has no --cache-dir")


def member(bench, wheel):
    """The largest member, unchanged: outside of overlay roots it is not rewritten."""
    cache = bench.fresh("cache")
    options = ("--overlay-root", wheel.dist_info)
    copy = bench.inputs.unpacked(wheel).path / wheel.big
    with bench.mount(wheel.path, *options, cache=cache) as mount:
        bench.same(mount.path / "host" / wheel.big, copy)
    cold, inflated, served, random, peer, peer_random = [], [], [], [], [], []
    for _ in range(bench.rounds):
        with bench.mount(wheel.path, *options, cache=cache) as mount:
            cold.append(bench.sequential(mount.path / "host" / wheel.big))
        done = bench.control("inflate", wheel.path, wheel.big)
        inflated.append(done["bytes"] / done["cpu_seconds"])
        with bench.memfs(copy) as mount:
            served.append(bench.sequential(mount.path / copy.name))
        if bench.peer("fuse-zip"):
            with bench.fuse_zip(wheel.path) as mount:
                peer.append(bench.sequential(mount.path / wheel.big))
        with bench.mount(wheel.path, *options, cache=cache) as mount:
            random.append(mean(bench, mount.path / "host" / wheel.big, RANDOM_READS))
        if bench.peer("ratarmount"):
            with bench.ratarmount(wheel.path) as mount:
                peer_random.append(mean(bench, mount.path / wheel.big, RATARMOUNT_READS))
    limit = [min(pair) for pair in zip(inflated, served)]
    against = "C1" if sum(inflated) > sum(served) else "C2"
    goal = 0.8 if sorted(inflated)[len(inflated) // 2] < FAST else 0.65
    what = f"{wheel.name}: largest member, unchanged"
    bench.compare(f"{what}, cold, sequential", cold, limit, rate, against, at_least=goal)
    if peer:
        bench.compare(f"{what}, cold, sequential", cold, peer, rate, "fuse-zip", at_least=2.5)
    else:
        bench.left_out(f"{what}, cold, sequential: fuse-zip is not installed")
    bench.absolute(f"{what}, random 128 KiB, mean", random, seconds, at_most=0.005)
    if peer_random:
        bench.faster(f"{what}, random 128 KiB, mean", random, peer_random, "ratarmount", at_least=50)
    else:
        bench.left_out(f"{what}, random 128 KiB: ratarmount is not installed")


def mean(bench, file, count):
    return bench.control("random", file, "--block", bench.inputs.block, "--count", count)["mean_seconds"]
