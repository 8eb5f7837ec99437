#!/usr/bin/env bash
# clang 22.1.8 (Debian 12), and COMGR 3.3 of ROCm 7.14 in vapoursynth-bm3dhip 2.17.5 (PyPI), which compiles SPIR-V for a GPU at run time.
# Expected: SPIR-V that was compiled by -O3 is compiled for the GPU with optimization; the command line in the module is for diagnostics, and
# nothing is lost if a package leaves it out, as it names directories and macros.
# Seen: COMGR takes -O from the command line in the module, and has -O0 without it. So the option that keeps directories out of packages
# (-Xclang -fembed-bitcode=off) gives code that was never optimized: the instructions, scratch memory and hidden arguments of -O0.
# The bytes of the kernel in the module are those of -O3 all the same.
. "$(dirname "$0")/common.sh"
recorded <<'END'
-O3: 32 instructions, 0 bytes of scratch memory, 16 bytes of arguments
-O0: 142 instructions, 48 bytes of scratch memory, 272 bytes of arguments
-O3 -Xclang -fembed-bitcode=off: 142 instructions, 48 bytes of scratch memory, 272 bytes of arguments
END
hip_compiler
amd_runtime
export AMD_COMGR_CACHE=0
{
    grep -v KERNEL "$PYTHONPATH/kernel.hip"
    echo 'extern "C" __attribute__((global)) void kernel(float *p, float *q) {'
    echo '    float sum = 0;'
    echo '    for (int i = 0; i < 8; ++i) sum += p[i] * q[i];'
    echo '    p[0] = sum;'
    echo '}'
} >"$work/kernel.hip"
show() { # OPTION…: the code for gfx942 that COMGR makes of SPIR-V
    hip -x hip -nogpuinc -fno-exceptions --offload-arch=amdgcnspirv -use-spirv-backend --offload-device-only "$@" -c "$work/kernel.hip" -o "$work/bundle"
    env -u LD_LIBRARY_PATH python3 - "$comgr" "$work" <<'END'
import pathlib
import sys

import comgr

work = pathlib.Path(sys.argv[2])
module = next(code for name, code in next(comgr.bundles((work / "bundle").read_bytes())) if not name.startswith("host-"))
(work / "object").write_bytes(comgr.Comgr(sys.argv[1]).compile_spirv("gfx942", module))
END
    "$llvm/llvm-readelf" --notes "$work/object" >"$work/notes"
    value() { sed -n "s/.*\.$1: *//p" "$work/notes"; }
    echo "$*: $("$llvm/llvm-objdump" -d "$work/object" | sed '/s_endpgm/q' | grep -c //) instructions, $(
        value private_segment_fixed_size
    ) bytes of scratch memory, $(value kernarg_segment_size) bytes of arguments"
}
{
    show -O3
    show -O0
    show -O3 -Xclang -fembed-bitcode=off
} >"$work/out"
compare "$work/out"
