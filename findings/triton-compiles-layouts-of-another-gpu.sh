#!/usr/bin/env bash
# triton 3.9.0 (PyPI), without a GPU: a kernel that writes 256 numbers, from its source and from the file of its GPU IR (.ttgir) for another GPU, which
# triton.compile takes too.
# Expected: the file states its GPU and its lanes ("hip:gfx942", 64). Compiled for a GPU with other lanes, or of another vendor, it is
# converted or refused.
# Seen: what the file states is not compared with the target. The layout of the file for 64 lanes stays, and the kernel for gfx1100 or sm_90 is launched
# with 32 lanes in each warp: 128 threads of 4 warps write one number each, so the other 128 are never written. A sum of the numbers is
# that of a part. In the other direction twice as many threads write all twice.
. "$(dirname "$0")/common.sh"
recorded <<'END'
source for gfx942: layout for 64 lanes, 256 threads, 1 store of each: 256 of 256 numbers
source for gfx1100: layout for 32 lanes, 128 threads, 2 stores of each: 256 of 256 numbers
source for sm_90: layout for 32 lanes, 128 threads, 2 stores of each: 256 of 256 numbers
file of gfx942 for gfx1100: layout for 64 lanes, 128 threads, 1 store of each: 128 of 256 numbers
file of gfx942 for sm_90: layout for 64 lanes, 128 threads, 1 store of each: 128 of 256 numbers
file of gfx1100 for gfx942: layout for 32 lanes, 256 threads, 2 stores of each: 512 of 256 numbers
file of sm_90 for gfx942: layout for 32 lanes, 256 threads, 2 stores of each: 512 of 256 numbers
file of sm_90 for gfx1100: layout for 32 lanes, 128 threads, 2 stores of each: 256 of 256 numbers
END
venv "$work/venv" triton==3.9.0
cat >"$work/layouts.py" <<'END'
import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TARGETS = {"gfx942": GPUTarget("hip", "gfx942", 64), "gfx1100": GPUTarget("hip", "gfx1100", 32), "sm_90": GPUTarget("cuda", 90, 32)}


@triton.jit
def double(x, y):
    place = tl.program_id(0) * 256 + tl.arange(0, 256)
    tl.store(y + place, tl.load(x + place) * 2)


def show(name, kernel):
    """The lanes of the layout, the threads of a launch, and the stores of each thread."""
    text = kernel.asm.get("amdgcn") or kernel.asm["ptx"]
    lanes = re.search(r"threadsPerWarp = \[(\d+)\]", kernel.asm["ttgir"])[1]
    threads = int(re.search(r"\.reqntid (\d+)|\.max_flat_workgroup_size: (\d+)", text)[0].split()[-1])
    stores = len(re.findall(r"^\s*(?:@%p\d+ )?(?:global_store_(?:b32|dword)|st\.global\.b32)\s", text, re.M))
    print(f"{name}: layout for {lanes} lanes, {threads} threads, {stores} store{'s'[: stores != 1]} of each: {threads * stores} of 256 numbers")


kernels = {}
for target in TARGETS:
    kernels[target] = triton.compile(ASTSource(fn=double, signature={"x": "*fp32", "y": "*fp32"}), target=TARGETS[target], options={"enable_fp_fusion": True})
    show(f"source for {target}", kernels[target])
for written, target in ("gfx942", "gfx1100"), ("gfx942", "sm_90"), ("gfx1100", "gfx942"), ("sm_90", "gfx942"), ("sm_90", "gfx1100"):
    path = f"{written}.ttgir"
    with open(path, "w") as file:
        file.write(kernels[written].asm["ttgir"])
    show(f"file of {written} for {target}", triton.compile(path, target=TARGETS[target]))
END
(cd "$work" && TRITON_CACHE_DIR=$work/cache/triton venv/bin/python -W ignore layouts.py) >"$work/out"
compare "$work/out"
