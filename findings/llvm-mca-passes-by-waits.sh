#!/usr/bin/env bash
# llvm-mca 22.1.8 (llvm-22 of Debian 12).
# Expected: llvm-mca estimates how long the instructions of a kernel take on each GPU that it has a model for, and knows the instruction that waits
# for a load, as it does for gfx942 and gfx1030: what is behind it starts when the load ends.
# Seen: for gfx11 the wait takes no time, so a kernel takes as long as one without it. For gfx12, where the wait has another name, all wait for the
# load without it too. Neither is said: there is no warning, and the exit code is 0. So estimates for two generations do not compare.
. "$(dirname "$0")/common.sh"
recorded <<'END'
gfx90a: 300 instructions 301 cycles, behind a load 302, behind a load and s_waitcnt vmcnt(0) 382
gfx942: 300 instructions 301 cycles, behind a load 302, behind a load and s_waitcnt vmcnt(0) 382
gfx1030: 300 instructions 305 cycles, behind a load 321, behind a load and s_waitcnt vmcnt(0) 626
gfx1100: 300 instructions 305 cycles, behind a load 321, behind a load and s_waitcnt vmcnt(0) 321
gfx1151: 300 instructions 305 cycles, behind a load 321, behind a load and s_waitcnt vmcnt(0) 321
gfx1201: 300 instructions 305 cycles, behind a load 620, behind a load and s_wait_loadcnt 0 624
gfx1250: 300 instructions 305 cycles, behind a load 620, behind a load and s_wait_loadcnt 0 624
END
debs llvm-22=1:22.1.8-1~deb12u1 libllvm22=1:22.1.8-1~deb12u1
estimate() { # GPU INSTRUCTION…: these instructions, and then 300 that need nothing of them
    {
        printf '%s\n' "${@:2}"
        yes 'v_add_f32 v7, v8, v8' | head -300
    } >"$work/source.s"
    "$work/root/usr/lib/llvm-22/bin/llvm-mca" -mtriple=amdgcn -mcpu="$1" -iterations=1 "$work/source.s" | awk '/^Total Cycles/ {print $3}'
}
show() { # GPU LOAD WAIT
    echo "$1: 300 instructions $(estimate "$1" '') cycles, behind a load $(estimate "$1" "$2"), behind a load and $3 $(estimate "$1" "$2" "$3")"
}
{
    for gpu in gfx90a gfx942 gfx1030 gfx1100 gfx1151; do show $gpu 'global_load_dword v3, v[4:5], off' 's_waitcnt vmcnt(0)'; done
    for gpu in gfx1201 gfx1250; do show $gpu 'global_load_b32 v3, v[4:5], off' 's_wait_loadcnt 0'; done
} >"$work/out"
compare "$work/out"
