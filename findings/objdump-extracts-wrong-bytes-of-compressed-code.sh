#!/usr/bin/env bash
# llvm-objdump 22.1.8 (Debian 12), on bitsandbytes 0.50.2 and vapoursynth-bm3dhip 2.17.5 (PyPI), and on a library by clang 22.1.8.
# Expected: llvm-objdump --offloading, which knows compressed bundles, writes the code objects in them, or says that it cannot.
# Seen: it decompresses a bundle, and takes the offsets of its entries for places in the library. So it writes files with the right names and sizes
# and with other bytes of the library, one of them the compressed bundle itself, without a message and with exit code 0. Of a bundle that
# is not compressed, which lies in the library as it is, the files are right.
. "$(dirname "$0")/common.sh"
recorded <<'END'
bm3dhip: exit code 0, 0 messages; raw, 20 code objects: 20 files of their sizes, 20 of their contents
bitsandbytes: exit code 0, 0 messages; compressed, 25 code objects: 25 files of their sizes, 0 of their contents
clang: exit code 0, 0 messages; compressed, 2 code objects: 2 files of their sizes, 0 of their contents
END
venv "$work/venv" zstandard==0.25.0
hip_compiler
amd_runtime
wheel "$work/bitsandbytes" --platform manylinux_2_24_x86_64 bitsandbytes==0.50.2
hip -x hip -nogpuinc -fno-exceptions -DKERNEL=one --offload-arch=gfx942 --offload-arch=gfx1100 --offload-compress -c "$PYTHONPATH/kernel.hip" -o "$work/kernel.o"
hip -shared "$work/kernel.o" -o "$work/libx.so"
show() { # NAME LIBRARY: extracts from a copy, and compares the files with the code objects
    local code=0
    mkdir -p "$work/out-$1"
    cp "$2" "$work/out-$1/libx.so"
    (cd "$work/out-$1" && "$llvm/llvm-objdump" --offloading libx.so >"$work/message" 2>"$work/errors") || code=$?
    echo "$1: exit code $code, $(wc -l <"$work/errors") messages; $(cd "$work/out-$1" && "$work/venv/bin/python" - libx.so <<'END'
import sys

import comgr

library = open(sys.argv[1], "rb").read()
compressed = list(comgr.decompressed(library))
same = size = 0
first = next(comgr.bundles(compressed[0] if compressed else library))
codes = {name: code for name, code in first if not name.startswith("host-")}
for name, code in codes.items():
    with open(f"{sys.argv[1]}.0.{name}", "rb") as file:
        content = file.read()
    same += content == code
    size += len(content) == len(code)
print(f"{'compressed' if compressed else 'raw'}, {len(codes)} code objects: {size} files of their sizes, {same} of their contents")
END
    )"
}
{
    show bm3dhip "$fat"
    show bitsandbytes "$work/bitsandbytes/bitsandbytes/libbitsandbytes_rocm715.so"
    show clang "$work/libx.so"
} >"$work/out"
compare "$work/out"
