#!/usr/bin/env bash
# clang 22.1.8 (Debian 12).
# Expected: a kernel that calls a virtual function has the registers of those functions that can be meant. What other kernels of the code object call
# does not matter to it.
# Seen: it has the registers of the largest function in the code object, whether or not a pointer to it exists: here one that only another kernel
# calls, by its name. So a function that is added for one kernel takes waves from another: 120 registers of gfx942 leave room for half of
# the waves. With -fgpu-rdc, which compiles the code of a link in parts, the kernel has what its own part needs.
. "$(dirname "$0")/common.sh"
recorded <<'END'
without the large function, gfx942: calls 41, plain 2
without the large function, gfx1100: calls 41, plain 2
with it, gfx942: calls 120, other 120, plain 2
with it, gfx1100: calls 148, other 148, plain 2
with it, -fgpu-rdc, gfx942: calls 41, other 120, plain 2
with it, -fgpu-rdc, gfx1100: calls 41, other 148, plain 2
END
hip_compiler
cat >"$work/shape.hip" <<'END'
struct shape {
    __attribute__((device)) virtual float area(float side);
};
struct square : shape {
    __attribute__((device)) float area(float side) override;
};
__attribute__((device)) float shape::area(float side) { return side; }
__attribute__((device)) float square::area(float side) { return side * side; }
extern "C" __attribute__((global)) void calls(shape *one, float *place) { *place = one->area(*place); }
extern "C" __attribute__((global)) void plain(float *place) { *place = *place * 2; }
__attribute__((device)) square instance;
END
cat "$work/shape.hip" - >"$work/both.hip" <<'END'
static __attribute__((device, noinline)) void large(float *p) {
    float values[96];
#pragma clang loop unroll(full)
    for (int i = 0; i < 96; ++i) values[i] = p[3 * i];
    __builtin_amdgcn_s_barrier();
#pragma clang loop unroll(full)
    for (int i = 0; i < 96; ++i) p[5 * i] = values[i] * values[(7 * i) % 96];
}
extern "C" __attribute__((global)) void other(float *p) { large(p); }
END
registers() { # LIBRARY: the registers of its kernels
    first_code "$1"
    kernel_metadata "$work/code" vgpr_count | paste -sd, | sed 's/,/, /g'
}
show() { # NAME SOURCE OPTION…: the registers of each kernel
    local gpu
    for gpu in gfx942 gfx1100; do
        hip_source -fno-rtti -O3 "${@:3}" --offload-arch=$gpu -c "$work/$2.hip" -o "$work/x.o"
        hip "${@:3}" --hip-link --offload-arch=$gpu -shared "$work/x.o" -o "$work/libx.so"
        echo "$1, $gpu: $(registers "$work/libx.so")"
    done
}
{
    show "without the large function" shape
    show "with it" both
    show "with it, -fgpu-rdc" both -fgpu-rdc
} >"$work/out"
compare "$work/out"
