#!/usr/bin/env bash
# clang 22.1.8 (Debian 12), for HIP: functions of _Float16, which HIP's __half is, in a kernel and on the host (x86-64).
# Expected: a function that is __host__ __device__ gives the same number in a test on the host and in the kernel, as functions of float do.
# Seen: on the host, an expression of halves is computed in floats and rounded once at its end (excess precision); in a kernel each operation
# is rounded. 300 * 300 / 300 is 300 on the host and infinity in the kernel, and (2048 + 1) - 2048 is 1 and 0. An intermediate variable does it
# too, as it is rounded on both sides: the test then fails or passes by how the source is split into statements.
. "$(dirname "$0")/common.sh"
recorded <<'END'
quotient(300, 300, 300): host -O0 300, host -O2 300, kernel gfx942 inf, kernel gfx1100 inf
quotient_by_steps(300, 300, 300): host -O0 inf, host -O2 inf, kernel gfx942 inf, kernel gfx1100 inf
rest(2048, 1, 2048): host -O0 1, host -O2 1, kernel gfx942 0, kernel gfx1100 0
mean(60000, 40000): host -O0 49984, host -O2 49984, kernel gfx942 inf, kernel gfx1100 inf
END
command -v g++ >/dev/null || unavailable "no g++"
hip_compiler
cat >"$work/halves.hip" <<'END'
#define BOTH __attribute__((host)) __attribute__((device)) inline
BOTH _Float16 quotient(_Float16 a, _Float16 b, _Float16 c) { return a * b / c; }
BOTH _Float16 quotient_by_steps(_Float16 a, _Float16 b, _Float16 c) {
    _Float16 product = a * b;
    return product / c;
}
BOTH _Float16 rest(_Float16 a, _Float16 b, _Float16 c) { return a + b - c; }
BOTH _Float16 mean(_Float16 a, _Float16 b) { return (a + b) / 2; }
#ifdef __HIP_DEVICE_COMPILE__
#define SHOW(name, ...) extern "C" __attribute__((global)) void name##_kernel(_Float16 *to) { *to = name(__VA_ARGS__); }
#else
extern "C" int printf(const char *, ...);
#define SHOW(name, ...) printf(#name "(" #__VA_ARGS__ "): %g\n", (double)name(__VA_ARGS__));
int main() {
#endif
    SHOW(quotient, 300, 300, 300)
    SHOW(quotient_by_steps, 300, 300, 300)
    SHOW(rest, 2048, 1, 2048)
    SHOW(mean, 60000, 40000)
#ifndef __HIP_DEVICE_COMPILE__
}
#endif
END
for level in -O0 -O2; do
    hip -x hip -nogpuinc --offload-host-only $level -c "$work/halves.hip" -o "$work/halves.o"
    g++ -no-pie "$work/halves.o" -o "$work/host"
    env -u LD_LIBRARY_PATH "$work/host" | sed "s/: /: host $level /"
done >"$work/out"
# The optimizer computes what a kernel stores, and rounds as a GPU does.
for gpu in gfx942 gfx1100; do
    hip -x hip -nogpuinc --offload-arch=$gpu --offload-device-only -O2 -S -emit-llvm "$work/halves.hip" -o - >"$work/kernels"
    python3 - "$work/kernels" $gpu <<'END'
import re
import struct
import sys

text = open(sys.argv[1]).read()
for name, bits in re.findall(r"@(\w+)_kernel\(.*?store half 0xH([0-9A-F]{4})", text, re.S):
    print(f"{name}: kernel {sys.argv[2]} {struct.unpack('>e', bytes.fromhex(bits))[0]:g}")
END
done >>"$work/out"
python3 - "$work/out" >"$work/table" <<'END'
import sys

rows = {}
for line in open(sys.argv[1]):
    name, seen = line.rstrip().split(": ")
    rows.setdefault(name.partition("(")[0], [name]).append(seen)
for name, *seen in rows.values():
    print(f"{name}: {', '.join(seen)}")
END
compare "$work/table"
