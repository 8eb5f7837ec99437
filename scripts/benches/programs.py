"""The programs that take part: kpackfs, the controls, and peers."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PEERS = ROOT / "target" / "peers"
RATARMOUNT = "ratarmount==1.3.0"


class Failure(Exception):
    """The bench itself cannot go on."""


@contextmanager
def setting(file, value, what):
    """Writes a setting of the kernel, and restores it."""
    try:
        before = file.read_text()
        file.write_text(value)
    except OSError as error:
        raise Failure(f"{what}: {error}") from error
    try:
        yield
    finally:
        file.write_text(before)


def build(profile):
    """Builds kpackfs and the controls; returns where they are."""
    given = os.environ.get("KPACKFS")
    # In two commands, so that features for tests and benches are not compiled into kpackfs.
    kpackfs = Path(given).resolve() if given else executable(profile, "--bin", "kpackfs")
    return kpackfs, executable(profile, "--bench", "controls")


def executable(profile, *target):
    command = ["cargo", "build", "--locked", "--profile", profile, *target, "--message-format=json-render-diagnostics"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise Failure(f"{' '.join(command)}: failed")
    found = None
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["target"]["name"] == target[1]:
            found = message["executable"] or found
    return Path(found)


def install_peers():
    subprocess.run([ROOT / "scripts" / "install-missing", "fuse-zip=fuse-zip"], check=True)
    if not (PEERS / "bin" / "ratarmount").exists():
        subprocess.run([sys.executable, "-m", "venv", PEERS], check=True)
        subprocess.run([PEERS / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", RATARMOUNT], check=True)


def find_peer(name):
    """The path of a peer, or None with a message."""
    path = shutil.which(name, path=f"{PEERS / 'bin'}:{os.environ['PATH']}")
    if path is None:
        print(f"\n*** {name} is NOT INSTALLED: nothing is compared with it; scripts/bench --peers installs it ***\n", file=sys.stderr)
    return path


class Kpackfs:
    """The program with the options that keep it away from the user's cache, as far as it has such options."""

    def __init__(self, path):
        self.path = path
        self._help = {}

    def has(self, command, option):
        if command not in self._help:
            done = subprocess.run([self.path, command, "--help"], capture_output=True, text=True)
            self._help[command] = done.stdout
        return option in self._help[command]

    def command(self, command, *arguments, cache=None):
        """A command line. `cache` is the directory of the index; None for no index."""
        options = []
        if cache is not None and self.has(command, "--cache-dir"):
            options = ["--cache-dir", cache]
        elif cache is None and self.has(command, "--no-cache"):
            options = ["--no-cache"]
        return [str(part) for part in (self.path, command, *options, *arguments)]
