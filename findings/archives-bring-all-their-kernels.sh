#!/usr/bin/env bash
# clang, lld and llvm-ar 22.1.8 (Debian 12).
# Expected: a linker takes from a static library the objects that are needed, and their device code with them.
# Seen: it does so without -fgpu-rdc. With it, all kernels of the static library get into the code objects, also of objects that the host does not take,
# and if the host takes none at all: it has no stub for such a kernel and does not register it. So each library that uses one function of a
# static library ships, for each GPU, all kernels of it, which nothing can launch by their stubs. Both drivers do so, and --gc-sections
# changes nothing.
. "$(dirname "$0")/common.sh"
recorded <<'END'
without -fgpu-rdc: gfx942 with one; stubs of one
-fgpu-rdc --no-offload-new-driver: gfx942 with one and two; stubs of one
-fgpu-rdc --no-offload-new-driver -Wl,--gc-sections: gfx942 with one and two; stubs of one
-fgpu-rdc --offload-new-driver: gfx942 with one and two; stubs of one
-fgpu-rdc --offload-new-driver -Wl,--gc-sections: gfx942 with one and two; stubs of one
END
hip_compiler
show() { # OPTION…: one is linked with a static library that has two, which nothing refers to
    local kernel
    for kernel in one two; do hip_compile $kernel.o $kernel --offload-arch=gfx942 -ffunction-sections -fdata-sections "$@"; done
    rm -f "$work/libtwo.a"
    "$llvm/llvm-ar" rcs "$work/libtwo.a" "$work/two.o"
    hip --hip-link "$@" --offload-arch=gfx942 -shared "$work/one.o" -L"$work" -ltwo -o "$work/libx.so"
    echo "${*:-without -fgpu-rdc}: $(hip_code "$work/libx.so"); stubs of" \
        "$("$llvm/llvm-nm" "$work/libx.so" | sed -n 's/.* __device_stub__//p' | paste -sd ' ')"
}
{
    show
    for driver in --no-offload-new-driver --offload-new-driver; do
        show -fgpu-rdc $driver
        show -fgpu-rdc $driver -Wl,--gc-sections
    done
} >"$work/out"
compare "$work/out"
