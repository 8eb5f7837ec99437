#!/usr/bin/env bash
# COMGR 2.4 of ROCm 5.2.3 (libamd-comgr2 5.2.3-2, Debian 12), and COMGR 3.3 in vapoursynth-bm3dhip 2.17.5 (PyPI).
# Expected: a look-up for several GPUs gives each what a look-up for it alone gives, in whatever order they are listed.
# Seen: COMGR 2.4 stops serving GPUs that are listed behind one that was just served, so the result depends on the orders of the list and
# of the bundle. The missing GPUs get size 0, with success. COMGR 3.3 serves both lists.
. "$(dirname "$0")/common.sh"
recorded <<'END'
COMGR 2.4, GPUs gfx906, gfx90a: gfx906 and nothing
COMGR 2.4, GPUs gfx90a, gfx906: gfx90a and gfx906
COMGR 3.3, GPUs gfx906, gfx90a: gfx906 and gfx90a
COMGR 3.3, GPUs gfx90a, gfx906: gfx90a and gfx906
END
amd_runtime
debs libamd-comgr2=5.2.3-2 libllvm15=1:15.0.6-4+b1
old=$(echo "$work"/root/usr/lib/x86_64-linux-gnu/libamd_comgr.so.2.*)
look() { # NAME LIBRARY
    python3 - "$@" <<'END'
import sys

import comgr

name, path = sys.argv[1:]
library = comgr.Comgr(path)
bundle = comgr.bundle([("gfx906", b"gfx906"), ("gfx90a", b"gfx90a")])
for targets in ["gfx906", "gfx90a"], ["gfx90a", "gfx906"]:
    codes = [code.decode() or "nothing" for code in library.lookup(bundle, targets)]
    print(f"{name}, GPUs {', '.join(targets)}: {' and '.join(codes)}")
END
}
{
    look "COMGR 2.4" "$old"
    LD_LIBRARY_PATH='' look "COMGR 3.3" "$comgr"
} >"$work/out"
compare "$work/out"
