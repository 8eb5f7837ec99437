#!/usr/bin/env bash
# librocm_kpack 0.1.0 of ROCm 7.14, in vapoursynth-bm3dhip 2.17.5 (PyPI).
# Expected: kpack_open refuses an archive whose table of contents lacks a part, or has a format version that the library does not know.
# Seen: it opens archives without targets, without entries, without a compression scheme and of format version 2: only the version in the
# header is read. Such an archive then has no kernels, or other ones, without an error. So a successful kpack_open checks no archive.
. "$(dirname "$0")/common.sh"
recorded <<'END'
as it should be: open success, 1 targets, 1 binaries; load code
no gfx_arches: open success, 0 targets, 1 binaries; load ARCH_NOT_FOUND (14)
no toc: open success, 1 targets, 0 binaries; load KERNEL_NOT_FOUND (5)
no compression_scheme: open success, 1 targets, 1 binaries; load KERNEL_NOT_FOUND (5)
no format_version: open success, 1 targets, 1 binaries; load code
format_version 2: open success, 1 targets, 1 binaries; load code
no zstd_offset: open error 3; load ARCHIVE_NOT_FOUND (13)
END
kpack_python "$work/tree" <<'END'
import sys

from kpack import Library, archive

tree = sys.argv[1]
library = Library(sys.argv[2])
path = f"{tree}/x.kpack"


def show(what, change):
    archive(path, {("lib/x#0", "gfx942"): b"code"}, change=change)
    print(f"{what}: open {library.open(path)}; load {library.load(['../x.kpack'], f'{tree}/lib/libx.so', ['gfx942'])}")


show("as it should be", None)
for key in "gfx_arches", "toc", "compression_scheme", "format_version":
    show(f"no {key}", lambda contents: contents.pop(key))
show("format_version 2", lambda contents: contents.update(format_version=2))
show("no zstd_offset", lambda contents: contents.pop("zstd_offset"))
END
compare "$work/out"
