"""Many small files: listing them, and reading each."""

import os
import subprocess
import time

from .bench import Failure
from .results import seconds, share


def run(bench):
    databases(bench, bench.inputs.small_files)
    listing(bench, bench.inputs.torch)


def tar(directory, names):
    """Seconds. To /dev/null itself tar would write nothing and so read nothing."""
    start = time.monotonic()
    reader = subprocess.Popen(["tar", "-cf", "-", "-C", directory, *names], stdout=subprocess.PIPE)
    sink = subprocess.run(["cat"], stdin=reader.stdout, stdout=subprocess.DEVNULL)
    reader.stdout.close()
    if reader.wait() or sink.returncode:
        raise Failure(f"tar of {directory} failed")
    return time.monotonic() - start


def databases(bench, tree):
    """A tree of kernel databases, which are shown unchanged, each in the view of its architecture."""
    count = sum(len(files) for _, _, files in os.walk(tree))
    tar(tree, ["."])
    first, second, native, found, served, served_again = [], [], [], [], [], []
    for _ in range(bench.rounds):
        with bench.mount(tree) as mount:
            views = [name for name in os.listdir(mount.path) if name.startswith("gfx")]
            first.append(tar(mount.path, views))
            second.append(tar(mount.path, views))
        native.append(tar(tree, ["."]))
        with bench.memfs(tree) as mount:
            served.append(tar(mount.path, ["."]))
            served_again.append(tar(mount.path, ["."]))
        with bench.mount(tree) as mount:
            found.append(find(mount.path, views, count))
    what = f"tar of {count} small databases"
    bench.faster(f"{what}, first", first, native, "native", at_least=0.45)
    bench.faster(f"{what}, second", second, native, "native", at_least=0.9)
    bench.faster(f"C1: {what}, first", served, native, "native")
    bench.faster(f"C1: {what}, second", served_again, native, "native")
    bench.absolute("find, cold, per entry", found, seconds, at_most=10e-6)


def find(directory, views, files):
    """Seconds per entry."""
    start = time.monotonic()
    done = subprocess.run(["find", *views], cwd=directory, stdout=subprocess.PIPE, check=True)
    taken = time.monotonic() - start
    entries = done.stdout.count(b"\n")
    if entries < files:
        raise Failure(f"find saw {entries} entries of {files} files and their directories")
    return taken / entries


def listing(bench, wheel):
    """Bytes that `ls -lR` of all views reads from the wheel if there is an index."""
    cache = bench.fresh("cache")
    with bench.mount(wheel, cache=cache) as mount:
        subprocess.run(["ls", "-lR", mount.path], stdout=subprocess.DEVNULL, check=True)
    shares, times = [], []
    for _ in range(bench.rounds):
        with bench.mount(wheel, cache=cache) as mount:
            start = time.monotonic()
            subprocess.run(["ls", "-lR", mount.path], stdout=subprocess.DEVNULL, check=True)
            times.append(time.monotonic() - start)
            shares.append(mount.counter("bytes_read") / wheel.stat().st_size)
    note = "" if bench.kpackfs.has("mount", "--cache-dir") else "kpackfs has no --cache-dir"
    what = f"ls -lR of all views of a torch-shaped wheel of {wheel.stat().st_size >> 20} MiB, warm index"
    bench.absolute(f"{what}: read of the wheel", shares, share, note, at_most=0.01)
    bench.absolute(what, times, seconds)
