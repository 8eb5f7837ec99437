"""Runs from and to an S3 server on loopback (moto)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import content, damaged, one_machine, run_fleet, statuses, worked


@pytest.fixture
def bucket(s3: Any, source: Path, request: pytest.FixtureRequest) -> str:
    """A bucket with the small release in src/."""
    name = "b" + str(abs(hash(request.node.name)))
    s3.mkdir(name)
    s3.put([str(path) for path in source.glob("*.whl")], f"{name}/src/")
    return name


def objects(s3: Any, place: str) -> dict[str, bytes]:
    """All objects below a place but those of the fleet itself."""
    found = {path[len(place) + 1 :]: s3.cat_file(path) for path in s3.find(place)}
    return {name: data for name, data in found.items() if ".kpackfs-fleet" not in name}


@pytest.mark.parametrize("form", ["wheel", "directory"])
def test_outputs_are_those_of_one_machine(fleet: Any, s3: Any, bucket: str, source: Path, tmp_path: Path, form: str) -> None:
    code, report = fleet(f"s3://{bucket}/src", f"s3://{bucket}/dst", "--format", form, "--cut", "0.01")
    assert code == 0, report
    assert objects(s3, f"{bucket}/dst") == one_machine(source, tmp_path / "one", form)
    # Each of the two workers fetches a wheel at most once, however many tasks it has for it.
    assert report["counters"]["wheels_fetched"] <= 6
    assert not s3.find(f"{bucket}/dst/.kpackfs-fleet/tmp") and not s3.find(f"{bucket}/dst/.kpackfs-fleet/groups")
    code, report = fleet(f"s3://{bucket}/src", f"s3://{bucket}/dst", "--format", form)
    assert (code, worked(report)) == (0, {"wheels_there": 3})


def test_from_s3_to_a_directory(fleet: Any, bucket: str, source: Path, tmp_path: Path) -> None:
    code, report = fleet(f"s3://{bucket}/src/*.whl", tmp_path / "dst")
    assert code == 0, report
    assert content(tmp_path / "dst") == one_machine(source, tmp_path / "one", "wheel")


@pytest.mark.parametrize("keeps_size", [False, True])
def test_a_damaged_object_is_made_again(fleet: Any, s3: Any, bucket: str, keeps_size: bool) -> None:
    fleet(f"s3://{bucket}/src", f"s3://{bucket}/dst")
    right = objects(s3, f"{bucket}/dst")
    broken = next(name for name in right if "beta_device" in name)
    s3.pipe_file(f"{bucket}/dst/{broken}", bytes(len(right[broken])) if keeps_size else right[broken][:-1])
    code, report = fleet(f"s3://{bucket}/src", f"s3://{bucket}/dst")
    # The etag tells what the size does not.
    assert code == 0 and statuses(report) == {"alpha": "there", "beta": "completed", "pure": "nothing to split"}
    assert (report["counters"]["splits"], report["counters"]["files_published"]) == (1, 1)
    assert objects(s3, f"{bucket}/dst") == right


def test_a_wheel_that_is_damaged_in_its_store_is_named(s3: Any, bucket: str, source: Path) -> None:
    wheel = next(source.glob("alpha*"))
    s3.pipe_file(f"{bucket}/src/{wheel.name}", damaged(wheel, "alpha/data.bin"))
    # Workers of its own: those of the cluster may have the undamaged wheel.
    code, report, _ = run_fleet(f"s3://{bucket}/src", f"s3://{bucket}/dst", "--local", 1)
    assert code == 1 and statuses(report) == {"alpha": "failed", "beta": "split", "pure": "nothing to split"}
    assert "alpha/data.bin" in report["wheels"][0]["reason"]
    s3.pipe_file(f"{bucket}/src/{wheel.name}", wheel.read_bytes())
    code, report, _ = run_fleet(f"s3://{bucket}/src", f"s3://{bucket}/dst", "--local", 1)
    assert code == 0 and statuses(report) == {"alpha": "split", "beta": "there", "pure": "nothing to split"}
    assert report["counters"]["splits"] == 1
