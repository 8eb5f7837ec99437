"""Runs on two workers, from and to a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import content, damaged, fill, make_wheel, one_machine, own, run_fleet, statuses, worked

from kpackfs_fleet import cli, kpackfs
from kpackfs_fleet.settings import ONLY_SPLIT

SOME = ("--gpu-targets", "gfx1030,gfx90a")


@pytest.mark.parametrize("form", ["wheel", "directory", "thin-wheel"])
@pytest.mark.parametrize("cut", ["never", "auto", "0.02"])
def test_outputs_are_those_of_one_machine(fleet: Any, release: Path, tmp_path: Path, form: str, cut: str) -> None:
    code, report = fleet(release, tmp_path / "dst", "--format", form, "--cut", cut)
    assert code == 0, report
    assert content(tmp_path / "dst") == one_machine(release, tmp_path / "one", form)
    assert set(statuses(report).values()) == {"split", "nothing to split"}
    # Nothing temporary is left, and no note of a group.
    notes = [".kpackfs-fleet/manifests/" + wheel.name + ".json" for wheel in release.glob("*.whl")]
    assert own(tmp_path / "dst") == sorted([*notes, ".kpackfs-fleet/settings.json"])
    if cut == "never":
        # What kpackfs writes tells the parts; `inspect` only looks for the reason why one wheel cannot be split.
        assert report["counters"]["inspections"] == 1
    if cut == "0.02" and form != "thin-wheel":
        assert {"alpha", "torch"} <= {wheel["name"].partition("-")[0] for wheel in report["wheels"] if wheel["tasks"] > 2}


def test_options_reach_kpackfs(fleet: Any, release: Path, tmp_path: Path) -> None:
    options = (
        *SOME,
        "--compression-level",
        "1",
        "--deflate",
        "1",
        "--digests",
        "none",
        "--generate-variant-wheel",
        "--device-requires-dist",
        "rocm==2",
        "numpy",
    )
    code, report = fleet(release, tmp_path / "dst", *options)
    assert code == 0, report
    assert content(tmp_path / "dst") == one_machine(release, tmp_path / "one", "wheel", *options)


@pytest.mark.parametrize("option", sorted(cli.SPLIT_OPTIONS))
def test_inspect_takes_the_options_it_is_given(option: str, tmp_path: Path) -> None:
    with pytest.raises(kpackfs.KpackfsError) as refused:
        kpackfs.inspect(tmp_path / "absent.whl", [option, "x"], {})
    assert ("unexpected argument" in str(refused.value)) == (option in ONLY_SPLIT)


def test_a_second_run_does_nothing(fleet: Any, source: Path, tmp_path: Path) -> None:
    fleet(source, tmp_path / "dst")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "dst").rglob("*") if path.is_file()}
    code, report = fleet(source, tmp_path / "dst")
    assert (code, worked(report)) == (0, {"wheels_there": 3})
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "dst").rglob("*") if path.is_file()}
    code, report = fleet(source, tmp_path / "dst", "--check", "digests")
    assert (code, worked(report)) == (0, {"wheels_there": 3, "files_checked": len(content(tmp_path / "dst"))})


@pytest.mark.parametrize("form", ["wheel", "directory", "thin-wheel"])
def test_only_the_part_that_is_truncated_is_made_again(fleet: Any, source: Path, tmp_path: Path, form: str) -> None:
    fleet(source, tmp_path / "dst", "--format", form)
    right = content(tmp_path / "dst")
    broken = min(name for name in right if "gfx1100" in name and name.endswith(("whl", "kpack")))
    (tmp_path / "dst" / broken).write_bytes(right[broken][:-1])
    code, report = fleet(source, tmp_path / "dst", "--format", form)
    assert code == 0 and sorted(statuses(report).values()) == ["completed", "nothing to split", "there"]
    assert report["counters"]["splits"] == 1
    if form == "wheel":
        assert report["counters"]["files_published"] == 1
    assert content(tmp_path / "dst") == right
    assert worked(fleet(source, tmp_path / "dst", "--format", form)[1]) == {"wheels_there": 3}


def test_a_file_of_the_right_size_with_wrong_bytes_is_found_by_its_digest(fleet: Any, source: Path, tmp_path: Path) -> None:
    fleet(source, tmp_path / "dst")
    right = content(tmp_path / "dst")
    broken = next(name for name in right if name.startswith("alpha"))
    (tmp_path / "dst" / broken).write_bytes(bytes(len(right[broken])))
    code, report = fleet(source, tmp_path / "dst", "--check", "digests")
    assert code == 0 and statuses(report)["alpha"] == "completed"
    assert report["counters"]["files_published"] == 1
    assert content(tmp_path / "dst") == right


def test_a_truncated_manifest_counts_as_none(fleet: Any, source: Path, tmp_path: Path) -> None:
    fleet(source, tmp_path / "dst")
    manifest = next((tmp_path / "dst/.kpackfs-fleet/manifests").glob("beta*"))
    manifest.write_bytes(manifest.read_bytes()[:-9])
    code, report = fleet(source, tmp_path / "dst")
    assert code == 0 and statuses(report) == {"alpha": "there", "beta": "split", "pure": "nothing to split"}


def test_other_options_are_refused_by_name(fleet: Any, source: Path, tmp_path: Path) -> None:
    fleet(source, tmp_path / "dst")
    before = content(tmp_path / "dst")
    code, message = fleet(source, tmp_path / "dst", "--compression", "none")
    assert code == 2 and "--compression was not given and is none" in message
    assert content(tmp_path / "dst") == before
    assert fleet(source, tmp_path / "dst", "--compression", "none", "--force")[0] == 0
    assert content(tmp_path / "dst") == one_machine(source, tmp_path / "one", "wheel", "--compression", "none")


def test_another_wheel_of_the_same_name_is_refused_until_forced(fleet: Any, source: Path, tmp_path: Path) -> None:
    fleet(source, tmp_path / "dst")
    before = content(tmp_path / "dst")
    make_wheel(source, "pure", {"pure/__init__.py": b"answer = 43\n"})
    fixture = Path(__file__).parents[2] / "tests/fixtures/mixed.so"
    make_wheel(source, "beta", {"beta/libmixed.so": fixture.read_bytes()})
    code, report = fleet(source, tmp_path / "dst")
    assert code == 1 and statuses(report) == {"alpha": "there", "beta": "failed", "pure": "failed"}
    assert "another wheel of this name" in report["wheels"][1]["reason"]
    assert content(tmp_path / "dst") == before
    code, report = fleet(source, tmp_path / "dst", "--force")
    assert code == 0 and statuses(report) == {"alpha": "there", "beta": "split", "pure": "nothing to split"}
    assert content(tmp_path / "dst") == one_machine(source, tmp_path / "one", "wheel")


def test_a_damaged_wheel_is_named_and_the_others_are_split(fleet: Any, source: Path, tmp_path: Path) -> None:
    wheel = next(source.glob("alpha*"))
    wheel.write_bytes(damaged(wheel, "alpha/data.bin"))
    code, report = fleet(source, tmp_path / "dst")
    assert code == 1 and statuses(report) == {"alpha": "failed", "beta": "split", "pure": "nothing to split"}
    assert "alpha/data.bin" in report["wheels"][0]["reason"]
    assert not [name for name in content(tmp_path / "dst") if "alpha" in name]


def test_what_is_no_wheel_is_named(fleet: Any, source: Path, tmp_path: Path) -> None:
    wheel = next(source.glob("alpha*"))
    wheel.write_bytes(wheel.read_bytes()[:1000])
    code, report = fleet(source, tmp_path / "dst")
    assert code == 1 and statuses(report)["alpha"] == "failed" and "alpha" in report["wheels"][0]["reason"]


def test_a_destination_below_the_source_is_refused(fleet: Any, source: Path) -> None:
    code, message = fleet(source, source / "dst")
    assert code == 2 and "DST is in SRC" in message
    assert not (source / "dst").exists()


def test_no_wheel_is_refused(fleet: Any, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    code, message = fleet(tmp_path / "src", tmp_path / "dst")
    assert code == 2 and "there is no wheel" in message


@pytest.mark.parametrize(
    ("source", "destination", "options", "wanted"),
    [
        ("none", "dst", [], "none: no such file or directory"),
        ("src", "src/dst", [], "DST is in SRC"),
        ("src", "dst", ["--keep-version"], "they need --format thin-wheel"),
        ("src", "dst", ["--deflate", "99"], "99 is not in 0..=9"),
    ],
)
def test_arguments_are_refused_before_workers_start(
    source: str, destination: str, options: list[str], wanted: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path / "src")
    # No scheduler answers here.
    words = ["split", str(tmp_path / source), str(tmp_path / destination), "--scheduler", "tcp://127.0.0.1:1", *options]
    assert cli.main(words) == 2
    said = capsys.readouterr().err
    assert wanted in said and "connecting" not in said


def test_scratch_of_no_directory_is_refused(source: Path, tmp_path: Path) -> None:
    code, report, said = run_fleet(source, tmp_path / "dst", "--local", 1, "--scratch", tmp_path / "no")
    assert (code, report) == (2, None)
    assert said == f"kpackfs-fleet: --scratch {tmp_path / 'no'}: is not a directory\n"


def test_a_wheel_that_cannot_be_checked_is_named_and_the_others_are_checked(fleet: Any, source: Path, tmp_path: Path) -> None:
    fleet(source, tmp_path / "dst")
    broken = next(path for path in (tmp_path / "dst").glob("alpha*"))
    size = broken.stat().st_size
    broken.unlink()
    # Of the right size and with an error for each read: memory of a process at an address that it does not have.
    broken.symlink_to("/proc/self/mem")
    manifest = next((tmp_path / "dst/.kpackfs-fleet/manifests").glob("alpha*"))
    manifest.write_text(manifest.read_text().replace(f'"size": {size}', '"size": 0'))
    code, report = fleet(source, tmp_path / "dst", "--check", "digests")
    assert code == 1 and statuses(report) == {"alpha": "failed", "beta": "there", "pure": "nothing to split"}
    assert "cannot be checked" in report["wheels"][0]["reason"]
