"""How long it takes until a program that waits for another one goes on."""

from contextlib import contextmanager
from pathlib import Path

from .programs import Failure

# How long a processor of a virtual machine looks out for work before it halts (Documentation/virt/guest-halt-polling.rst).
POLLING = Path("/sys/module/haltpoll/parameters/guest_halt_poll_ns")
NANOSECONDS = "200000"


@contextmanager
def awake(wanted):
    """Keeps idle processors from halting at once, if that is wanted."""
    if not wanted:
        yield
        return
    try:
        before = POLLING.read_text()
        POLLING.write_text(NANOSECONDS)
    except OSError as error:
        raise Failure(f"--awake: {error}") from error
    try:
        yield
    finally:
        POLLING.write_text(before)


def note(bench):
    """What a look at the table needs to know: a request and its answer are two of these, and so are those of the controls."""
    microseconds = bench.control("wake")["seconds"] * 1e6
    return f"waking another thread takes {microseconds:.0f} µs"
