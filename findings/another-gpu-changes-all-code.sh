#!/usr/bin/env bash
# bitsandbytes 0.50.1 and 0.50.2 (PyPI), and clang 22.1.8 (Debian 12).
# Expected: a release that adds a GPU has the same code as before for the GPUs that were there, if nothing else has changed in its kernels. So
# caches, deltas, and stores that find equal files have nothing to do for them.
# Seen: clang names a symbol in each code object by a hash of all options, those of the other GPUs too. So a further --offload-arch, or another
# order, gives each GPU other bytes. No code object of the two releases for ROCm 7.1 is the same, though all have their sizes and
# instructions: what differs is this name and the order of symbols. The compressed libraries have little in common, and a delta of
# one against the other is most of a library. With -cuid=NAME it is not so.
. "$(dirname "$0")/common.sh"
recorded <<'END'
bitsandbytes: 13 and 15 GPUs; 26 code objects for the same GPUs: 26 of the same size, 26 with the same instructions, 0 the same
library of 0.50.2: 1164 kB, delta to that of 0.50.1: 867 kB
clang --offload-arch=gfx942 -fuse-cuid=hash: code for gfx942 the same
clang --offload-arch=gfx942 --offload-arch=gfx1100 -fuse-cuid=hash: code for gfx942 other
clang --offload-arch=gfx1100 --offload-arch=gfx942 -fuse-cuid=hash: code for gfx942 other
clang --offload-arch=gfx942 -cuid=one: code for gfx942 the same
clang --offload-arch=gfx942 --offload-arch=gfx1100 -cuid=one: code for gfx942 the same
clang --offload-arch=gfx1100 --offload-arch=gfx942 -cuid=one: code for gfx942 the same
END
hip_compiler zstd=1.5.4+dfsg2-5
venv "$work/venv" zstandard==0.25.0
for version in 0.50.1 0.50.2; do wheel "$work/$version" --platform manylinux_2_24_x86_64 bitsandbytes==$version; done
name=bitsandbytes/libbitsandbytes_rocm71.so
cat >"$work/compare.py" <<'END'
import subprocess
import sys

import comgr


def codes(path):
    bundles = [next(comgr.bundles(raw)) for raw in comgr.decompressed(open(path, "rb").read())]
    return [{name: code for name, code in bundle if not name.startswith("host-")} for bundle in bundles]


def instructions(code):
    open(sys.argv[4], "wb").write(code)
    text = subprocess.run([sys.argv[3], "-d", sys.argv[4]], capture_output=True, check=True).stdout
    return text.partition(b"section .text")[2]


first, second = codes(sys.argv[1]), codes(sys.argv[2])
pairs = [(code, other[name]) for codes, other in zip(first, second) for name, code in codes.items()]
print(f"{len(first[0])} and {len(second[0])} GPUs; {len(pairs)} code objects for the same GPUs:", end=" ")
print(sum(len(code) == len(other) for code, other in pairs), "of the same size,", end=" ")
print(sum(instructions(code) == instructions(other) for code, other in pairs), "with the same instructions,", end=" ")
print(sum(code == other for code, other in pairs), "the same")
END
show() { # OPTION…: compares the code for gfx942 with that which was compiled for it alone
    local code
    hip_compile kernel.o one -O2 "$@"
    code=$(python3 - "$work/kernel.o" <<'END'
import hashlib
import sys

import comgr

code = next(code for name, code in next(comgr.bundles(open(sys.argv[1], "rb").read())) if name.endswith("gfx942"))
print(hashlib.sha256(code).hexdigest())
END
    )
    [ $# -gt 2 ] || alone=$code
    echo "clang $*: code for gfx942 $(if [ "$code" = "$alone" ]; then echo the same; else echo other; fi)"
}
{
    echo "bitsandbytes: $("$work/venv/bin/python" "$work/compare.py" "$work"/0.50.{1,2}/$name "$llvm/llvm-objdump" "$work/code")"
    "$work/root/usr/bin/zstd" -q -19 --single-thread --patch-from="$work/0.50.1/$name" "$work/0.50.2/$name" -o "$work/delta"
    echo "library of 0.50.2: $(($(stat -c %s "$work/0.50.2/$name") / 1000)) kB, delta to that of 0.50.1: $(($(stat -c %s "$work/delta") / 1000)) kB"
    one=--offload-arch=gfx942 two=--offload-arch=gfx1100
    show $one -fuse-cuid=hash
    show $one $two -fuse-cuid=hash
    show $two $one -fuse-cuid=hash
    show $one -cuid=one
    show $one $two -cuid=one
    show $two $one -cuid=one
} >"$work/out"
compare "$work/out"
