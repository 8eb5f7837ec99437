#!/usr/bin/env bash
# LLVM 22.1.8, GNU strip of binutils 2.40 and eu-strip of elfutils 0.188 (Debian 12).
# Expected: strip leaves the device code of an object file alone, or the link of an object without it fails.
# Seen: objects for linked device code (-fgpu-rdc --offload-new-driver) have it in .llvm.offloading, which is not allocated. GNU strip keeps
# that section; llvm-strip and eu-strip remove it. The objects still link, with exit code 0, and register all kernels at the host. The
# library lacks those of stripped objects. With --strip-unneeded or -g, llvm-strip and eu-strip keep the section.
. "$(dirname "$0")/common.sh"
recorded <<'END'
not stripped: link ends with 0; gfx942 with one and two
strip: link ends with 0; gfx942 with one and two
llvm-strip: link ends with 0; gfx942 with two
llvm-strip --strip-unneeded: link ends with 0; gfx942 with one and two
eu-strip: link ends with 0; gfx942 with two
eu-strip -g: link ends with 0; gfx942 with one and two
END
hip_compiler binutils-x86-64-linux-gnu=2.40-2 libbinutils=2.40-2 elfutils=0.188-2.1 libdw1=0.188-2.1 libelf1=0.188-2.1
for kernel in one two; do hip_compile $kernel.o $kernel --offload-arch=gfx942 -fgpu-rdc --offload-new-driver; done
show() { # NAME COMMAND…
    cp "$work/one.o" "$work/stripped.o"
    [ $# = 1 ] || "${@:2}" "$work/stripped.o"
    local code=0
    hip --hip-link -fgpu-rdc --offload-new-driver -shared "$work/stripped.o" "$work/two.o" -o "$work/libx.so" || code=$?
    echo "$1: link ends with $code; $(hip_code "$work/libx.so")"
}
{
    show "not stripped"
    show "strip" "$work/root/usr/bin/x86_64-linux-gnu-strip"
    show "llvm-strip" "$llvm/llvm-strip"
    show "llvm-strip --strip-unneeded" "$llvm/llvm-strip" --strip-unneeded
    show "eu-strip" "$work/root/usr/bin/eu-strip"
    show "eu-strip -g" "$work/root/usr/bin/eu-strip" -g
} >"$work/out"
compare "$work/out"
