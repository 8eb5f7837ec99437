"""The command line of `kpackfs-fleet`."""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, NoReturn

from .names import escaped
from .scratch import scratch
from .settings import FORMATS, Limits, Settings

if TYPE_CHECKING:
    from distributed import Client

INTERRUPTED = 128 + signal.SIGINT
"""The exit code of a shell for a command that SIGINT ended."""

ENDING = (signal.SIGINT, signal.SIGTERM)
"""Signals that end a run."""

# Options of `kpackfs split` that the outputs depend on, and the number of their values.
SPLIT_OPTIONS: dict[str, int | str | None] = {
    "--gpu-targets": None,
    "--exclude-targets": None,
    "--databases": None,
    "--wheel-type": None,
    "--overlay-root": None,
    "--group": None,
    "--compression": None,
    "--compression-level": None,
    "--deflate": None,
    "--digests": None,
    "--device-package-prefix": None,
    "--device-requires-dist": "+",
    "--requirements": None,
    "--requirements-extras": None,
    "--generate-variant-wheel": 0,
    "--variant-label": None,
    "--keep-version": 0,
    "--local-version": 0,
}

# Dask's workers of this machine only wait for kpackfs, which takes the processor time that they leave.
QUIET_DASK: dict[str, object] = {
    "distributed": {
        "worker": {
            "multiprocessing-method": "forkserver",
            "profile": {"enabled": False},
            "memory": {"monitor-interval": "1s"},
        },
        "scheduler": {"work-stealing-interval": "1s"},
        "admin": {"tick": {"interval": "1s"}, "system-monitor": {"interval": "10s"}},
    }
}


class _Parser(argparse.ArgumentParser):
    """Names files in messages, such as those of a pattern that the shell has expanded."""

    def error(self, message: str) -> NoReturn:
        super().error(escaped(message))


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    top = _Parser(prog="kpackfs-fleet", description="Split a release of many wheels on many machines.")
    commands = top.add_subparsers(dest="command", required=True)
    split = commands.add_parser(
        "split",
        help="split all wheels of SRC to DST",
        description="Split all wheels of SRC to DST, on the workers of a Dask cluster or on this machine. A file appears under its "
        "name in DST when it is complete and verified. What is there and right is not made again. "
        "Exit codes: 0 all wheels are split, 1 some are not, 2 wrong command line, or the run cannot begin.",
    )
    split.add_argument(
        "source", metavar="SRC", help="a directory of wheels, a pattern or a wheel: a path or an fsspec URL (s3://…)"
    )
    split.add_argument("destination", metavar="DST", help="a directory: a path or an fsspec URL; workers write to it")
    where = split.add_argument_group("where to run").add_mutually_exclusive_group()
    where.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler: its address, or the file that it wrote")
    where.add_argument("--local", metavar="N", type=number, help="N workers on this machine [default: one for each core]")
    shape = split.add_argument_group("what to write")
    shape.add_argument("--format", choices=FORMATS, default="wheel", help="as in `kpackfs split` [default: wheel]")
    shape.add_argument("--per-wheel", action="store_true", help="a directory in DST for each wheel; always so with directories")
    shape.add_argument("--force", action="store_true", help="make again what DST has of other wheels or with other options")
    options = split.add_argument_group(
        "options of `kpackfs split`", "What they mean is in `kpackfs split --help`, or else in docs/migrating.md."
    )
    for name, count in SPLIT_OPTIONS.items():
        if count == 0:
            options.add_argument(name, action="store_true")
        else:
            options.add_argument(name, metavar="…", nargs=count, action="append")
    resources = split.add_argument_group("resources of each task")
    resources.add_argument(
        "-j", "--jobs", metavar="N", type=number, help="threads [default: the worker's cores for each of its threads]"
    )
    resources.add_argument("--memory", metavar="MIB", type=number, help="memory [default: half of the worker's, at most 256]")
    resources.add_argument("--frame-cache", metavar="MIB", type=number, help="keep compressed code objects on the worker's disk")
    resources.add_argument(
        "--cache", metavar="MIB", type=int, default=20480, help="wheels kept on a worker's disk [default: 20480]"
    )
    resources.add_argument("--scratch", metavar="DIR", help="with --local: where workers have their files [default: $TMPDIR]")
    how = split.add_argument_group("how to run")
    how.add_argument("--retries", metavar="N", type=int, default=2, help="tries after a first one that failed [default: 2]")
    how.add_argument(
        "--cut",
        metavar="HOW",
        type=cut,
        default="auto",
        help="when to split the parts of one wheel in several tasks: auto, never, or MiB of code in each [default: auto]",
    )
    how.add_argument(
        "--check",
        choices=("sizes", "digests"),
        default="sizes",
        help="how to see whether what is there is right [default: sizes]",
    )
    how.add_argument("--json", action="store_true", help="print the report as JSON")
    how.add_argument("--quiet", action="store_true", help="print no progress")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit code."""
    given = parser().parse_args(arguments)
    if given.scratch is not None and not os.path.isdir(given.scratch):
        return _fail(f"--scratch {given.scratch}: is not a directory")
    interrupted = False

    def interrupt(number: int, frame: object) -> NoReturn:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    # SIGTERM as an interrupt, so that workers end and their files are removed.
    if _may_handle_signals():
        for number in ENDING:
            signal.signal(number, interrupt)
    try:
        return _split(given)
    except BaseException:
        # Dask may end with an error of its own.
        if not interrupted:
            raise
        return _fail("interrupted; run the same command again to go on", INTERRUPTED)


def _split(given: argparse.Namespace) -> int:
    # Some packages catch whatever is raised while they are imported.
    with _signals_wait():
        try:
            import distributed  # noqa: F401
            import fsspec  # noqa: F401
        except ImportError as error:
            return _fail(f"{error.name} is not installed: pip install 'dask[distributed]' fsspec")
        from . import plan
        from .kpackfs import KpackfsError, check, version
        from .report import Report
        from .run import Lost, Policy, Run

    try:
        settings = _settings(given, version())
        check(settings.splitting())
        report = Report(_url(given.source), _url(given.destination), given.format)
        limits = Limits(_jobs(given), given.memory, given.frame_cache, given.cache)
        # A local worker that has not restarted in this time never will.
        patience = None if given.scheduler else 300.0
        run = Run(settings, limits, Policy(given.retries, given.cut, given.check, given.force, patience), report)
        run.begin()
        if not given.quiet:
            _say(f"connecting to {given.scheduler}" if given.scheduler else f"starting {_workers(given)} workers")
        with connected(given) as client:
            if not given.quiet:
                workers = len(client.scheduler_info(n_workers=-1)["workers"])
                # Without bokeh its pages say only that bokeh is missing.
                dashboard = client.dashboard_link if given.scheduler or find_spec("bokeh") else None
                _say(f"{workers} workers; dashboard: {dashboard or 'none (it needs bokeh)'}")
                run.progress = _say
            try:
                run.run(client)
            except Lost as error:
                report.failure = f"{error}; run the same command again to go on"
    except (plan.Refused, KpackfsError, OSError, ValueError, ImportError) as error:
        return _fail(str(error))
    print(json.dumps(report.to_json(), indent=2) if given.json else report.table())
    return 1 if report.failed() or report.failure else 0


def _settings(given: argparse.Namespace, version: str) -> Settings:
    options: list[tuple[str, ...]] = []
    for name, count in SPLIT_OPTIONS.items():
        value = getattr(given, name[2:].replace("-", "_"))
        if count == 0 and value:
            options.append((name,))
        for words in value or [] if count != 0 else []:
            options.append((name, *(words if isinstance(words, list) else [words])))
    per_wheel = given.per_wheel or given.format == "directory"
    return Settings(given.format, tuple(options), per_wheel, os.environ.get("SOURCE_DATE_EPOCH"), version)


@contextmanager
def connected(given: argparse.Namespace) -> Iterator[Client]:
    """A client of the scheduler, or of a cluster on this machine that ends with it."""
    import dask
    from distributed import Client, LocalCluster

    # These are defaults: the user's configuration of Dask takes precedence.
    dask.config.update_defaults(QUIET_DASK)
    with ExitStack() as stack:
        if given.scheduler:
            is_file = os.path.isfile(given.scheduler)
            yield stack.enter_context(Client(scheduler_file=given.scheduler) if is_file else Client(given.scheduler))
            return
        from .run import DISK

        place = stack.enter_context(scratch(given.scratch))
        workers = _workers(given)
        free = shutil.disk_usage(place).free // workers >> 20
        # A cluster that is interrupted while it starts cannot close.
        with _signals_wait():
            _start_forkserver()
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                resources={DISK: free},
                local_directory=place,
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,
            )
            stack.enter_context(cluster)
        yield stack.enter_context(Client(cluster))


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Keeps signals that end a run until the end of this block."""
    came: list[int] = []
    numbers = ENDING if _may_handle_signals() else ()
    before = [(number, signal.signal(number, lambda number, frame: came.append(number))) for number in numbers]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
    for kept in came:
        signal.raise_signal(kept)


def _start_forkserver() -> None:
    """Starts the process that workers are forked from, which ignore Ctrl-C as it does."""
    # A terminal sends Ctrl-C to all processes of a group. The command ends its workers, which would print tracebacks.
    from multiprocessing import forkserver

    from distributed.utils import get_mp_context

    get_mp_context()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if _may_handle_signals() else None
    forkserver.ensure_running()
    if before is not None:
        signal.signal(signal.SIGINT, before)


def _may_handle_signals() -> bool:
    """Only the first thread of a process may."""
    return threading.current_thread() is threading.main_thread()


def _workers(given: argparse.Namespace) -> int:
    from dask.system import CPU_COUNT

    return int(given.local or CPU_COUNT)


def _jobs(given: argparse.Namespace) -> int | None:
    """The workers of this machine share its cores; other workers know what they have."""
    from dask.system import CPU_COUNT

    if given.jobs or given.scheduler:
        return given.jobs  # type: ignore[no-any-return]
    return max(1, CPU_COUNT // _workers(given))


def _url(text: str) -> str:
    """As any process calls it: workers may have other working directories."""
    return text if "://" in text else os.path.abspath(text)


def number(text: str) -> int:
    """A number of the command line, one or more; argparse names the function in its message."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def cut(text: str) -> str:
    """The value of --cut."""
    if text not in ("auto", "never") and not float(text) > 0:
        raise ValueError
    return text


def _say(line: str) -> None:
    print(escaped(line), file=sys.stderr, flush=True)


def _fail(message: str, code: int = 2) -> int:
    _say(f"kpackfs-fleet: {message}")
    return code
