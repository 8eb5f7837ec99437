"""Names that come from outside."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from conftest import run_fleet

from kpackfs_fleet.names import escaped
from kpackfs_fleet.report import Report, Wheel


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
