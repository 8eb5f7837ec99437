"""Small wheels, a cluster and an S3 server on this machine. `scripts/check-fleet` runs these tests."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "python" / "data" / "scripts" / "kpackfs-fleet"
FIXTURES = REPOSITORY / "tests" / "fixtures"
sys.path.insert(0, str(REPOSITORY / "python"))

from kpackfs_fleet import cli, kpackfs

# Before workers start, which inherit it.
os.environ["KPACKFS"] = str(Path(os.environ.get("KPACKFS", REPOSITORY / "target/release/kpackfs")).resolve())
os.environ["PYTHONPATH"] = str(REPOSITORY / "python")
os.environ.pop("SOURCE_DATE_EPOCH", None)
# A busy machine is slow, and loses no connection.
os.environ.update(
    DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT="60s",
    DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP="300s",
    DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="30 minutes",
)


def make_wheel(directory: Path, name: str, members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    """A wheel of version 1.0 with these members."""
    info = f"{name}-1.0.dist-info"
    members = {
        **members,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n",
    }
    lines = []
    for path, content in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}\n")
    members[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"]).encode()
    wheel = directory / f"{name}-1.0-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w", compression) as file:
        for path, content in members.items():
            file.writestr(zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0)), content, compression)
    return wheel


def fill(directory: Path) -> Path:
    """A release: two wheels with device code and one without."""
    directory.mkdir(parents=True, exist_ok=True)
    noise = random.Random(1).randbytes(1 << 20)
    alpha = {"alpha/lib/libmixed.so": (FIXTURES / "mixed.so").read_bytes(), "alpha/data.bin": noise}
    make_wheel(directory, "alpha", {**alpha, "alpha/__init__.py": b""})
    make_wheel(directory, "beta", {"beta/libcompressed.so": (FIXTURES / "compressed.so").read_bytes(), "beta/__init__.py": b""})
    make_wheel(directory, "pure", {"pure/__init__.py": b"answer = 42\n"})
    return directory


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release, with a wheel like PyTorch's whose databases belong to families."""
    directory = fill(tmp_path_factory.mktemp("release"))
    command = [sys.executable, str(REPOSITORY / "scripts/make-torch-wheel"), str(directory), "--size", "tiny"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return directory


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small release that a test may damage."""
    return fill(tmp_path / "src")


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An S3 server on loopback, and a file system for it."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    s3fs = pytest.importorskip("s3fs")
    server.start()
    host, port = server.get_host_and_port()
    os.environ.update(
        AWS_ENDPOINT_URL=f"http://{host}:{port}",
        AWS_ACCESS_KEY_ID="test",
        AWS_SECRET_ACCESS_KEY="test",
        AWS_DEFAULT_REGION="us-east-1",
    )
    yield s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
    server.stop()


@pytest.fixture(scope="session")
def cluster(s3: Any) -> Any:
    """Two workers with one thread each."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as made:
        yield made


@pytest.fixture
def fleet(cluster: Any, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command on the two workers; its exit code, and what it printed: the report if there is one."""

    def run(*arguments: object) -> tuple[int, Any]:
        words = ["split", *map(str, arguments), "--scheduler", cluster.scheduler_address, "--json"]
        capsys.readouterr()
        code = cli.main(words)
        printed = capsys.readouterr()
        return code, json.loads(printed.out) if printed.out else printed.err

    return run


def run_fleet(*arguments: object, **environment: str) -> tuple[int, Any, str]:
    """Runs the command in a session of its own, with workers of its own unless it names a scheduler."""
    command = [sys.executable, str(SCRIPT), "split", *map(str, arguments), "--json"]
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
        start_new_session=True,
    )
    report = None
    with contextlib.suppress(ValueError):
        report = json.loads(done.stdout)
    return done.returncode, report, done.stderr


def one_machine(source: Path, place: Path, form: str, *options: str) -> dict[str, bytes]:
    """What `kpackfs split` writes for each wheel of a release."""
    for wheel in sorted(source.glob("*.whl")):
        if wheel.name.startswith("pure-"):
            continue
        output = place / wheel.name.removesuffix(".whl") if form == "directory" else place
        kpackfs.run(["split", str(wheel), "-o", str(output), "--format", form, *options])
    return content(place)


def content(place: Path) -> dict[str, bytes]:
    """All files below a directory, except those of the fleet itself."""
    files = (path for path in place.rglob("*") if path.is_file() and ".kpackfs-fleet" not in path.parts)
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in files}


def own(place: Path) -> list[str]:
    """The fleet's own files in a directory."""
    return sorted(path.relative_to(place).as_posix() for path in (place / ".kpackfs-fleet").rglob("*") if path.is_file())


def statuses(report: dict[str, Any]) -> dict[str, str]:
    """The status of each wheel, by the first word of its name."""
    return {wheel["name"].partition("-")[0]: wheel["status"] for wheel in report["wheels"]}


def worked(report: dict[str, Any]) -> dict[str, int]:
    """The counters that are not zero, without those of bytes."""
    return {name: count for name, count in report["counters"].items() if count and not name.startswith("bytes_")}


def damaged(wheel: Path, member: str) -> bytes:
    """A wheel with a byte of a member's data flipped."""
    whole = bytearray(wheel.read_bytes())
    with zipfile.ZipFile(io.BytesIO(whole)) as file:
        info = file.getinfo(member)
    whole[info.header_offset + 30 + len(member) + info.compress_size // 2] ^= 0x10
    return bytes(whole)
