"""A preload of Dask workers that kills a process in a phase of a task. KPACKFS_FLEET_FAULT says which."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kpackfs_fleet import kpackfs, store


def dask_setup(worker: Any) -> None:
    """Called by Dask when a worker starts."""
    fault = json.loads(os.environ["KPACKFS_FLEET_FAULT"])
    phase = fault["phase"]

    def strike() -> None:
        """Kills, the first time only unless the fault is for each time. With `interrupt` the command itself gets that signal, and
        with `group` also its workers, as at Ctrl-C."""
        if "marker" in fault:
            try:
                os.close(os.open(fault["marker"], os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
        if "interrupt" in fault:
            send = os.killpg if fault.get("group") else os.kill
            send(os.getsid(0), signal.Signals[fault["interrupt"]])
        else:
            os.kill(fault.get("pid") or os.getpid(), signal.SIGKILL)

    if phase == "start":
        strike()
    elif phase in ("inspect", "split", "verify"):
        kpackfs.run = _while_running(phase, kpackfs.run, strike)
    elif phase == "fetch":
        store.Store.fetch = _half_fetched(store.Store.fetch, strike)
    elif phase == "flip":
        store.Store.fetch = _flipped(store.Store.fetch, fault["marker"], fault.get("wheel", "alpha"))
    elif phase == "publish":
        # The second file of a wheel is complete, and has no name yet.
        store.Store._rename = _before_rename(
            store.Store._rename, strike, lambda final: f"{fault.get('wheel', '')}_device" in final
        )
    elif phase == "upload":
        # All parts of a file are in S3, and its upload is not complete. S3 itself wants parts of 5 MiB.
        from s3fs import S3FileSystem

        store.PART = 1 << 16
        S3FileSystem.call_s3 = _before_completion(S3FileSystem.call_s3, strike)
    elif phase == "note":
        store.Store._rename = _before_rename(store.Store._rename, strike, lambda final: "/manifests/" in final)
    elif phase == "noted":
        store.Store._rename = _after_rename(store.Store._rename, strike, lambda final: "/manifests/" in final)


def _while_running(phase: str, run: Callable[..., Any], strike: Callable[[], None]) -> Callable[..., Any]:
    def wrapped(arguments: Any, environment: Any = None) -> Any:
        wait = os.wait4

        def strike_and_wait(pid: int, options: int) -> Any:
            strike()
            return wait(pid, options)

        os.wait4 = strike_and_wait if arguments[0] == phase else wait
        try:
            return run(arguments, environment)
        finally:
            os.wait4 = wait

    return wrapped


def _half_fetched(fetch: Callable[..., None], strike: Callable[[], None]) -> Callable[..., None]:
    def wrapped(self: Any, path: str, local: Path) -> None:
        fetch(self, path, local)
        os.truncate(local, local.stat().st_size // 2)
        strike()
        fetch(self, path, local)

    return wrapped


def _flipped(fetch: Callable[..., None], marker: str, wheel: str) -> Callable[..., None]:
    def wrapped(self: Any, path: str, local: Path) -> None:
        fetch(self, path, local)
        if wheel in path and not os.path.exists(marker):
            Path(marker).touch()
            whole = bytearray(local.read_bytes())
            whole[len(whole) // 2] ^= 0x10
            local.write_bytes(whole)

    return wrapped


def _before_completion(call: Callable[..., Any], strike: Callable[[], None]) -> Callable[..., Any]:
    def wrapped(self: Any, method: str, **given: Any) -> Any:
        if method == "complete_multipart_upload":
            strike()
        return call(self, method, **given)

    return wrapped


def _before_rename(rename: Callable[..., None], strike: Callable[[], None], matches: Callable[[str], bool]) -> Any:
    def wrapped(self: Any, temporary: str, final: str) -> None:
        if matches(final):
            strike()
        rename(self, temporary, final)

    return wrapped


def _after_rename(rename: Callable[..., None], strike: Callable[[], None], matches: Callable[[str], bool]) -> Any:
    def wrapped(self: Any, temporary: str, final: str) -> None:
        rename(self, temporary, final)
        if matches(final):
            strike()

    return wrapped
