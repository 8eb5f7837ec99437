#!/usr/bin/env bash
# triton 3.9.0 (PyPI), which has LLVM 24, and LLVM 22.1.8 (Debian 12).
# Expected: the triple amdgcn-amd-amdhsa, which has named AMD's GPUs for ten years, is in what every compiler writes, and the modes of a GPU are a fact
# about the GPU. Assembly and LLVM IR, which Triton keeps next to each code object, can be given to the LLVM that is installed.
# Seen: LLVM 24 puts the GPU into the triple: amdgpu9.42-amd-amdhsa-unknown-gfx942 is the target in the metadata. What divides it at two dashes, or
# looks for amdgcn, finds none. LLVM 22 refuses both texts for the name alone; with the old name it takes them. The header names the GPU as
# before, but XNACK is no mode of gfx1250 any more, where LLVM 22 has code for any mode.
. "$(dirname "$0")/common.sh"
recorded <<'END'
clang, gfx1250: amdgcn-amd-amdhsa--gfx1250, gfx1250, xnack, sramecc
triton, gfx1250: amdgpu12.50-amd-amdhsa-unknown-gfx1250, gfx1250, sramecc
clang, gfx942: amdgcn-amd-amdhsa--gfx942, gfx942, xnack, sramecc
triton, gfx942: amdgpu9.42-amd-amdhsa-unknown-gfx942, gfx942, xnack, sramecc
assembly for gfx942: error: .amdgcn_target directive's target id amdgpu9.42-amd-amdhsa-unknown-gfx942 does not match the specified target id amdgcn-amd-amdhsa--gfx942
assembly for gfx942, with the old name: compiled
LLVM IR for gfx942: error: unable to get target for 'amdgpu9.42-amd-amdhsa'
LLVM IR for gfx942, with the old name: compiled
END
venv "$work/venv" triton==3.9.0
hip_compiler
cat >"$work/compile.py" <<'END'
import pathlib
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def kernel(place):
    tl.store(place, 1)


directory, gpu, lanes = sys.argv[1:]
compiled = triton.compile(ASTSource(fn=kernel, signature={"place": "*i32"}), target=GPUTarget("hip", gpu, int(lanes)))
pathlib.Path(directory, "triton.co").write_bytes(compiled.asm["hsaco"])
pathlib.Path(directory, "triton.s").write_text(compiled.asm["amdgcn"])
pathlib.Path(directory, "triton.ll").write_text(compiled.asm["llir"])
END
target() { # NAME CODE-OBJECT: its target by the metadata, and by the header
    "$llvm/llvm-readelf" --file-header --notes "$2" >"$work/notes"
    echo "$1: $(sed -n "s/.*amdhsa.target: *//p" "$work/notes"), $(sed -n 's/.*Flags: *0x[0-9a-f]*, //p' "$work/notes")"
}
show() { # NAME COMMAND…: whether a program of LLVM 22 takes a file
    if "$llvm/${@:2}" -mcpu=gfx942 -filetype=obj -o "$work/object" 2>"$work/message"; then
        echo "$1: compiled"
    else
        echo "$1: $(grep -om1 'error: .*' "$work/message" | sed 's/, see .*//')"
    fi
}
{
    for gpu in gfx1250 gfx942; do
        hip_compile clang.co kernel --offload-arch=$gpu -O3 --offload-device-only --no-gpu-bundle-output
        target "clang, $gpu" "$work/clang.co"
        HOME=$work TRITON_DEFAULT_FP_FUSION=1 "$work/venv/bin/python" "$work/compile.py" "$work" $gpu $([ $gpu = gfx942 ] && echo 64 || echo 32)
        target "triton, $gpu" "$work/triton.co"
    done
    sed 's/amdgpu9.42-amd-amdhsa-unknown-/amdgcn-amd-amdhsa--/' "$work/triton.s" >"$work/renamed.s"
    show "assembly for gfx942" llvm-mc -triple amdgcn-amd-amdhsa "$work/triton.s"
    show "assembly for gfx942, with the old name" llvm-mc -triple amdgcn-amd-amdhsa "$work/renamed.s"
    show "LLVM IR for gfx942" llc "$work/triton.ll"
    show "LLVM IR for gfx942, with the old name" llc -mtriple=amdgcn-amd-amdhsa "$work/triton.ll"
} >"$work/out"
compare "$work/out"
