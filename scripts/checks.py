"""What the suites scripts/check-* share: paths, programs that have to succeed, and failures."""

import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KPACKFS = str(Path(os.environ.get("KPACKFS", ROOT / "target/release/kpackfs")).resolve())
CORPUS = Path(os.environ.get("KPACKFS_CORPUS", Path.home() / ".cache/kpackfs-corpus"))

failures = []


def corpus_wheel(pattern):
    """The one file of the corpus with such a name."""
    found = list(CORPUS.glob(pattern))
    if len(found) != 1:
        sys.exit(f"{CORPUS} has {len(found)} files {pattern}; scripts/fetch-corpus fetches one")
    return found[0]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def fail(*words):
    failures.append(" ".join(map(str, words)))
    print("   FAILED:", failures[-1], flush=True)


def run(*command, check=True, **options):
    """Runs a program. If it fails, so does the suite, unless the caller checks that."""
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if check and result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {result.returncode}\n{result.stdout}{result.stderr}")
    return result
