#!/usr/bin/env bash
# clang 22.1.8 (Debian 12), and COMGR 3.3 of ROCm 7.14 in vapoursynth-bm3dhip 2.17.5 (PyPI), which compiles SPIR-V for a GPU at run time.
# Expected: an option that changes kernels for a GPU has the same effect on kernels that get there as SPIR-V (amdgcnspirv), or is an error: the module
# even holds its command line for the later compilation.
# Seen: the number of lanes, CU mode, flushed denormals and the version of the code object are those of no option, without a warning. So a
# kernel that was written for 64 lanes runs with 32 on gfx1100. Promises about memory are lost as well: an atomic add of floats is one
# instruction in native code, by an option on gfx90a and without one on gfx1100, and a loop of compare and swap by way of SPIR-V.
# LLVM's back end and AMD's translator, which COMGR has, do the same.
. "$(dirname "$0")/common.sh"
recorded <<'END'
gfx1100: 32 lanes, WGP mode, denormals kept, version 6, atomic_add
    SPIR-V by llvm: 32 lanes, WGP mode, denormals kept, version 6, atomic_cmpswap
    SPIR-V by amd: 32 lanes, WGP mode, denormals kept, version 6, atomic_cmpswap
gfx1100 -mwavefrontsize64: 64 lanes, WGP mode, denormals kept, version 6, atomic_add
    SPIR-V by llvm: 32 lanes, WGP mode, denormals kept, version 6, atomic_cmpswap
    SPIR-V by amd: 32 lanes, WGP mode, denormals kept, version 6, atomic_cmpswap
gfx1100 -mcumode: 32 lanes, CU mode, denormals kept, version 6, atomic_add
    SPIR-V by llvm: 32 lanes, WGP mode, denormals kept, version 6, atomic_cmpswap
    SPIR-V by amd: 32 lanes, WGP mode, denormals kept, version 6, atomic_cmpswap
gfx1100 -fgpu-flush-denormals-to-zero: 32 lanes, WGP mode, denormals flushed, version 6, atomic_add
    SPIR-V by llvm: 32 lanes, WGP mode, denormals kept, version 6, atomic_cmpswap
    SPIR-V by amd: 32 lanes, WGP mode, denormals kept, version 6, atomic_cmpswap
gfx1100 -mcode-object-version=5: 32 lanes, WGP mode, denormals kept, version 5, atomic_add
    SPIR-V by llvm: 32 lanes, WGP mode, denormals kept, version 6, atomic_cmpswap
    SPIR-V by amd: 32 lanes, WGP mode, denormals kept, version 6, atomic_cmpswap
gfx90a: 64 lanes, CU mode, denormals kept, version 6, atomic_cmpswap
    SPIR-V by llvm: 64 lanes, CU mode, denormals kept, version 6, atomic_cmpswap
    SPIR-V by amd: 64 lanes, CU mode, denormals kept, version 6, atomic_cmpswap
gfx90a -munsafe-fp-atomics: 64 lanes, CU mode, denormals kept, version 6, atomic_add
    SPIR-V by llvm: 64 lanes, CU mode, denormals kept, version 6, atomic_cmpswap
    SPIR-V by amd: 64 lanes, CU mode, denormals kept, version 6, atomic_cmpswap
END
hip_compiler
amd_runtime
export AMD_COMGR_CACHE=0
{
    grep -v KERNEL "$PYTHONPATH/kernel.hip"
    echo 'extern "C" __attribute__((global)) void kernel(float *p, float x) {'
    echo '    __hip_atomic_fetch_add(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);'
    echo '}'
} >"$work/kernel.hip"
options=(-nogpuinc -nogpulib -fno-exceptions -O3)
compile() { # CODE OPTION…
    hip -x hip "${options[@]}" --offload-device-only --no-gpu-bundle-output "${@:2}" -c "$work/kernel.hip" -o "$1"
}
through_spirv() { # llvm|amd GPU OPTION…: the object file that COMGR makes of SPIR-V by one of the two compilers
    [ "$1" = amd ] || compile "$work/bundle" --offload-arch=amdgcnspirv -use-spirv-backend "${@:3}"
    env -u LD_LIBRARY_PATH python3 - "$comgr" "$work" "$@" "${options[@]}" 2>/dev/null <<'END'
import pathlib
import sys

import comgr

library, work, compiler, gpu, *options = sys.argv[1:]
library, work = comgr.Comgr(library), pathlib.Path(work)
if compiler == "amd":
    module = library.spirv((work / "kernel.hip").read_bytes(), options)
else:
    module = (work / "bundle").read_bytes()
    if module.startswith(comgr.MAGIC):
        module = next(code for name, code in next(comgr.bundles(module)) if not name.startswith("host-"))
(work / "object").write_bytes(library.compile_spirv(gpu, module))
END
}
look() { # CODE: the modes in the kernel's descriptor, the version of the code object, the atomic instruction
    "$llvm/llvm-objdump" --disassemble-symbols=kernel.kd --section=.rodata "$1" >"$work/descriptor"
    value() { sed -n "s/.*amdhsa_$1 //p" "$work/descriptor"; }
    local lanes=64 mode="CU" denormals=flushed
    [ "$(value wavefront_size32)" != 1 ] || lanes=32
    [ "$(value workgroup_processor_mode)" != 1 ] || mode="WGP"
    [ "$(value float_denorm_mode_32)" != 3 ] || denormals=kept
    echo "$lanes lanes, $mode mode, denormals $denormals, version $(
        "$llvm/llvm-readelf" --file-header "$1" | sed -n 's/.*ABI Version: *//p' | awk '{ print $1 + 2 }'
    ), $("$llvm/llvm-objdump" -d "$1" | grep -o 'atomic_[a-z]*' | head -1)"
}
show() { # GPU OPTION…
    compile "$work/native" --offload-arch="$1" "${@:2}"
    echo "$*: $(look "$work/native")"
    for compiler in llvm amd; do
        through_spirv $compiler "$@"
        echo "    SPIR-V by $compiler: $(look "$work/object")"
    done
}
{
    show gfx1100
    show gfx1100 -mwavefrontsize64
    show gfx1100 -mcumode
    show gfx1100 -fgpu-flush-denormals-to-zero
    show gfx1100 -mcode-object-version=5
    show gfx90a
    show gfx90a -munsafe-fp-atomics
} >"$work/out"
compare "$work/out"
