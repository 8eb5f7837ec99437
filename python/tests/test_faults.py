"""Workers that are killed, disks that are full, connections that break, downloads that are damaged."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import content, one_machine, own, run_fleet, statuses, worked

PRELOAD = {"DASK_DISTRIBUTED__WORKER__PRELOAD": json.dumps([str(Path(__file__).with_name("faults.py"))])}


def fault(phase: str, **more: Any) -> dict[str, str]:
    return {**PRELOAD, "KPACKFS_FLEET_FAULT": json.dumps({"phase": phase, **more})}


@pytest.fixture
def bucket(s3: Any, source: Path, request: pytest.FixtureRequest) -> str:
    name = "f" + str(abs(hash(request.node.name)))
    s3.mkdir(name)
    s3.put([str(path) for path in source.glob("*.whl")], f"{name}/src/")
    return name


@pytest.mark.parametrize("phase", ["fetch", "inspect", "split", "verify", "publish", "note", "noted"])
def test_a_worker_that_is_killed_leaves_nothing_wrong(bucket: str, source: Path, tmp_path: Path, phase: str) -> None:
    marker = tmp_path / "struck"
    code, report, messages = run_fleet(f"s3://{bucket}/src", tmp_path / "dst", "--local", 2, **fault(phase, marker=str(marker)))
    assert marker.exists()
    assert code == 0, (report, messages)
    assert content(tmp_path / "dst") == one_machine(source, tmp_path / "one", "wheel")
    code, report, _ = run_fleet(f"s3://{bucket}/src", tmp_path / "dst", "--local", 1)
    assert (code, worked(report)) == (0, {"wheels_there": 3})


@pytest.mark.parametrize("phase", ["start", "split"])
@pytest.mark.parametrize(("name", "group"), [("SIGINT", False), ("SIGINT", True), ("SIGTERM", False)])
def test_a_run_that_is_interrupted_says_so_and_nothing_else(
    source: Path, tmp_path: Path, name: str, group: bool, phase: str
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    once = fault(phase, marker=str(tmp_path / "struck"), interrupt=name, group=group)
    code, report, messages = run_fleet(source, tmp_path / "dst", "--local", 1, "--quiet", "--scratch", scratch, **once)
    assert (code, report) == (130, None)
    assert messages == "kpackfs-fleet: interrupted; run the same command again to go on\n"
    assert not list(scratch.iterdir())
    code, report, _ = run_fleet(source, tmp_path / "dst", "--local", 1)
    assert code == 0 and content(tmp_path / "dst") == one_machine(source, tmp_path / "one", "wheel")


def test_the_next_run_deletes_what_a_killed_one_left_on_its_machine(source: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    once = fault("split", marker=str(tmp_path / "struck"), interrupt="SIGKILL")
    code, *_ = run_fleet(source, tmp_path / "dst", "--local", 1, "--quiet", "--scratch", scratch, **once)
    assert (code, len(list(scratch.iterdir()))) == (-signal.SIGKILL, 1)
    others = {"kpackfs-fleet-run-of-another.txt", "kpackfs-fleet-run-alive"}
    for name in others:
        (scratch / name).mkdir()
    alive = os.open(scratch / "kpackfs-fleet-run-alive", os.O_RDONLY)
    fcntl.flock(alive, fcntl.LOCK_EX)
    code, *_ = run_fleet(source, tmp_path / "dst", "--local", 1, "--scratch", scratch)
    os.close(alive)
    assert (code, {path.name for path in scratch.iterdir()}) == (0, others)


def test_a_wheel_that_kills_its_workers_is_named_and_no_other(bucket: str, tmp_path: Path) -> None:
    code, report, _ = run_fleet(f"s3://{bucket}/src", tmp_path / "dst", "--local", 2, **fault("publish", wheel="beta"))
    assert code == 1
    assert statuses(report) == {"alpha": "split", "beta": "failed", "pure": "nothing to split"}
    assert "the worker was killed" in report["wheels"][1]["reason"] and not report["failure"]
    assert not [name for name in content(tmp_path / "dst") if "beta" in name]
    code, report, _ = run_fleet(f"s3://{bucket}/src", tmp_path / "dst", "--local", 1)
    assert code == 0 and statuses(report) == {"alpha": "there", "beta": "split", "pure": "nothing to split"}
    assert report["counters"]["splits"] == 1


def test_a_download_that_is_damaged_is_named_and_fetched_again(bucket: str, source: Path, tmp_path: Path) -> None:
    marker = str(tmp_path / "struck")
    code, report, _ = run_fleet(f"s3://{bucket}/src", tmp_path / "dst", "--local", 1, **fault("flip", marker=marker))
    assert code == 0
    assert content(tmp_path / "dst") == one_machine(source, tmp_path / "one", "wheel")
    assert report["counters"]["damaged_downloads"] == 1 and report["counters"]["wheels_fetched"] == 4
    warning = report["wheels"][0]["warnings"][0]
    assert "damaged on its way" in warning and "alpha/data.bin" in warning


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
def test_a_full_worker_disk_is_named(bucket: str, source: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1800k", "tmpfs", disk], check=True)
    try:
        code, report, _ = run_fleet(
            f"s3://{bucket}/src", tmp_path / "dst", "--local", 1, "--scratch", disk, "--retries", 1, TMPDIR=str(tmp_path)
        )
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
    assert code == 1 and statuses(report) == {"alpha": "failed", "beta": "split", "pure": "nothing to split"}
    assert "No space left on device" in report["wheels"][0]["reason"]
    code, report, _ = run_fleet(f"s3://{bucket}/src", tmp_path / "dst", "--local", 1)
    assert code == 0 and report["counters"]["splits"] == 1
    assert content(tmp_path / "dst") == one_machine(source, tmp_path / "one", "wheel")


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A scheduler in a process of its own, and the file with its address."""
    file = tmp_path / "scheduler.json"
    module = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    process = subprocess.Popen([*module, "--port", "0", "--no-dashboard", "--scheduler-file", file])
    deadline = time.monotonic() + 300
    while not (file.exists() and file.read_text().endswith("}")) and time.monotonic() < deadline:
        time.sleep(0.1)
    yield process, file
    process.kill()
    process.wait()


@pytest.fixture
def proxy(scheduler: Any) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A process that connections to the scheduler go through, and its address."""
    host, _, port = json.loads(scheduler[1].read_text())["address"].removeprefix("tcp://").rpartition(":")
    process = subprocess.Popen([sys.executable, Path(__file__).with_name("proxy.py"), host, port], stdout=subprocess.PIPE)
    assert process.stdout
    yield process, f"tcp://127.0.0.1:{int(process.stdout.readline())}"
    process.kill()
    process.wait()


@pytest.mark.parametrize("gone", ["scheduler", "connection"])
def test_a_scheduler_that_is_gone_ends_the_run(scheduler: Any, proxy: Any, source: Path, tmp_path: Path, gone: str) -> None:
    victim, place = scheduler if gone == "scheduler" else proxy
    marker = tmp_path / "struck"
    environment = {
        **os.environ,
        **fault("verify", marker=str(marker), pid=victim.pid),
        "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "40s",
    }
    command = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", scheduler[1], "--nthreads", "1"]
    options = ["--no-nanny", "--no-dashboard", "--local-directory", tmp_path, "--death-timeout", "900"]
    worker = subprocess.Popen([*command, *options], env=environment)
    try:
        code, report, messages = run_fleet(
            source, tmp_path / "dst", "--scheduler", place, DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT="40s"
        )
    finally:
        worker.kill()
        worker.wait()
    assert marker.exists()
    assert code == 1, messages
    assert "the connection to the scheduler" in report["failure"]
    assert "failed" in statuses(report).values()
    assert not [name for name in own(tmp_path / "dst") if "/groups/" in name]
    code, report, _ = run_fleet(source, tmp_path / "dst", "--local", 1)
    assert code == 0
    assert content(tmp_path / "dst") == one_machine(source, tmp_path / "one", "wheel")
    code, report, _ = run_fleet(source, tmp_path / "dst", "--local", 1)
    assert (code, worked(report)) == (0, {"wheels_there": 3})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
def test_a_full_destination_is_named(source: Path, tmp_path: Path) -> None:
    place = tmp_path / "dst"
    place.mkdir()
    # Larger than what becomes of beta, smaller than alpha's host wheel.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", place], check=True)
    try:
        code, report, _ = run_fleet(source, place, "--local", 1, "--retries", 1)
        assert code == 1 and statuses(report) == {"alpha": "failed", "beta": "split", "pure": "nothing to split"}
        assert "No space left on device" in report["wheels"][0]["reason"]
        assert not list(place.glob("alpha*"))
        subprocess.run(["mount", "-o", "remount,size=8m", place], check=True)
        code, report, _ = run_fleet(source, place, "--local", 1)
        assert code == 0 and report["counters"]["splits"] == 1
        assert content(place) == one_machine(source, tmp_path / "one", "wheel")
        assert not [name for name in own(place) if "/tmp/" in name]
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)
