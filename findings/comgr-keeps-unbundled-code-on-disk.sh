#!/usr/bin/env bash
# COMGR 3.3 of ROCm 7.14, in vapoursynth-bm3dhip 2.17.5 (PyPI).
# Expected: the cache in ~/.cache/comgr holds what was compiled. To find a code object in a compressed bundle is no compilation: it is
# decompressed in memory, each time.
# Seen: the action that HIP runtimes use for compressed bundles writes the code objects to that cache, for each set of GPUs again. So a program
# with compressed libraries fills the home directory with the code of its GPUs at the first start. Raw bundles leave nothing there.
# AMD_COMGR_CACHE=0 switches the cache off.
. "$(dirname "$0")/common.sh"
recorded <<'END'
look-up in a raw bundle: nothing in ~/.cache/comgr
look-up in a compressed bundle, for gfx942: 1 file, 1.0 MB
the same again: 1 file, 1.0 MB
the same bundle, for gfx942 and gfx1100: 2 files, 3.0 MB
another process with AMD_COMGR_CACHE=0: nothing in ~/.cache/comgr
END
venv "$work/venv" zstandard==0.25.0
amd_runtime
unset XDG_CACHE_HOME
cat >"$work/look.py" <<'END'
import os
import sys
from pathlib import Path

import comgr

library = comgr.Comgr(sys.argv[1])
cache = Path.home() / ".cache/comgr"
# Data that cannot be compressed, as the cache might.
raw = comgr.bundle([("gfx942", os.urandom(1_000_000)), ("gfx1100", os.urandom(1_000_000))])
compressed = comgr.compress(raw)


def show(what):
    sizes = [path.stat().st_size for path in cache.glob("llvmcache-*")]
    files = "1 file" if len(sizes) == 1 else f"{len(sizes)} files"
    print(f"{what}: {files}, {sum(sizes) / 1e6:.1f} MB" if sizes else f"{what}: nothing in ~/.cache/comgr")


if len(sys.argv) > 2:
    library.unbundle(compressed, ["gfx942"])
    show(sys.argv[2])
    sys.exit()
library.lookup(raw, ["gfx942"])
show("look-up in a raw bundle")
library.unbundle(compressed, ["gfx942"])
show("look-up in a compressed bundle, for gfx942")
library.unbundle(compressed, ["gfx942"])
show("the same again")
library.unbundle(compressed, ["gfx942", "gfx1100"])
show("the same bundle, for gfx942 and gfx1100")
END
"$work/venv/bin/python" "$work/look.py" "$comgr" >"$work/out"
rm -r "$HOME/.cache"
AMD_COMGR_CACHE=0 "$work/venv/bin/python" "$work/look.py" "$comgr" "another process with AMD_COMGR_CACHE=0" >>"$work/out"
compare "$work/out"
