"""Runs the program kpackfs."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)

# Exit code of a command line that kpackfs does not understand.
WRONG_COMMAND_LINE = 2

# Nothing is or can be there.
_ABSENT = "/dev/null/absent"


class KpackfsError(Exception):
    """kpackfs failed; the text is its own message. Without a code, it did not run to its end."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Ran:
    """What a run of kpackfs printed, and the processor time that it took."""

    output: str
    messages: str
    cpu_seconds: float

    def warnings(self) -> list[str]:
        """Its warnings."""
        mark = "kpackfs: warning: "
        return [line[len(mark) :] for line in self.messages.splitlines() if line.startswith(mark)]


def binary() -> str:
    """The program: the one that KPACKFS names, that of this Python environment, or the one on PATH."""
    named = os.environ.get("KPACKFS")
    if named:
        return named
    near = Path(sys.executable).with_name("kpackfs")
    found = str(near) if near.exists() else shutil.which("kpackfs")
    if found is None:
        raise KpackfsError("kpackfs is not installed here: neither in this Python environment nor on PATH")
    return found


def version() -> str:
    """The version of the program, such as 0.2.0."""
    return run(["--version"]).output.split()[1]


def inspect(wheel: Path, options: Sequence[str], environment: Mapping[str, str | None]) -> tuple[dict[str, Any], Ran]:
    """The output of `kpackfs inspect --json` for a wheel (docs/json.md)."""
    ran = run(["inspect", "--json", str(wheel), *options], environment)
    return json.loads(ran.output), ran


def check(options: Sequence[str]) -> None:
    """Fails if `kpackfs split` takes these options for a wrong command line, which it says before it opens anything, or cannot run."""
    try:
        run(["split", _ABSENT, "-o", _ABSENT, *options])
    except KpackfsError as error:
        if error.code in (None, WRONG_COMMAND_LINE):
            # The end is about the help of `split`, which the caller did not run.
            text = str(error).partition("\n\nFor more information")[0]
            raise KpackfsError(" ".join(text.split()), error.code) from error


def run(arguments: Sequence[str], environment: Mapping[str, str | None] | None = None) -> Ran:
    """Runs it to its end. A variable that is None in `environment` is unset."""
    variables = {**os.environ, **(environment or {})}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as messages:
        process = subprocess.Popen(
            [binary(), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=messages,
            env={name: value for name, value in variables.items() if value is not None},
            preexec_fn=_die_with_worker,  # noqa: PLW1509
        )
        # wait4 returns the processor time of this child alone, whatever other threads start meanwhile.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        ran = Ran(_text(output), _text(messages), usage.ru_utime + usage.ru_stime)
    if process.returncode < 0:
        raise KpackfsError(f"kpackfs {arguments[0]} was ended by {signal.Signals(-process.returncode).name}")
    if process.returncode != 0:
        raise KpackfsError((ran.messages + ran.output).strip() or f"exit code {process.returncode}", process.returncode)
    return ran


def _text(file: Any) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _die_with_worker() -> None:
    # One system call and no Python object of another thread, so it is safe between fork and exec. Without it, what a killed
    # worker has started would go on and fill the disk of the next one.
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
