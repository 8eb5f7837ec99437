#!/usr/bin/env bash
# librocm_kpack 0.1.0 of ROCm 7.14, in vapoursynth-bm3dhip 2.17.5 (PyPI).
# Expected: kpack_load_code_object names a damaged archive by the errors of kpack_open: file, format, input and output.
# Seen: an archive that cannot be opened is skipped, and the result is ARCHIVE_NOT_FOUND (13), as for a file that is not there. A download
# that stopped, a pointer file of Git LFS and a directory all look like a device wheel that was never installed. Only kpack_open names them.
. "$(dirname "$0")/common.sh"
recorded <<'END'
no file: load ARCHIVE_NOT_FOUND (13), open error 2
empty file: load ARCHIVE_NOT_FOUND (13), open error 9
pointer file of Git LFS: load ARCHIVE_NOT_FOUND (13), open error 3
first half of the archive: load ARCHIVE_NOT_FOUND (13), open error 10
archive of a later version: load ARCHIVE_NOT_FOUND (13), open error 4
directory: load ARCHIVE_NOT_FOUND (13), open error 3
whole archive: load code, open success, 1 targets, 1 binaries
END
kpack_python "$work/tree" <<'END'
import os
import sys

from kpack import Library, archive

tree = sys.argv[1]
library = Library(sys.argv[2])
path = f"{tree}/.kpack/x_gfx942.kpack"
archive(path, {("lib/x#0", "gfx942"): b"code"})
with open(path, "rb") as file:
    whole = file.read()
later = whole[:4] + (2).to_bytes(4, "little") + whole[8:]
pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1234\n"


def show(what):
    loaded = library.load(["../.kpack/x_@GFXARCH@.kpack"], f"{tree}/lib/libx.so", ["gfx942"])
    print(f"{what}: load {loaded}, open {library.open(path)}")


os.remove(path)
show("no file")
for what, content in {
    "empty file": b"",
    "pointer file of Git LFS": pointer,
    "first half of the archive": whole[: len(whole) // 2],
    "archive of a later version": later,
}.items():
    with open(path, "wb") as file:
        file.write(content)
    show(what)
os.remove(path)
os.mkdir(path)
show("directory")
os.rmdir(path)
with open(path, "wb") as file:
    file.write(whole)
show("whole archive")
END
compare "$work/out"
