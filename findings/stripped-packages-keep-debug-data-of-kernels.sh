#!/usr/bin/env bash
# librocsparse0 5.3.0+dfsg-2 and librocrand1 5.3.3-4 (Debian 12), clang 22.1.8 and binutils 2.40 (Debian 12).
# Expected: packages of Debian, which are built with -g and stripped, hold no debug data; the packages of debug symbols have it.
# Seen: strip does not look into fat binaries. Nearly two thirds of their code objects are debug data of kernels: 826 MB of librocsparse, which is
# two thirds of what the package takes on the disk, in a file that "file" calls stripped. From a linked library the data cannot be
# taken out without writing the fat binary again. Kernels that are compiled without (-Xarch_device -g0) have none.
. "$(dirname "$0")/common.sh"
recorded <<'END'
librocsparse.so.0.1: 0 sections of debug data; 777 code objects with 1294.6 MB, of which 826.3 MB are debug data
librocrand.so.1.1: 0 sections of debug data; 7 code objects with 12.3 MB, of which 7.8 MB are debug data
clang -g, strip: 8 sections of debug data in the code object
clang -g -Xarch_device -g0, strip: 0 sections of debug data in the code object
END
hip_compiler binutils-x86-64-linux-gnu=2.40-2 libbinutils=2.40-2 libctf0=2.40-2 libctf-nobfd0=2.40-2 libgprofng0=2.40-2 \
    libjansson4=2.14-2 librocsparse0=5.3.0+dfsg-2 librocrand1=5.3.3-4
show() { # NAME LIBRARY: its own sections of debug data, and those of its code objects
    "$work/root/usr/bin/x86_64-linux-gnu-readelf" -SW "$2" >"$work/sections"
    echo "$1: $(sed -n '/ \.debug_/p' "$work/sections" | wc -l) sections of debug data; $(python3 - "$2" <<'END'
import struct
import sys

import comgr


def debug_data(code):
    start, count, names = struct.unpack_from("<Q", code, 40)[0], *struct.unpack_from("<HH", code, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, start + 64 * index) for index in range(count)]
    return sum(section[5] for section in sections if code.startswith(b".debug_", sections[names][4] + section[0]))


codes = [code for bundle in comgr.bundles(open(sys.argv[1], "rb").read()) for name, code in bundle if not name.startswith("host-")]
sizes = f"{sum(map(len, codes)) / 1e6:.1f} MB, of which {sum(map(debug_data, codes)) / 1e6:.1f} MB are debug data"
print(f"{len(codes)} code objects with {sizes}")
END
    )"
}
build() { # OPTION…: a library with debug data, stripped
    hip -x hip -nogpuinc -fno-exceptions -DKERNEL=one --offload-arch=gfx942 -g "$@" -c "$PYTHONPATH/kernel.hip" -o "$work/kernel.o"
    hip -shared "$work/kernel.o" -o "$work/libx.so"
    "$work/root/usr/bin/x86_64-linux-gnu-strip" "$work/libx.so"
    first_code "$work/libx.so"
    echo "clang -g${*:+ $*}, strip: $("$llvm/llvm-readelf" -SW "$work/code" | sed -n '/ \.debug_/p' | wc -l) sections of debug data in the code object"
}
{
    for name in librocsparse.so.0.1 librocrand.so.1.1; do show $name "$work/root/usr/lib/x86_64-linux-gnu/$name"; done
    build
    build -Xarch_device -g0
} >"$work/out"
compare "$work/out"
