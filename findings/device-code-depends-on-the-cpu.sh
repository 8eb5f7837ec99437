#!/usr/bin/env bash
# librocrand1 5.3.3-4 (Debian 12) for amd64 and arm64, and clang 22.1.8 (Debian 12).
# Expected: code for a GPU depends on the GPU. So packages of one release for two CPUs hold the same code objects, which can be shared.
# Seen: no code object of librocrand is the same, and not only by a hash or a path: the instructions differ. clang gives arrays in device code the
# alignment that they have on the host, 16 on x86-64 and that of their elements on others, and kernels built for arm64 read in halves what those
# built for amd64 read at once. Nor has a plain char a sign in kernels that are built for arm64. Both are so that host and device agree.
. "$(dirname "$0")/common.sh"
recorded <<'END'
librocrand1: 0 of 7 code objects are the same; for gfx1030, amd64 has 80 kernels and arm64 has 80, of which 3 have other sizes
clang for x86_64-linux-gnu: align 16; ds_read_b128; a char is below 0
clang for aarch64-linux-gnu: align 4; ds_read2_b32 ds_read2_b32; a char is not below 0
clang for powerpc64le-linux-gnu: align 4; ds_read2_b32 ds_read2_b32; a char is not below 0
END
hip_compiler librocrand1=5.3.3-4
mv "$work/root/usr/lib/x86_64-linux-gnu/librocrand.so.1.1" "$work/amd64.so"
foreign=arm64 debs librocrand1:arm64=5.3.3-4
mv "$work/root/usr/lib/aarch64-linux-gnu/librocrand.so.1.1" "$work/arm64.so"
grep -v KERNEL "$PYTHONPATH/kernel.hip" >"$work/base.h"
cat >"$work/kernel.hip" <<'END'
__attribute__((shared)) unsigned a[64], b[68];
extern "C" __attribute__((global)) void array(unsigned *p, unsigned n) {
    unsigned *c = n & 1 ? a : b;
    c[p[n]] = n;
    __builtin_amdgcn_s_barrier();
    c += 4 * p[n + 1];
    for (int i = 0; i < 4; ++i) p[i] = c[i];
}
extern "C" __attribute__((global)) void sign(int *p) { *p = (char)255 < 0; }
END
kernels() { # AMD64 ARM64: compares the code objects of two libraries, and the kernels in those for gfx1030
    python3 - "$@" <<'END'
import struct
import sys

import comgr


def sizes(code):
    """The sizes of the functions of a code object by their names."""
    start, count = struct.unpack_from("<Q", code, 40)[0], struct.unpack_from("<H", code, 60)[0]
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, start + 64 * index) for index in range(count)]
    table = next(section for section in sections if section[1] == 11)  # SHT_DYNSYM
    found = {}
    for place in range(table[4], table[4] + table[5], 24):
        at, _, _, _, _, size = struct.unpack_from("<IBBHQQ", code, place)
        at += sections[table[6]][4]
        found[code[at : code.index(b"\0", at)]] = size
    return {name: size for name, size in found.items() if name + b".kd" in found}


amd64, arm64 = ({name: code for name, code in next(comgr.bundles(open(path, "rb").read())) if code} for path in sys.argv[1:])
same = sum(code == arm64[name] for name, code in amd64.items())
first, second = (next(sizes(code) for name, code in codes.items() if "gfx1030" in name) for codes in (amd64, arm64))
other = sum(size != second[name] for name, size in first.items())
kernels = f"for gfx1030, amd64 has {len(first)} kernels and arm64 has {len(second)}, of which {other} have other sizes"
print(f"librocrand1: {same} of {len(amd64)} code objects are the same; {kernels}")
END
}
{
    kernels "$work/amd64.so" "$work/arm64.so"
    for host in x86_64 aarch64 powerpc64le; do
        options=(--target=$host-linux-gnu -x hip -nogpuinc -include "$work/base.h" --offload-arch=gfx1030 -O3 --cuda-device-only --no-gpu-bundle-output)
        hip "${options[@]}" -Xclang -disable-llvm-passes -S -emit-llvm "$work/kernel.hip" -o "$work/kernel.ll"
        hip "${options[@]}" -S "$work/kernel.hip" -o "$work/kernel.s"
        sign="is not"
        ! grep -q 'v_mov_b32_e32 v1, 1$' "$work/kernel.s" || sign=is
        echo "clang for $host-linux-gnu: $(grep -m1 '^@a = ' "$work/kernel.ll" | grep -o 'align .*'); $(
            grep -o 'ds_read[a-z0-9_]*' "$work/kernel.s" | paste -sd ' '
        ); a char $sign below 0"
    done
} >"$work/out"
compare "$work/out"
