#!/usr/bin/env bash
# jax-rocm7-pjrt 0.12.0 (PyPI), for ROCm 7.14.
# Expected: a bundle that has a code object for a GPU has the kernels of its source for this GPU.
# Seen: the library has 45 bundles with code objects for 27 GPUs each. One of them, of a library for collective communication, is for three GPUs;
# its code objects for the other 24 are valid ELF files of 2432 bytes without a kernel. So a runtime loads code for each of these GPUs, and
# first fails when it looks for a kernel by name. What counts code objects, or reads the IDs of bundles, finds all 27 GPUs served.
# In 31 other bundles, rocPRIM's kernels have other names for GPUs with 32 lanes than for those with 64, so a kernel that one of two GPUs lacks
# is not a fault either.
. "$(dirname "$0")/common.sh"
recorded <<'END'
45 bundles, each with code objects for 27 GPUs
in 13, all code objects have the same kernels
in 31, there are kernels for all GPUs, some of which have other names for some GPUs
in 1, code objects of gfx1250, gfx942, gfx950 have 124 kernels, and those of 24 others have none and 2432 bytes
END
venv "$work/venv" zstandard==0.25.0
wheel "$work/jax" --python-version 3.12 --platform manylinux_2_27_x86_64 jax-rocm7-pjrt==0.12.0
"$work/venv/bin/python" - "$work/jax/jax_plugins/xla_rocm7/xla_rocm_plugin.so" >"$work/out" <<'END'
import re
import sys

import comgr

gpus, same, other_names, lacking = set(), 0, 0, []
for number, raw in enumerate(comgr.decompressed(open(sys.argv[1], "rb").read()), 1):
    codes = {name.rpartition("-")[2]: code for name, code in next(comgr.bundles(raw)) if not name.startswith("host-")}
    kernels = {gpu: frozenset(re.findall(rb"\0(\w+)\.kd(?=\0)", code)) for gpu, code in codes.items()}
    gpus.add(len(codes))
    if len(set(kernels.values())) == 1:
        same += 1
    elif all(kernels.values()):
        other_names += 1
    else:
        some = sorted(gpu for gpu, names in kernels.items() if names)
        sizes = {len(code) for gpu, code in codes.items() if not kernels[gpu]}
        lacking.append((some, len(kernels[some[0]]), len(codes) - len(some), sizes))
print(number, "bundles, each with code objects for", *gpus, "GPUs")
print(f"in {same}, all code objects have the same kernels")
print(f"in {other_names}, there are kernels for all GPUs, some of which have other names for some GPUs")
for some, count, others, sizes in lacking:
    print(f"in 1, code objects of {', '.join(some)} have {count} kernels, and those of {others} others have none and", *sizes, "bytes")
END
compare "$work/out"
