#!/usr/bin/env bash
# librocm_kpack 0.1.0 of ROCm 7.14, in vapoursynth-bm3dhip 2.17.5 (PyPI).
# Expected: a kernel that one archive lacks is searched in the next archive, and then for the next target: a generic code object, or the
# one without features. The search ends with "not found" when no archive has it.
# Seen: the first archive that lists a target ends the search, whether it has the kernel or not. A target that is listed in vain hides
# the code object for the target without features, even within one archive.
# So an archive for gfx90a:xnack- must also hold all kernels that were built for gfx90a alone.
. "$(dirname "$0")/common.sh"
recorded <<'END'
a path to an archive of gfx942 without the kernel, then one with it: KERNEL_NOT_FOUND (5)
the same two paths in the other order: code for gfx942
targets gfx1100, gfx11-generic; the archive of gfx1100 lacks the kernel: KERNEL_NOT_FOUND (5)
the same without the archive of gfx1100: code for gfx11-generic
gfx90a:sramecc+:xnack-; archive of gfx90a:xnack- without the kernel, archive of gfx90a with it: KERNEL_NOT_FOUND (5)
one archive that lists gfx90a and gfx90a:xnack-, and has the kernel for gfx90a: KERNEL_NOT_FOUND (5)
the same archive when it lists gfx90a alone: code for gfx90a
END
kpack_python "$work" <<'END'
import os
import sys

from kpack import Library, archive

work = sys.argv[1]
library = Library(sys.argv[2])
binary = f"{work}/tree/lib/libx.so"


def make(name, kernel, *targets, **options):
    archive(f"{work}/tree/{name}.kpack", {(f"lib/{kernel}#0", target): f"code for {target}".encode() for target in targets}, **options)


def show(what, patterns, *targets):
    print(f"{what}: {library.load(patterns, binary, targets)}")


make("other_gfx942", "y", "gfx942")
make("right_gfx942", "x", "gfx942")
show("a path to an archive of gfx942 without the kernel, then one with it", ["../other_gfx942.kpack", "../right_gfx942.kpack"], "gfx942")
show("the same two paths in the other order", ["../right_gfx942.kpack", "../other_gfx942.kpack"], "gfx942")
make("g_gfx1100", "y", "gfx1100")
make("g_gfx11-generic", "x", "gfx11-generic")
pattern = ["../g_@GFXARCH@.kpack"]
show("targets gfx1100, gfx11-generic; the archive of gfx1100 lacks the kernel", pattern, "gfx1100", "gfx11-generic")
os.remove(f"{work}/tree/g_gfx1100.kpack")
show("the same without the archive of gfx1100", pattern, "gfx1100", "gfx11-generic")
make("m_gfx90a:xnack-", "y", "gfx90a:xnack-")
make("m_gfx90a", "x", "gfx90a")
mode = "gfx90a:sramecc+:xnack-"
show(f"{mode}; archive of gfx90a:xnack- without the kernel, archive of gfx90a with it", ["../m_@GFXARCH@.kpack"], mode)
make("both", "x", "gfx90a", targets=["gfx90a", "gfx90a:xnack-"])
show("one archive that lists gfx90a and gfx90a:xnack-, and has the kernel for gfx90a", ["../both.kpack"], mode)
make("one", "x", "gfx90a", targets=["gfx90a"])
show("the same archive when it lists gfx90a alone", ["../one.kpack"], mode)
END
compare "$work/out"
