#!/usr/bin/env bash
# AMD's clang 23 in COMGR 3.3 (ROCm 7.14) of vapoursynth-bm3dhip 2.17.5 (PyPI), and clang 22.1.8 (Debian 12).
# Expected: -g changes no instruction, which is a rule of LLVM, and which clang 22.1.8 obeys for these GPUs.
# Seen: AMD's clang has each function save EXEC, the mask of lanes, for a debugger, with -g and with -gline-tables-only, which only a profiler needs.
# The function has three times the instructions, with a store to memory and a load, and a kernel that calls it has more registers, and memory
# for each thread. A kernel without a call is the same.
. "$(dirname "$0")/common.sh"
recorded <<'END'
clang, gfx942, no option: product has 3 instructions; alone has 4 registers and 0 bytes; calls has 3 registers and 0 bytes
clang, gfx942, -g: product has 3 instructions; alone has 4 registers and 0 bytes; calls has 3 registers and 0 bytes
clang, gfx942, -gline-tables-only: product has 3 instructions; alone has 4 registers and 0 bytes; calls has 3 registers and 0 bytes
clang, gfx1100, no option: product has 3 instructions; alone has 2 registers and 0 bytes; calls has 3 registers and 0 bytes
clang, gfx1100, -g: product has 3 instructions; alone has 2 registers and 0 bytes; calls has 3 registers and 0 bytes
clang, gfx1100, -gline-tables-only: product has 3 instructions; alone has 2 registers and 0 bytes; calls has 3 registers and 0 bytes
amd, gfx942, no option: product has 3 instructions; alone has 6 registers and 0 bytes; calls has 3 registers and 0 bytes
amd, gfx942, -g: product has 12 instructions; alone has 6 registers and 0 bytes; calls has 4 registers and 8 bytes
amd, gfx942, -gline-tables-only: product has 12 instructions; alone has 6 registers and 0 bytes; calls has 4 registers and 8 bytes
amd, gfx1100, no option: product has 3 instructions; alone has 2 registers and 0 bytes; calls has 3 registers and 0 bytes
amd, gfx1100, -g: product has 12 instructions; alone has 2 registers and 0 bytes; calls has 4 registers and 8 bytes
amd, gfx1100, -gline-tables-only: product has 12 instructions; alone has 2 registers and 0 bytes; calls has 4 registers and 8 bytes
END
amd_runtime
hip_compiler
cat >"$work/kernels.cl" <<'END'
__attribute__((noinline)) int product(int left, int right) { return left * right; }
__kernel void calls(__global int *place, int count) { for (int i = 0; i < count; ++i) place[i] = product(place[i], i); }
__kernel void alone(__global int *place, int count) { for (int i = 0; i < count; ++i) place[i] *= i; }
END
cat >"$work/compile.py" <<'END'
import sys

import comgr

library, source, target, output, *options = sys.argv[1:]
with open(output, "wb") as file:
    file.write(comgr.Comgr(library).compile(target, open(source).read(), options))
END
amd() { # GPU OUTPUT OPTION…
    LD_LIBRARY_PATH= python3 "$work/compile.py" "$comgr" "$work/kernels.cl" "$@"
}
clang() { # GPU OUTPUT OPTION…
    "$llvm/clang" -target amdgcn-amd-amdhsa -mcpu="$1" -nogpulib -fuse-ld=lld -cl-std=CL2.0 -cl-no-stdinc "${@:3}" "$work/kernels.cl" -o "$2"
}
show() { # COMPILER GPU OPTION
    "$1" "$2" "$work/code.co" -O2 ${3:+"$3"}
    echo "$1, $2, ${3:-no option}: product has $("$llvm/llvm-objdump" --disassemble-symbols=product --no-show-raw-insn --no-leading-addr \
        "$work/code.co" | grep -E '^\s+[a-z]' | grep -cvE 's_nop 0|s_code_end') instructions$(kernel_metadata "$work/code.co" vgpr_count private_segment_fixed_size |
        sed 's/\(.*\) \(.*\) \(.*\)/; \1 has \2 registers and \3 bytes/' | tr -d '\n')"
}
{
    for compiler in clang amd; do
        for gpu in gfx942 gfx1100; do
            for option in '' -g -gline-tables-only; do show $compiler $gpu $option; done
        done
    done
} >"$work/out"
compare "$work/out"
