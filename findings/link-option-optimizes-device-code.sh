#!/usr/bin/env bash
# clang and lld 22.1.8 (Debian 12).
# Expected: -O3 of the compilation decides how kernels are optimized. -O of a link command is for the linker of the host at most.
# Seen: without -fgpu-rdc it is so. With it, objects have bitcode, and clang compiles it to instructions in the link by the -O of that command, by
# -O3 if it has none. So equal objects give other code objects by an option of the link: three times the instructions, and scratch memory,
# with -O0, which a debug configuration of the host may have in its link flags. Both drivers do so. What was compiled by
# -O0 is not optimized later.
. "$(dirname "$0")/common.sh"
recorded <<'END'
compiled by -O3, linked by none: 303 instructions, 0 bytes of scratch
compiled by -O3, linked by -O0: 303 instructions, 0 bytes of scratch
-fgpu-rdc --no-offload-new-driver, compiled by -O3, linked by none: 38 instructions, 0 bytes of scratch
-fgpu-rdc --no-offload-new-driver, compiled by -O3, linked by -O0: 117 instructions, 8 bytes of scratch
-fgpu-rdc --no-offload-new-driver, compiled by -O3, linked by -O1: 47 instructions, 0 bytes of scratch
-fgpu-rdc --no-offload-new-driver, compiled by -O3, linked by -O3: 38 instructions, 0 bytes of scratch
-fgpu-rdc --no-offload-new-driver, compiled by -O0, linked by none: 200 instructions, 64 bytes of scratch
-fgpu-rdc --no-offload-new-driver, compiled by -O0, linked by -O0: 436 instructions, 64 bytes of scratch
-fgpu-rdc --no-offload-new-driver, compiled by -O0, linked by -O1: 200 instructions, 64 bytes of scratch
-fgpu-rdc --no-offload-new-driver, compiled by -O0, linked by -O3: 200 instructions, 64 bytes of scratch
-fgpu-rdc --offload-new-driver, compiled by -O3, linked by none: 38 instructions, 0 bytes of scratch
-fgpu-rdc --offload-new-driver, compiled by -O3, linked by -O0: 117 instructions, 8 bytes of scratch
-fgpu-rdc --offload-new-driver, compiled by -O3, linked by -O1: 47 instructions, 0 bytes of scratch
-fgpu-rdc --offload-new-driver, compiled by -O3, linked by -O3: 38 instructions, 0 bytes of scratch
-fgpu-rdc --offload-new-driver, compiled by -O0, linked by none: 200 instructions, 64 bytes of scratch
-fgpu-rdc --offload-new-driver, compiled by -O0, linked by -O0: 436 instructions, 64 bytes of scratch
-fgpu-rdc --offload-new-driver, compiled by -O0, linked by -O1: 200 instructions, 64 bytes of scratch
-fgpu-rdc --offload-new-driver, compiled by -O0, linked by -O3: 200 instructions, 64 bytes of scratch
END
hip_compiler
cat >"$work/kernel.hip" <<'END'
#ifdef WHOLE
#include "function.hip"
#else
extern __attribute__((device)) float f(float, int);
#endif
extern "C" __attribute__((global)) void one(float *p, int n) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += f(p[i], i);
    for (int i = 0; i < 16; ++i) p[i] = sum * p[i + 16];
}
END
echo '__attribute__((device)) float f(float x, int i) { return x * i + 1.0f; }' >"$work/function.hip"
compile() { # NAME OPTION…
    hip_source --offload-arch=gfx942 "${@:2}" -c "$work/$1.hip" -o "$work/$1.o"
}
link() { # LINK-OPTION COMPILE-OPTION… FILE…: links, and prints what the kernel has
    local option=()
    [ "$1" = none ] || option=("$1")
    hip --hip-link "${@:2}" --offload-arch=gfx942 "${option[@]}" -shared -o "$work/libx.so"
    first_code "$work/libx.so"
    echo "$("$llvm/llvm-objdump" -d "$work/code" | grep -c '//') instructions, $(
        "$llvm/llvm-readelf" --notes "$work/code" | sed -n 's/.*private_segment_fixed_size: *//p'
    ) bytes of scratch"
}
{
    compile kernel -O3 -DWHOLE
    for option in none -O0; do echo "compiled by -O3, linked by $option: $(link $option "$work/kernel.o")"; done
    for driver in --no-offload-new-driver --offload-new-driver; do
        for level in -O3 -O0; do
            for name in kernel function; do compile $name $level -fgpu-rdc $driver; done
            for option in none -O0 -O1 -O3; do
                echo "-fgpu-rdc $driver, compiled by $level, linked by $option: $(link $option -fgpu-rdc $driver "$work/kernel.o" "$work/function.o")"
            done
        done
    done
} >"$work/out"
compare "$work/out"
