#!/usr/bin/env bash
# COMGR 3.3 of ROCm 7.14, in vapoursynth-bm3dhip 2.17.5 (PyPI).
# Expected: a bundle gives a GPU the same code object whether it is compressed or not.
# Seen: a HIP runtime asks COMGR by lookup_code_object about raw bundles, and by the action UNBUNDLE about compressed ones. The first takes
# entries in the order of the file. The second takes them in the order of a hash table of their IDs, and of equal IDs the last. Where two
# GPUs of a machine are in different modes and one entry serves both, only one of them gets it, and not the same one.
. "$(dirname "$0")/common.sh"
recorded <<'END'
entries gfx942:xnack-, gfx942; GPU gfx942:sramecc+:xnack-: raw gfx942:xnack-, compressed gfx942
entries gfx942, gfx942:xnack-; GPU gfx942:sramecc+:xnack-: raw gfx942, compressed gfx942
entries gfx942 (1st), gfx942 (2nd); GPU gfx942: raw gfx942 (1st), compressed gfx942 (2nd)
entries gfx942; GPUs gfx942:xnack+ and gfx942:xnack-: raw gfx942 and nothing, compressed nothing and gfx942
entries gfx1100, gfx942; GPUs gfx942 and gfx1100: raw gfx942 and gfx1100, compressed gfx942 and gfx1100
END
venv "$work/venv" zstandard==0.25.0
amd_runtime
"$work/venv/bin/python" - "$comgr" >"$work/out" <<'END'
import sys

import comgr

library = comgr.Comgr(sys.argv[1])


def show(entries, *targets):
    raw = comgr.bundle([(entry.split()[0], entry.encode()) for entry in entries])
    found = library.lookup(raw, targets), library.unbundle(comgr.compress(raw), targets)
    raw, compressed = (" and ".join(code.decode() or "nothing" for code in codes) for codes in found)
    gpus = "GPUs" if len(targets) > 1 else "GPU"
    print(f"entries {', '.join(entries)}; {gpus} {' and '.join(targets)}: raw {raw}, compressed {compressed}")


show(["gfx942:xnack-", "gfx942"], "gfx942:sramecc+:xnack-")
show(["gfx942", "gfx942:xnack-"], "gfx942:sramecc+:xnack-")
show(["gfx942 (1st)", "gfx942 (2nd)"], "gfx942")
show(["gfx942"], "gfx942:xnack+", "gfx942:xnack-")
show(["gfx1100", "gfx942"], "gfx942", "gfx1100")
END
compare "$work/out"
