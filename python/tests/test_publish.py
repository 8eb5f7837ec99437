"""How files come to DST, and what killed runs leave there."""

from __future__ import annotations

import datetime
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import content, own, run_fleet
from test_faults import fault

from kpackfs_fleet import lease, store
from kpackfs_fleet.lease import Lease
from kpackfs_fleet.manifest import SETTINGS, Destination
from kpackfs_fleet.plan import Refused
from kpackfs_fleet.report import Report
from kpackfs_fleet.run import Policy, Run
from kpackfs_fleet.settings import Limits, Settings
from kpackfs_fleet.store import Store

OLD = "20200101T000000-aaaaaaaa"
RUN = "20261123T120000-0123abcd"
NAME = "x-1.0-py3-none-any.whl"


@pytest.fixture
def small_parts(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uploads in parts of 64 KiB; S3 itself wants 5 MiB."""
    monkeypatch.setattr(store, "PART", 1 << 16)
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 1)


@pytest.fixture
def requests(s3: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The requests to S3: operation and key."""
    client = pytest.importorskip("aiobotocore.client").AioBaseClient
    made: list[tuple[str, str]] = []
    call = client._make_api_call

    async def recorded(self: Any, operation: str, parameters: dict[str, Any]) -> Any:
        made.append((operation, parameters.get("Key", "")))
        return await call(self, operation, parameters)

    monkeypatch.setattr(client, "_make_api_call", recorded)
    return made


@pytest.fixture
def dst(s3: Any, request: pytest.FixtureRequest) -> Store:
    """An empty directory of a bucket of its own."""
    name = "p" + str(abs(hash(request.node.name)))
    s3.mkdir(name)
    return Store(f"s3://{name}/dst")


def file_of(place: Path, size: int) -> Path:
    path = place / "file"
    path.write_bytes(random.Random(1).randbytes(size))
    return path


def uploads(dst: Store) -> list[str]:
    """The keys of all uploads that are neither complete nor aborted."""
    return sorted(upload["Key"] for upload in dst.fs.list_multipart_uploads(dst.root.partition("/")[0]))


@pytest.mark.parametrize("size", [0, 1000])
def test_an_object_is_one_put_to_its_final_name(dst: Store, tmp_path: Path, requests: Any, size: int) -> None:
    file = file_of(tmp_path, size)
    published = dst.publish(file, NAME, RUN)
    assert requests == [("PutObject", f"dst/{NAME}"), ("HeadObject", f"dst/{NAME}")]
    assert dst.listing() == {NAME: (size, published.etag)} and dst.sha256(NAME) == published.sha256
    requests.clear()
    dst.write_json("a.json", RUN, {})
    assert requests == [("PutObject", "dst/a.json")]


def test_a_large_object_is_one_multipart_upload_to_its_final_name(
    dst: Store, tmp_path: Path, requests: Any, small_parts: None
) -> None:
    file = file_of(tmp_path, 200_000)
    published = dst.publish(file, NAME, RUN)
    assert dst.fs.cat_file(dst.path(NAME)) == file.read_bytes()
    assert dst.listing() == {NAME: (200_000, published.etag)} and not uploads(dst)
    final = [operation for operation, key in requests if key == f"dst/{NAME}"]
    assert sorted(final[1:5]) == ["UploadPart"] * 4
    assert final[:1] + final[5:7] == ["CreateMultipartUpload", "CompleteMultipartUpload", "HeadObject"]
    # All that is written under another name, and deleted, is the record of the upload.
    others = [operation for operation, key in requests if key.startswith(f"dst/.kpackfs-fleet/tmp/{RUN}/")]
    assert others == ["PutObject", "DeleteObject"]
    assert not {"CopyObject", "UploadPartCopy", "DeleteObjects"} & {operation for operation, _ in requests}


def test_an_upload_that_fails_is_aborted(dst: Store, tmp_path: Path, small_parts: None, monkeypatch: pytest.MonkeyPatch) -> None:
    call = type(dst.fs).call_s3

    def failing(self: Any, method: str, **given: Any) -> Any:
        if given.get("PartNumber") == 3:
            raise OSError("no answer")
        return call(self, method, **given)

    monkeypatch.setattr(type(dst.fs), "call_s3", failing)
    with pytest.raises(OSError, match="no answer"):
        dst.publish(file_of(tmp_path, 200_000), NAME, RUN)
    assert not uploads(dst)
    dst.remove_temporary(RUN)
    assert not dst.listing()


KILLED = """
import os, signal, sys
from pathlib import Path
from kpackfs_fleet import store
from kpackfs_fleet.lease import Lease
url, run, file, is_local = sys.argv[1:]
dst = store.Store(url)
Lease(dst, run, is_local == "local").take()
if dst.is_local:
    dst._rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
else:
    store.PART, call = 1 << 16, type(dst.fs).call_s3
    def struck(self, method, **given):
        if method == "complete_multipart_upload":
            os.kill(os.getpid(), signal.SIGKILL)
        return call(self, method, **given)
    type(dst.fs).call_s3 = struck
dst.publish(Path(file), "killed-1.0-py3-none-any.whl", run)
"""


def kill(dst: Store, file: Path, run: str, where: str = "local") -> None:
    """A run that is killed when the bytes of a file are in DST and the file has no name yet."""
    command = [sys.executable, "-c", KILLED, dst.url(dst.root), run, str(file), where]
    done = subprocess.run(command, env=dict(os.environ), check=False)
    assert done.returncode == -9


def test_uploads_of_a_killed_run_are_aborted_and_no_others(fleet: Any, s3: Any, dst: Store, source: Path, tmp_path: Path) -> None:
    kill(dst, file_of(tmp_path, 200_000), RUN)
    bucket = dst.root.partition("/")[0]
    for key in ("dst/killed-1.0-py3-none-any.whl", "dst/theirs.whl", "dst/.kpackfs-fleet/theirs"):
        s3.call_s3("create_multipart_upload", Bucket=bucket, Key=key)
    assert len(uploads(dst)) == 4
    code, report = fleet(source, f"s3://{dst.root}")
    assert code == 0, report
    assert uploads(dst) == ["dst/.kpackfs-fleet/theirs", "dst/killed-1.0-py3-none-any.whl", "dst/theirs.whl"]
    assert not [name for name in dst.listing() if "/tmp/" in name]


def test_files_of_a_killed_run_are_deleted(fleet: Any, source: Path, tmp_path: Path) -> None:
    place = tmp_path / "dst"
    kill(Store(str(place)), file_of(tmp_path, 1000), RUN)
    assert len(list((place / ".kpackfs-fleet/tmp" / RUN).iterdir())) == 2
    assert fleet(source, place)[0] == 0
    assert not list((place / ".kpackfs-fleet/tmp").iterdir())


@pytest.mark.parametrize(("force", "wanted"), [(False, "--compression was none and is not given"), (True, "another run")])
def test_a_run_that_began_while_the_workers_started_is_seen(force: bool, wanted: str, source: Path, tmp_path: Path) -> None:
    place = tmp_path / "dst"
    mine, others = (Settings("wheel", options, False, None, "1") for options in [(), (("--compression", "none"),)])
    run = Run(mine, Limits(), Policy(force=force), Report(str(source), str(place), "wheel"))
    run.begin()
    Lease(Store(str(place)), OLD, is_local=True).take()
    Destination(Store(str(place))).claim(others, OLD)
    client: Any = SimpleNamespace(cluster=None)
    with pytest.raises(Refused, match=wanted):
        run.run(client)
    assert json.loads((place / SETTINGS).read_text()) == others.to_json()
    assert own(place) == [SETTINGS, f".kpackfs-fleet/tmp/{OLD}/lease"]


def test_files_of_a_running_job_are_kept_however_old_its_name_is(fleet: Any, source: Path, tmp_path: Path) -> None:
    place = tmp_path / "dst"
    running = Lease(Store(str(place)), OLD, is_local=True)
    running.take()
    partial = place / ".kpackfs-fleet/tmp" / OLD / "0123"
    partial.touch()
    for path in (partial, partial.with_name("lease")):
        os.utime(path, (0, 0))
    assert fleet(source, place)[0] == 0
    assert partial.exists() and partial.with_name("lease").exists()
    # --force deletes files, also those that the other run has just published.
    before = content(place)
    code, message = fleet(source, place, "--compression", "none", "--force")
    assert code == 2 and OLD in message and "another run" in message
    assert content(place) == before and not list((place / ".kpackfs-fleet/tmp").glob("2*[!a]"))
    running.store.remove_temporary(OLD)
    assert fleet(source, place, "--compression", "none", "--force")[0] == 0


@pytest.mark.parametrize("kind", ["directory", "s3"])
def test_a_run_on_other_machines_is_dead_when_it_has_not_renewed_its_lease(
    dst: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    place = dst if kind == "s3" else Store(str(tmp_path / "dst"))
    mine = Lease(place, RUN, is_local=False)
    # Its process is gone, but it may have workers elsewhere that go on.
    kill(place, file_of(tmp_path, 200_000), OLD, "cluster")
    mine.take()
    assert mine.others(place.listing()) == {OLD: True}
    monkeypatch.setattr(lease, "STALE", datetime.timedelta(seconds=-60))
    assert mine.others(place.listing()) == {OLD: False}
    # A partial file that grows is a sign of life.
    monkeypatch.setattr(lease, "STALE", datetime.timedelta(seconds=60))
    if kind == "directory":
        for path in (tmp_path / "dst/.kpackfs-fleet/tmp" / OLD).iterdir():
            os.utime(path, (0, 0))
        assert mine.others(place.listing()) == {OLD: False}
        path.touch()
        assert mine.others(place.listing()) == {OLD: True}


def test_the_lease_of_another_process_of_the_same_number_is_not_its_own(tmp_path: Path) -> None:
    place = Store(str(tmp_path))
    mine = Lease(place, RUN, is_local=True)
    mine.take()
    boot, namespace, pid, start = mine.process or []
    # By what a lease says of its process: whether the run may be alive.
    processes: list[tuple[object, bool]] = [
        ([boot, namespace, pid, start], True),
        # The number was used again, or of a process that has ended.
        ([boot, namespace, pid, "1"], False),
        ([boot, namespace, 1 << 30, start], False),
        # In another container, or on another machine: the lease is new.
        ([boot, "pid:[1]", 1 << 30, start], True),
        (["another", namespace, 1 << 30, start], True),
        (None, True),
        ("damaged", True),
        ([boot, namespace, "../../x", start], False),
    ]
    for process, may_be_alive in processes:
        place.write_json(f".kpackfs-fleet/tmp/{OLD}/lease", OLD, {"process": process})
        assert mine.others(place.listing()) == {OLD: may_be_alive}, process


def test_names_in_dst_that_are_no_names_of_runs_are_left_alone(tmp_path: Path) -> None:
    place = Store(str(tmp_path))
    mine = Lease(place, RUN, is_local=True)
    mine.take()
    odd = [f".kpackfs-fleet/tmp/{run}/a" for run in ("*", "..a", "20200101T000000-aaaaaaaa*", "20200101T000000", "2020\n")]
    assert mine.others([*odd, f".kpackfs-fleet/tmp/{OLD}/a/b", f".kpackfs-fleet/tmp/{OLD}/../../x"]) == {}


def test_records_of_uploads_abort_only_what_is_below_dst(dst: Store) -> None:
    bucket = dst.root.partition("/")[0]
    upload = dst.fs.call_s3("create_multipart_upload", Bucket=bucket, Key="dst/../x")["UploadId"]
    for number, record in enumerate(({"upload_to": "../x", "id": upload}, {"id": upload}, [], {"upload_to": 1, "id": upload})):
        dst.write_json(f".kpackfs-fleet/tmp/{RUN}/{number}.upload", RUN, record)
    dst.remove_temporary(RUN)
    assert uploads(dst) == ["dst/../x"] and not dst.listing()


def test_a_temporary_object_of_0_2_0_is_deleted_unread(dst: Store, requests: Any) -> None:
    dst.fs.pipe_file(dst.path(f".kpackfs-fleet/tmp/{OLD}/0123"), bytes(1000))
    dst.remove_temporary(OLD)
    assert not dst.listing() and "GetObject" not in dict(requests)


def test_a_worker_that_is_killed_while_it_uploads_leaves_no_upload(
    dst: Store, source: Path, tmp_path: Path, small_parts: None
) -> None:
    marker = tmp_path / "struck"
    code, report, messages = run_fleet(source, f"s3://{dst.root}", "--local", 1, **fault("upload", marker=str(marker)))
    assert marker.exists() and code == 0, (report, messages)
    assert not uploads(dst) and not [name for name in dst.listing() if "/tmp/" in name]
