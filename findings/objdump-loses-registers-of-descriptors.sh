#!/usr/bin/env bash
# llvm-objdump and llvm-mc of LLVM 22.1.8 (Debian 12), with a kernel that needs the number of its workgroup.
# Expected: the descriptor of a kernel (k.kd), which llvm-objdump prints as the directives of the assembler (.amdhsa_kernel), is assembled
# by llvm-mc of the same release to the same bytes, but for the place of the code.
# Seen: for gfx1100 and gfx11-generic, the descriptor has 15 registers for arguments of the kernel, so the number of the workgroup lies in
# s15. llvm-objdump prints which arguments there are, and not the number of registers, so llvm-mc counts 2 and succeeds: with this
# descriptor, the kernel reads its number from a register that is not set. For GPUs with XNACK the directives are refused, as llvm-objdump
# prints of XNACK that nothing is reserved for it, whatever the target: only where it is off they are taken. For gfx1030 and gfx12 the
# bytes are the same. So a tool that changes a kernel by way of its text has to write the descriptor itself.
. "$(dirname "$0")/common.sh"
recorded <<'END'
gfx90a: refused, .amdhsa_reserve_xnack_mask does not match target id
gfx90a:xnack-: the same bytes, 6 user SGPRs
gfx90a:xnack+: refused, .amdhsa_reserve_xnack_mask does not match target id
gfx942: refused, .amdhsa_reserve_xnack_mask does not match target id
gfx1010: refused, .amdhsa_reserve_xnack_mask does not match target id
gfx1030: the same bytes, 6 user SGPRs
gfx1100: other bytes, 15 2 user SGPRs
gfx1103: the same bytes, 2 user SGPRs
gfx1151: the same bytes, 2 user SGPRs
gfx11-generic: other bytes, 15 2 user SGPRs
gfx1201: the same bytes, 2 user SGPRs
END
hip_compiler
options=(-nogpuinc -O2)
cat >"$work/kernel.hip" <<'END'
extern "C" __attribute__((global)) void k(int *p) { p[__builtin_amdgcn_workgroup_id_x()] = 1; }
END
cat >"$work/compare.py" <<'END'
import sys

# The place of the code is at 16, COMPUTE_PGM_RSRC2 at 52, with the number of user SGPRs in its bits 1 to 5.
before, after = (open(file, "rb").read()[:64] for file in sys.argv[1:])
same = before[:16] + before[24:] == after[:16] + after[24:]
print("the same bytes," if same else "other bytes,", *dict.fromkeys(descriptor[52] >> 1 & 31 for descriptor in (before, after)), "user SGPRs")
END
{
    for target in gfx90a gfx90a:xnack- gfx90a:xnack+ gfx942 gfx1010 gfx1030 gfx1100 gfx1103 gfx1151 gfx11-generic gfx1201; do
        kernel_code code --offload-arch=$target
        "$llvm/llvm-objdump" -D -j .rodata --disassemble-symbols=k.kd "$work/code" | grep '^\s*\.' >"$work/kd.s"
        mode=$(sed -n 's/.*:xnack\(.\)$/-mattr=\1xnack/p' <<<$target)
        # shellcheck disable=SC2086 # there may be no mode
        if "$llvm/llvm-mc" -triple amdgcn-amd-amdhsa -mcpu=${target%:*} $mode -filetype=obj "$work/kd.s" -o "$work/kd.o" 2>"$work/errors"; then
            "$llvm/llvm-objcopy" --dump-section .rodata="$work/before" "$work/code" "$work/copy"
            "$llvm/llvm-objcopy" --dump-section .text="$work/after" "$work/kd.o" "$work/copy"
            echo "$target: $(python3 "$work/compare.py" "$work/before" "$work/after")"
        else
            echo "$target: refused, $(grep -o -m1 '\.amdhsa_.*' "$work/errors")"
        fi
    done
} >"$work/out"
compare "$work/out"
