#!/usr/bin/env bash
# librocm_kpack 0.1.0 of ROCm 7.14, in vapoursynth-bm3dhip 2.17.5 (PyPI).
# Expected: ROCM_KPACK_PATH and ROCM_KPACK_PATH_PREFIX name directories of archives, as PATH, LD_LIBRARY_PATH and PYTHONPATH do.
# Seen: they name archives. A directory in the first makes every look-up fail, since the paths of the library are not searched then. A
# directory in the second is ignored, and the archive next to the library answers. The colon separates entries, so an archive for a
# target with features, whose name has a colon, cannot be given, and @GFXARCH@ is not replaced there.
. "$(dirname "$0")/common.sh"
recorded <<'END'
nothing set: next to the library
ROCM_KPACK_PATH=OTHER: ARCHIVE_NOT_FOUND (13)
ROCM_KPACK_PATH=OTHER/x_gfx90a.kpack: other place
ROCM_KPACK_PATH_PREFIX=OTHER: next to the library
ROCM_KPACK_PATH_PREFIX=OTHER/x_gfx90a.kpack: other place
ROCM_KPACK_PATH=OTHER/x_gfx90a:xnack-.kpack: ARCHIVE_NOT_FOUND (13)
ROCM_KPACK_PATH=OTHER/x_@GFXARCH@.kpack: ARCHIVE_NOT_FOUND (13)
END
kpack_python "$work/tree" <<'END'
import os
import sys

from kpack import Library, archive

tree = sys.argv[1]
library = Library(sys.argv[2])
archive(f"{tree}/.kpack/x_gfx90a.kpack", {("lib/x#0", "gfx90a"): b"next to the library"})
archive(f"{tree}/other/x_gfx90a.kpack", {("lib/x#0", "gfx90a"): b"other place"})
archive(f"{tree}/other/x_gfx90a:xnack-.kpack", {("lib/x#0", "gfx90a:xnack-"): b"other place, xnack-"})


def show(variable=None, value=None):
    if variable:
        os.environ[variable] = value.replace("OTHER", f"{tree}/other")
    loaded = library.load(["../.kpack/x_@GFXARCH@.kpack"], f"{tree}/lib/libx.so", ["gfx90a:xnack-"])
    print(f"{variable}={value}: {loaded}" if variable else f"nothing set: {loaded}")
    if variable:
        del os.environ[variable]


show()
for variable in "ROCM_KPACK_PATH", "ROCM_KPACK_PATH_PREFIX":
    show(variable, "OTHER")
    show(variable, "OTHER/x_gfx90a.kpack")
show("ROCM_KPACK_PATH", "OTHER/x_gfx90a:xnack-.kpack")
show("ROCM_KPACK_PATH", "OTHER/x_@GFXARCH@.kpack")
END
compare "$work/out"
