#!/usr/bin/env bash
# clang 22.1.8 (Debian 12): kernels with an array of their own, which lies in scratch memory.
# Expected: its size is a matter of the runtime, which gives a kernel the scratch memory that its metadata ask for, and the same on each GPU.
# Seen: the compiler has a limit for it, of 128 KiB with 64 lanes and of 256 KiB with 32, and a larger one on gfx12. So a source that builds for
# one GPU does not build with another one in the list, or with -mwavefrontsize64. The message names no file and no line.
. "$(dirname "$0")/common.sh"
recorded <<'END'
120 KiB, gfx906: 122896 bytes
200 KiB, gfx906: <unknown>:0:0: stack frame size (204816) exceeds limit (131056) in function '_Z6kernelPii'
120 KiB, gfx942: 122896 bytes
200 KiB, gfx942: <unknown>:0:0: stack frame size (204816) exceeds limit (131056) in function '_Z6kernelPii'
120 KiB, gfx1030: 122896 bytes
200 KiB, gfx1030: 204816 bytes
120 KiB, gfx1100: 122896 bytes
200 KiB, gfx1100: 204816 bytes
120 KiB, gfx1201: 122896 bytes
200 KiB, gfx1201: 204816 bytes
200 KiB, gfx1100 -mwavefrontsize64: <unknown>:0:0: stack frame size (204816) exceeds limit (131068) in function '_Z6kernelPii'
300 KiB, gfx1100: <unknown>:0:0: stack frame size (307216) exceeds limit (262136) in function '_Z6kernelPii'
300 KiB, gfx1201: 307216 bytes
END
hip_compiler
options=(-nogpulib -nogpuinc -fuse-cuid=none -O2)
show() { # KIBIBYTES GPU OPTION…
    cat >"$work/kernel.hip" <<END
__attribute__((global)) void kernel(int *p, int count) {
    int values[$1 * 256];
    for (int i = 0; i < count; i++) values[i] = p[i];
    p[count] = values[count / 2];
}
END
    if kernel_code code --offload-arch="${@:2}" 2>"$work/message"; then
        echo "$1 KiB, ${*:2}: $(kernel_metadata "$work/code" private_segment_fixed_size | sed 's/.* //') bytes"
    else
        echo "$1 KiB, ${*:2}: $(grep -oPm1 'error: \K.*' "$work/message")"
    fi
}
{
    for gpu in gfx906 gfx942 gfx1030 gfx1100 gfx1201; do show 120 $gpu; show 200 $gpu; done
    show 200 gfx1100 -mwavefrontsize64
    show 300 gfx1100
    show 300 gfx1201
} >"$work/out"
compare "$work/out"
