#!/usr/bin/env bash
# clang 22.1.8 (Debian 12), and COMGR 3.3 of ROCm 7.14 in vapoursynth-bm3dhip 2.17.5 (PyPI), which compiles SPIR-V for a GPU at run time.
# Expected: -g and -gline-tables-only give kernels that are shipped as SPIR-V (amdgcnspirv) lines for debuggers and profilers, as native code has them.
# Seen: LLVM's back end writes the path of the source and its basic types into the module, and no line, so the code for the GPU has neither lines nor
# variables, with success. SPIR-V by AMD's translator, which COMGR has, keeps both.
. "$(dirname "$0")/common.sh"
recorded <<'END'
-g: lines 13 14 15 16, types and variables pair second twice
    SPIR-V by llvm: lines none, types and variables none
    SPIR-V by amd: lines 13 14 15 16, types and variables pair second twice
-gline-tables-only: lines 13 14 15 16, types and variables none
    SPIR-V by llvm: lines none, types and variables none
    SPIR-V by amd: lines 13 14 15 16, types and variables none
END
hip_compiler
amd_runtime
export AMD_COMGR_CACHE=0
grep -v KERNEL "$PYTHONPATH/kernel.hip" >"$work/kernel.hip"
cat >>"$work/kernel.hip" <<'END'
struct pair {
    int first;
    long second;
};
extern "C" __attribute__((global)) void kernel(pair *pairs, int count) {
    int twice = count * 2;
    pairs[twice].first = twice;
    pairs[count].second = twice * count;
}
END
options=(-nogpuinc -nogpulib -fno-exceptions -O2)
look() { # the debug data of the file code
    "$llvm/llvm-dwarfdump" --debug-line "$work/code" >"$work/lines"
    "$llvm/llvm-dwarfdump" --debug-info "$work/code" >"$work/data"
    echo "lines $(grep -Eo '^0x[0-9a-f]+ +[0-9]+' "$work/lines" | awk '$2 > 0 {print $2}' | sort -un | paste -sd' ' | grep . || echo none)," \
        "types and variables $(sed -n 's/.*DW_AT_name.*("\(pair\|second\|twice\)")/\1/p' "$work/data" | sort -u | paste -sd' ' | grep . || echo none)"
}
show() { # OPTION…
    kernel_code code --offload-arch=gfx942 "$@"
    echo "$*: $(look)"
    for compiler in llvm amd; do
        through_spirv $compiler "$@"
        echo "    SPIR-V by $compiler: $(look)"
    done
}
{
    show -g
    show -gline-tables-only
} >"$work/out"
compare "$work/out"
