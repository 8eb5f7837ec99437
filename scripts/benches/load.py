"""Reads files as starting a Python program does, and prints the seconds.

usage: load.py DIRECTORY LIBRARY BUFFERING
"""

import mmap
import os
import sys
import time
from pathlib import Path


def load(modules, library, buffering):
    """What importlib does for each module (list, stat, open, read), and what a loader does with a library that is then used:
    every page is touched."""
    start = time.monotonic()
    for parent, _, names in os.walk(modules):
        for name in names:
            path = Path(parent, name)
            path.stat()
            with path.open("rb", buffering) as file:
                file.read()
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        mapped[:: mmap.PAGESIZE]
    return time.monotonic() - start


if __name__ == "__main__":
    print(load(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
