"""Tests where each part of a split is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kpackfs_fleet.layout import Layout, Selection, Unclear
from kpackfs_fleet.settings import Settings

WHEEL = "Torch.Audio-2.0+rocm7-cp312-cp312-linux_x86_64.whl"
REST = "2.0+rocm7-cp312-cp312-linux_x86_64.whl"


def settings(*options: tuple[str, ...]) -> Settings:
    return Settings("wheel", options, False, None, "0.2.0")


def stage(place: Path, *names: str) -> Path:
    for name in names:
        (place / name).touch()
    return place


@pytest.mark.parametrize(
    ("options", "prefix"), [((), "amd_torch_audio_device"), ((("--device-package-prefix", "rocm-sdk.Torch"),), "rocm_sdk_torch")]
)
def test_names_of_wheels_tell_the_parts(tmp_path: Path, options: tuple[tuple[str, ...], ...], prefix: str) -> None:
    devices = {f"{prefix}_{key}-{REST}": key for key in ("gfx12_0", "gfx942")}
    layout = Layout.of_split(WHEEL, settings(*options), stage(tmp_path, f"torch_audio-{REST}", *devices))
    assert layout.expected == ("host", "gfx12_0", "gfx942")
    assert layout.wheels == {**devices, f"torch_audio-{REST}": "host"}


@pytest.mark.parametrize(
    "names",
    [
        (f"torch_audio-{REST}",),
        (f"amd_torch_audio_device_gfx942-{REST}",),
        (f"torch_audio-{REST}", f"amd_torch_audio_device_gfx942-{REST}", "torch_audio-2.0-variants.json"),
        (f"torch_audio-{REST}", f"amd_other_device_gfx942-{REST}"),
    ],
)
def test_names_that_do_not_tell_the_parts_are_left_to_inspect(tmp_path: Path, names: tuple[str, ...]) -> None:
    with pytest.raises(Unclear):
        Layout.of_split(WHEEL, settings(), stage(tmp_path, *names))


def test_names_of_wheels_and_inspect_tell_the_same_parts(tmp_path: Path) -> None:
    # A key that the hierarchy of GPUs does not know keeps its hyphen; the name of a wheel has none in a word.
    wheels = {"gfx13-generic": f"amd_torch_audio_device_gfx13_generic-{REST}", "gfx942": f"amd_torch_audio_device_gfx942-{REST}"}
    archive = {"archives": [{"code_size": 5}], "database_size": 2, "level": "target"}
    inspected: dict[str, Any] = {
        "device": dict.fromkeys(wheels, archive),
        "users": {key: {"keys": [key]} for key in wheels},
        "parts": {key: {"wheel": {"name": name}} for key, name in wheels.items()},
        "host_wheels": [{"name": f"torch_audio-{REST}"}],
    }
    selection = Selection(WHEEL, settings(), inspected)
    layout = Layout.of_split(WHEEL, settings(), stage(tmp_path, f"torch_audio-{REST}", *wheels.values()))
    assert selection.layout.expected == layout.expected and selection.layout.wheels == layout.wheels
    assert selection.amounts == {"gfx13_generic": 7, "gfx942": 7}
    assert selection.views(("gfx13_generic",)) == [f"wheels/torch_audio-{REST}", f"wheels/{wheels['gfx13-generic']}"]
