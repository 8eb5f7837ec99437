"""The time to wake a program that waits for another one."""

from contextlib import contextmanager
from pathlib import Path

from .programs import setting

# How long a processor of a virtual machine polls for work before it halts (Documentation/virt/guest-halt-polling.rst).
POLLING = Path("/sys/module/haltpoll/parameters/guest_halt_poll_ns")
NANOSECONDS = "200000"


@contextmanager
def awake(wanted):
    """Keeps idle processors from halting at once, if that is wanted."""
    if not wanted:
        yield
        return
    with setting(POLLING, NANOSECONDS, "--awake"):
        yield


def note(bench):
    """Printed above the table: a request and its answer take two wake-ups, in kpackfs and in the controls."""
    microseconds = bench.control("wake")["seconds"] * 1e6
    return f"waking another thread takes {microseconds:.0f} µs"
