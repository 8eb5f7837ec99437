"""Splits real wheels with one process of kpackfs and as many threads, and with 1, 2 and 4 workers; compares bytes, CPU and wall time.

usage: scripts/check-fleet --corpus [DIR…]
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
KPACKFS = os.environ["KPACKFS"]
WORKERS = [int(word) for word in os.environ.get("WORKERS", "1 2 4").split()]
S3_WORKERS = [int(word) for word in os.environ.get("S3_WORKERS", "2").split()]
PR_SET_CHILD_SUBREAPER = 36
CORPUS = os.environ.get("KPACKFS_CORPUS", str(Path.home() / ".cache/kpackfs-corpus"))


def measured(command: list[str], **environment: str) -> tuple[float, float, int, str]:
    """Processor time of a command and of all processes that came of it, wall time, exit code, output."""
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **environment}
    )
    output = process.communicate()[0]
    wall = time.monotonic() - started
    # The server that forks workers ends after the command. It becomes a child of this process, since main() asks for that.
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, wall, process.returncode, output


def one_process(wheels: list[Path], place: Path, threads: int) -> tuple[float, float]:
    """`kpackfs split` and `kpackfs verify` of each wheel, one after the other; processor and wall time of all."""
    cpu = wall = 0.0
    for wheel in wheels:
        stage = place.with_name("stage")
        split = [KPACKFS, "split", str(wheel), "-o", str(stage), "--format", "wheel", "-j", str(threads)]
        took = measured(split, KPACKFS_CACHE_DIR="")
        checked = measured([KPACKFS, "verify", str(stage), "-j", str(threads)]) if took[2] == 0 else (0.0, 0.0, 0, "")
        cpu, wall = cpu + took[0] + checked[0], wall + took[1] + checked[1]
        place.mkdir(exist_ok=True)
        for made in stage.glob("*"):
            made.rename(place / made.name)
        shutil.rmtree(stage, ignore_errors=True)
    print(f"one process, {threads} threads: {cpu:.1f} s CPU, {wall:.1f} s wall", flush=True)
    return cpu, wall


def fleet(source: str, destination: str, *options: str) -> tuple[float, float, dict[str, Any]]:
    """A run with workers on this machine; processor time of it and of all workers, wall time, report."""
    command = [sys.executable, "-m", "kpackfs_fleet", "split", source, destination, "-j", "1", "--json", *options]
    cpu, wall, code, output = measured(command, PYTHONPATH=str(REPOSITORY / "python"))
    if code != 0:
        sys.exit(f"{' '.join(command)}: exit code {code}\n{output}")
    return cpu, wall, json.loads(output)


def same(one: Path, other: Path) -> None:
    """Fails unless both directories have the same files."""
    subprocess.run(["diff", "--recursive", "--exclude", ".kpackfs-fleet", str(one), str(other)], check=True)


def again(source: str, destination: str) -> None:
    """Fails unless a second run does nothing."""
    _, _, report = fleet(source, destination, "--local", "1")
    done = {name: count for name, count in report["counters"].items() if count}
    if done != {"wheels_there": len(report["wheels"])}:
        sys.exit(f"the second run was not idle: {done}")


def main() -> None:
    """Compares and prints."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="fleet-corpus-") as name:
        work = Path(name)
        source = work / "src"
        source.mkdir()
        for directory in sys.argv[1:] or [CORPUS]:
            for wheel in Path(directory).glob("*.whl"):
                os.symlink(wheel, source / wheel.name)
        wheels = sorted(source.glob("*.whl"))
        for workers in WORKERS:
            # With as many threads as there are workers, so that both keep the same number of processors busy: where two
            # processors share caches and memory, each takes more time for the same work.
            alone = one_process(wheels, work / "one", workers)
            cpu, wall, report = fleet(str(source), str(work / "dst"), "--local", str(workers))
            same(work / "one", work / "dst")
            again(str(source), str(work / "dst"))
            tasks = sum(wheel["tasks"] for wheel in report["wheels"])
            spent = sum(wheel["cpu_seconds"] for wheel in report["wheels"])
            print(
                f"{workers} workers, directories: {cpu:.1f} s CPU ({cpu / alone[0]:.2f}), of which tasks {spent:.1f} s "
                f"({spent / alone[0]:.2f}); {wall:.1f} s wall, {tasks} tasks; equal; nothing to do for a second run",
                flush=True,
            )
            shutil.rmtree(work / "dst")
            if workers != WORKERS[-1]:
                shutil.rmtree(work / "one")
        if S3_WORKERS:
            s3(source, work)


def s3(source: Path, work: Path) -> None:
    """The same from and to an S3 server on loopback."""
    import s3fs
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ.update(AWS_ENDPOINT_URL=f"http://{host}:{port}", AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")
    # On a busy machine moto takes more than the usual minute to put the pieces of a large object together.
    patience = {"read_timeout": 600}
    os.environ["FSSPEC_S3"] = json.dumps({"config_kwargs": patience})
    store = s3fs.S3FileSystem(use_listings_cache=False, config_kwargs=patience)
    store.mkdir("corpus")
    for wheel in source.glob("*.whl"):
        store.put_file(str(wheel), f"corpus/src/{wheel.name}")
    for workers in S3_WORKERS:
        cpu, wall, report = fleet("s3://corpus/src", f"s3://corpus/dst{workers}", "--local", str(workers))
        place = work / "from-s3"
        for path in store.find(f"corpus/dst{workers}"):
            if ".kpackfs-fleet" not in path:
                place.mkdir(exist_ok=True)
                store.get_file(path, str(place / path.rpartition("/")[2]))
        same(work / "one", place)
        again("s3://corpus/src", f"s3://corpus/dst{workers}")
        counters = {name: count for name, count in report["counters"].items() if count}
        print(f"{workers} workers, S3: {cpu:.1f} s CPU, {wall:.1f} s wall; equal; {counters}", flush=True)
        shutil.rmtree(place)
        store.rm(f"corpus/dst{workers}", recursive=True)
    server.stop()


if __name__ == "__main__":
    main()
