#!/usr/bin/env bash
# clang 22.1.8 with lld 22.1.8 (Debian 12): a shared library of two objects of HIP with device code to be linked (-fgpu-rdc), by names of several kinds.
# Expected: an object or a static library that the link of the host takes gives its device code too, or the link fails.
# Seen: the driver looks for device code in the files of its own command line. What is named by -Wl or -Xlinker reaches the linker of the host alone: an object by
# -Wl next to another one, and a static library by -Xlinker, link with exit code 0, and their kernels are registered and have no code. A static
# library by -Wl is an error that names a hidden symbol, and an object that `ld -r` made of two is one of lld. The new driver loses nothing.
. "$(dirname "$0")/common.sh"
recorded <<'END'
one.o two.o:
    --no-offload-new-driver: exit code 0, gfx942 with one and two
    --offload-new-driver: exit code 0, gfx942 with one and two
-Wl,one.o two.o:
    --no-offload-new-driver: exit code 0, gfx942 with two
    --offload-new-driver: exit code 0, gfx942 with one and two
libx.a:
    --no-offload-new-driver: exit code 0, gfx942 with one and two
    --offload-new-driver: exit code 0, gfx942 with one and two
-Xlinker libx.a:
    --no-offload-new-driver: exit code 0, gfx942 with no kernel
    --offload-new-driver: exit code 0, gfx942 with one and two
-Wl,libx.a:
    --no-offload-new-driver: exit code 1, undefined hidden symbol: __hip_gpubin_handle
    --offload-new-driver: exit code 0, gfx942 with one and two
both.o of ld -r:
    --no-offload-new-driver: exit code 1, Invalid encoding
    --offload-new-driver: exit code 0, gfx942 with one and two
END
hip_compiler
old=--no-offload-new-driver new=--offload-new-driver
link() { # NAME ARGUMENT…: links a library by both drivers, and says which kernels have code
    echo "$1:"
    for driver in $old $new; do
        rm -f "$work/library.so"
        code=0
        (cd "$work/$driver" && hip --hip-link --offload-arch=gfx942 -fgpu-rdc "$driver" -shared "${@:2}" -o "$work/library.so") 2>"$work/errors" || code=$?
        [ $code = 0 ] && kernels=$(hip_code "$work/library.so") || kernels=$(sed -nE '/error:/{s/.*error: //;s/_[0-9a-f]{16}$//;s/\/.*: //;p;q}' "$work/errors")
        echo "    $driver: exit code $code, $kernels"
    done
}
for driver in $old $new; do
    mkdir "$work/$driver"
    for kernel in one two; do
        hip_compile "$driver/$kernel.o" "$kernel" --offload-arch=gfx942 -fgpu-rdc "$driver" -O2
    done
    (
        cd "$work/$driver"
        hip -x c -c /dev/null -o empty.o
        "$llvm/llvm-ar" rc libx.a one.o two.o
        "$llvm/ld.lld" -r one.o two.o -o both.o
    )
done
{
    link "one.o two.o" one.o two.o
    link "-Wl,one.o two.o" -Wl,one.o two.o
    link "libx.a" empty.o -Wl,--whole-archive libx.a
    link "-Xlinker libx.a" empty.o -Xlinker --whole-archive -Xlinker libx.a
    link "-Wl,libx.a" empty.o -Wl,--whole-archive,libx.a
    link "both.o of ld -r" both.o
} >"$work/out"
compare "$work/out"
