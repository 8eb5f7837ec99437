"""Names that come from outside, and outputs of the same name."""

from __future__ import annotations

import os
import socket
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import content, make_wheel, run_fleet

from kpackfs_fleet import kpackfs, plan
from kpackfs_fleet.manifest import Destination, Manifest
from kpackfs_fleet.names import WheelName, checked, escaped
from kpackfs_fleet.report import Report, Wheel
from kpackfs_fleet.settings import Settings
from kpackfs_fleet.store import Source, Store

TAGS = "py3-none-any.whl"


def sources(*names: str) -> list[Source]:
    return [Source(f"file:///{number}/{name}", name, 1, str(number), 1) for number, name in enumerate(names)]


def settings(*options: tuple[str, ...], form: str = "wheel", per_wheel: bool = False) -> Settings:
    return Settings(form, options, per_wheel, None, "0.2.0")


@pytest.mark.parametrize(
    "name",
    [
        f"x-1.0-{TAGS}",
        f"X-1.0-{TAGS}",
        f"a.B__c-1.0+rocm7_1-{TAGS}",
        f"_x._-1.0-{TAGS}",
        f"x-1.0%2Brocm7.1-{TAGS}",
        f"x-1.0%2brocm7.1-{TAGS}",
        "x-1.0-7_a-py3.py2-none-manylinux_2_28_x86_64.linux_x86_64.whl",
        "x-1.0-py3-none-any-rocm7.1.whl",
        "x-1.0-7-py3-none-any-rocm7.1.whl",
        f"x-1!2.0.post1-{TAGS}",
        f"x-2024b.custom-{TAGS}",
    ],
)
def test_a_host_wheel_is_named_as_kpackfs_names_it(tmp_path: Path, name: str) -> None:
    wheel = make_wheel(tmp_path, "x", {"x/lib.so": (Path(__file__).parents[2] / "tests/fixtures/mixed.so").read_bytes()})
    found, ran = kpackfs.inspect(wheel.rename(tmp_path / name), [], {})
    assert "named after dist-info" not in ran.messages
    assert WheelName(name).host == found["host_wheels"][0]["name"]


@pytest.mark.parametrize(
    "name",
    [
        "x-1.0-py3-none-any (1).whl",
        "x-1.0-py3-none-any - Copy.whl",
        "x-1.0-py3-none-any.whl\n",
        "x\x1b[2J-1.0-py3-none-any.whl",
        "x-1.0-py3-none.whl",
        "x-1.0-py3-none-any.zip",
        "x-1.0-3py-none-any.whl",
        "x-1.0-a-py3-none-any-b.whl",
        "._-1.0-py3-none-any.whl",
        "ä-1.0-py3-none-any.whl",
        "x-1.0-py3..py2-none-any.whl",
        ".whl",
    ],
)
def test_names_of_no_wheel_are_refused_as_kpackfs_refuses_them(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="no name of a wheel"):
        WheelName(name)
    if name.endswith(".whl"):
        wheel = make_wheel(tmp_path, "x", {"x/lib.so": (Path(__file__).parents[2] / "tests/fixtures/mixed.so").read_bytes()})
        assert "named after dist-info" in kpackfs.inspect(wheel.rename(tmp_path / name), [], {})[1].messages


@pytest.mark.parametrize("form", ["wheel", "thin-wheel", "directory"])
@pytest.mark.parametrize("other", ["X", "x.", "_x", "x"])
def test_two_wheels_of_one_name_are_refused(form: str, other: str) -> None:
    with pytest.raises(plan.Refused, match=rf"/0/x-1.0.*/1/{other}-1.0.* would both write x-1.0-py3-none-any.whl; leave"):
        plan.check_outputs(sources(f"x-1.0-{TAGS}", f"{other}-1.0-{TAGS}"), settings(form=form, per_wheel=form == "directory"))


def test_names_of_outputs_are_compared_not_identities() -> None:
    different = [f"x-1.0-{TAGS}", f"x-1.00-{TAGS}", f"x-1.0-1-{TAGS}", "x-1.0-py2.py3-none-any.whl", "x-1.0-py3.py2-none-any.whl"]
    plan.check_outputs(sources(*different, f"y_z-1.0-{TAGS}"), settings())
    with pytest.raises(plan.Refused, match="would both write y_z"):
        plan.check_outputs(sources(f"y.z-1.0-{TAGS}", f"y__z-1.0-{TAGS}"), settings())
    with pytest.raises(plan.Refused, match="would both write x-1.0"):
        plan.check_outputs(sources(f"x-1.0%2Ba-{TAGS}", f"x-1.0+a-{TAGS}"), settings())
    # On a file system that ignores case.
    with pytest.raises(plan.Refused, match="would both write x-1.0rc1"):
        plan.check_outputs(sources(f"x-1.0RC1-{TAGS}", f"x-1.0rc1-{TAGS}"), settings())


def test_an_output_of_one_kind_may_have_the_name_of_another_kind() -> None:
    device, variant = f"amd_x_device_gfx942-1.0-{TAGS}", "x-1.0-py3-none-any-variant.whl"
    with pytest.raises(plan.Refused, match=f"/1/x-1.0.*/0/.*would both write {device}; --per-wheel"):
        plan.check_outputs(sources(device, f"x-1.0-{TAGS}"), settings())
    plan.check_outputs(sources(f"amd_x_device_gfx942-2.0-{TAGS}", f"amd_x_device-1.0-{TAGS}", f"x-1.0-{TAGS}"), settings())
    plan.check_outputs(sources(device, f"x-1.0-{TAGS}"), settings(form="thin-wheel"))
    plan.check_outputs(sources(device, f"x-1.0-{TAGS}"), settings(per_wheel=True))
    # A variant has the same device wheels as the plain wheel.
    with pytest.raises(plan.Refused, match="would both write amd_x_device_…-1.0"):
        plan.check_outputs(sources(variant, f"x-1.0-{TAGS}"), settings())
    plan.check_outputs(sources(variant, f"x-1.0-{TAGS}"), settings(form="thin-wheel"))
    with pytest.raises(plan.Refused, match=f"would both write {variant}"):
        prefix = ("--device-package-prefix", "other")
        plan.check_outputs(sources(f"x-1.0-{TAGS}", variant), settings(prefix, ("--generate-variant-wheel",)))


def test_outputs_of_earlier_runs_count() -> None:
    prefix = ("--device-package-prefix", "amd-device")
    plan.check_outputs(sources(f"X-1.0-{TAGS}"), settings(prefix), [f"x-1.0-{TAGS}"])
    # On a file system that ignores case.
    with pytest.raises(plan.Refused, match="would both write x-1.0RC1"):
        plan.check_outputs(sources(f"x-1.0rc1-{TAGS}"), settings(per_wheel=True), [f"x-1.0RC1-{TAGS}"])
    with pytest.raises(plan.Refused, match=r"0/x-1.0.*y-1.0.* \(in DST\) would both write amd_device_"):
        plan.check_outputs(sources(f"x-1.0-{TAGS}"), settings(prefix), [f"y-1.0-{TAGS}"])


def test_odd_names_in_a_release_overwrite_nothing(fleet: Any, source: Path, tmp_path: Path) -> None:
    wheel = next(source.glob("beta*"))
    (source / "beta-1.0-py3-none-linux_x86_64 (1).whl").write_bytes(next(source.glob("alpha*")).read_bytes())
    code, report = fleet(source, tmp_path / "dst")
    assert code == 1 and [row["name"] for row in report["wheels"] if row["status"] == "failed"] == [f"{wheel.name[:-4]} (1).whl"]
    assert "no name of a wheel" in report["wheels"][0]["reason"]
    before = content(tmp_path / "dst")
    assert len([name for name in before if "beta" in name]) > 1
    # Now under a name of the same identity: the run is refused before it writes anything.
    twin = wheel.with_name(wheel.name.replace("beta", "Beta"))
    twin.write_bytes(next(source.glob("alpha*")).read_bytes())
    code, message = fleet(source, tmp_path / "dst")
    assert code == 2 and wheel.name in message and twin.name in message and "would both write beta-1.0" in message
    wheel.unlink()
    code, report = fleet(source, tmp_path / "dst")
    assert code == 1 and "another wheel of this name" in next(
        row["reason"] for row in report["wheels"] if row["name"] == twin.name
    )
    assert content(tmp_path / "dst") == before


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


MADE: dict[str, Callable[[Path], None]] = {
    "fifo": os.mkfifo,
    "link-to-fifo": lambda path: (os.mkfifo(path.parent / "pipe"), path.symlink_to("pipe"))[1],
    "socket": make_socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "directory": lambda path: path.symlink_to("/etc"),
    "dangling": lambda path: path.symlink_to("nowhere"),
    "loop": lambda path: path.symlink_to(path.name),
}


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("pattern", ["", "*.whl"])
def test_what_is_no_file_blocks_nothing_and_is_named(tmp_path: Path, kind: str, pattern: str) -> None:
    (tmp_path / "src").mkdir()
    wheel = make_wheel(tmp_path / "src", "x", {})
    odd = tmp_path / "src" / f"{kind.replace('-', '_')}-1.0-{TAGS}"
    MADE[kind](odd)
    found, refused = plan.sources(Store(str(tmp_path / "src" / pattern)))
    assert [source.name for source in found] == [wheel.name]
    # fsspec does not list a link that leads nowhere.
    assert list(refused) == [str(odd)] or (kind in ("dangling", "loop") and pattern)
    assert [source.name for source in plan.sources(Store(str(wheel)))[0]] == [wheel.name]


def test_a_fifo_in_dst_blocks_nothing(tmp_path: Path) -> None:
    place = tmp_path / ".kpackfs-fleet" / "manifests"
    place.mkdir(parents=True)
    for path in (place.parent / "settings.json", place / f"x-1.0-{TAGS}.json", tmp_path / f"x-1.0-{TAGS}"):
        os.mkfifo(path)
    store = Store(str(tmp_path))
    destination = Destination(store)
    destination.claim(settings(), "run")
    assert not destination.listing and Destination(store).listing.keys() == {".kpackfs-fleet/settings.json"}


@pytest.mark.parametrize("name", ["/etc/passwd", "../victim", "a/../../victim", "a//b", "a/.", "", "a\x1b", ".kpackfs-fleet/x"])
def test_names_in_manifests_that_leave_dst_are_not_used(tmp_path: Path, name: str) -> None:
    [source] = sources(f"x-1.0-{TAGS}")
    file = {"size": 1, "sha256": "", "etag": None}
    victim = tmp_path / "victim"
    victim.write_bytes(b"x")
    right = Manifest.of(source, settings()).to_json()
    store = Store(str(tmp_path / "dst"))
    for parts, expected in (({"host": {name: file}}, ["host"]), ({name: {}}, [name]), ({}, [name])):
        store.write_json(f".kpackfs-fleet/manifests/{source.name}.json", "run", {**right, "parts": parts, "expected": expected})
        destination = Destination(store)
        destination.forget(source.host)
        assert destination.state(source, settings()) is None
    assert victim.exists()
    checked("x-1.0/gfx942/lib/a b.kpack")


def test_a_manifest_counts_for_the_wheel_that_its_name_says(tmp_path: Path) -> None:
    one, other = sources(f"x-1.0-{TAGS}", f"y-1.0-{TAGS}")
    store = Store(str(tmp_path))
    store.write_json(f".kpackfs-fleet/manifests/{one.name}.json", "run", Manifest.of(other, settings()).to_json())
    destination = Destination(store)
    assert destination.state(one, settings()) is None and destination.state(other, settings()) is None


def test_runs_in_dst_are_not_taken_for_patterns(tmp_path: Path) -> None:
    store = Store("memory://patterns[1]")
    for name in ("[1]/a", "1/a", "*/a"):
        store.fs.pipe_file(store.path(name), b"")
    store.remove_below("[1]")
    store.remove_below("*")
    assert list(store.listing()) == ["1/a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("libx ä 日本.so", "libx ä 日本.so"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x1b]0;title\7", r"\u{1b}]0;title\u{7}"),
        ("\x9b31m\x7f", r"\u{9b}31m\u{7f}"),
        ("gpj.\u202eso", r"gpj.\u{202e}so"),
        ("\udcff", r"\u{dcff}"),
    ],
)
def test_names_are_printed_as_kpackfs_prints_them(text: str, expected: str) -> None:
    assert escaped(text) == expected


def test_nothing_that_is_printed_moves_the_cursor(tmp_path: Path) -> None:
    evil = "x\x1b]0;title\7\n\u202e"
    report = Report(evil, evil, "wheel", [Wheel(evil, 1, "failed", f"{evil}: why", warnings=[evil])], failure=evil)
    # A reason of several lines is printed on several lines.
    assert all(line.isprintable() for line in report.table().split("\n"))
    source = tmp_path / evil
    source.mkdir()
    for arguments in ([source, tmp_path / "dst"], [source, tmp_path / "dst", evil]):
        code, _, messages = run_fleet(*arguments, "--local", 1)
        assert code == 2 and not any(unicodedata.category(letter) in ("Cc", "Cf") for letter in messages.replace("\n", "")), (
            messages
        )
    make_wheel(source, "x", {}).rename(source / f"{evil}-1.0-{TAGS}")
    code, report, messages = run_fleet(source, tmp_path / "dst", "--local", 1)
    assert code == 1 and "\x1b" not in messages and report["wheels"][0]["name"] == f"{evil}-1.0-{TAGS}"
