#!/usr/bin/env bash
# gcc 12.2.0 with gcc-12-offload-amdgcn (Debian 12), which assembles and links by LLVM 13.
# Expected: OpenMP for AMD's GPUs by GCC has to be asked for, or is for GPUs of its time; the code lies in constant data.
# Seen: with the package installed, each "gcc -fopenmp" that finds a target region compiles it for gfx803 (Fiji), which no current ROCm serves,
# with exit code 0. Such a loop then runs on the host. gfx908 can be named and does not link, since a part of GCC's own library is for another
# GPU; gfx90a and later ones are unknown. The code is a bare code object in writable data, of 1.1 MB for a loop, since it
# has GCC's library, and those for gfx900 and gfx906 are for XNACK off only.
. "$(dirname "$0")/common.sh"
recorded <<'END'
gcc -fopenmp: exit code 0; gfx803, version 3, in .data, writable, 1.1 MB
gcc -fopenmp -foffload-options=-march=fiji: exit code 0; gfx803, version 3, in .data, writable, 1.1 MB
gcc -fopenmp -foffload-options=-march=gfx900: exit code 0; gfx900:xnack-, version 4, in .data, writable, 1.1 MB
gcc -fopenmp -foffload-options=-march=gfx906: exit code 0; gfx906:xnack-, version 4, in .data, writable, 1.1 MB
gcc -fopenmp -foffload-options=-march=gfx908: exit code 1; error: incompatible mach: libgomp.a(parallel.o)
gcc -fopenmp -foffload-options=-march=gfx90a: exit code 1; error: unrecognized argument in option ‘-march=gfx90a’
gcc -fopenmp -foffload-options=-march=gfx1100: exit code 1; error: unrecognized argument in option ‘-march=gfx1100’
END
debs gcc-12=12.2.0-14+deb12u1 gcc-12-offload-amdgcn=12.2.0-14+deb12u1 cpp-12=12.2.0-14+deb12u1 libgcc-12-dev=12.2.0-14+deb12u1 \
    libgomp-plugin-amdgcn1=12.2.0-14+deb12u1 libgomp1=12.2.0-14+deb12u1 libcc1-0=12.2.0-14+deb12u1 libgmp10=2:6.2.1+dfsg1-1.1 \
    libisl23=0.25-1.1 libmpc3=1.3.1-1 libmpfr6=4.2.0-1 libzstd1=1.5.4+dfsg2-5 amdgcn-tools=13+b1 llvm-13=1:13.0.1-11+b2 \
    lld-13=1:13.0.1-11+b2 libllvm13=1:13.0.1-11+b2 binutils-x86-64-linux-gnu=2.40-2 libbinutils=2.40-2 libctf0=2.40-2 \
    libctf-nobfd0=2.40-2 libgprofng0=2.40-2 libjansson4=2.14-2
mkdir "$work/tools"
for name in as ld; do ln -s "$work/root/usr/bin/x86_64-linux-gnu-$name" "$work/tools/$name"; done
cat >"$work/loop.c" <<'END'
void twice(int *x, int n) {
#pragma omp target teams distribute parallel for map(tofrom : x[:n])
    for (int i = 0; i < n; ++i) x[i] *= 2;
}
END
show() { # OPTION…
    local code=0 result
    rm -f "$work/libx.so"
    PATH=$work/tools TMPDIR=$work "$work/root/usr/bin/gcc-12" -O2 -fopenmp -shared -fPIC -nostdlib "$@" "$work/loop.c" -o "$work/libx.so" \
        2>"$work/message" || code=$?
    if [ $code = 0 ]; then
        result=$(python3 - "$work/libx.so" <<'END'
import struct
import sys

# Of llvm/BinaryFormat/ELF.h: EM_AMDGPU, SHF_WRITE, EF_AMDGPU_MACH_AMDGCN_… and EF_AMDGPU_FEATURE_XNACK_OFF_V4.
AMDGPU, WRITE, XNACK_OFF = 224, 1, 0x200
GPUS = {0x2A: "gfx803", 0x2C: "gfx900", 0x2F: "gfx906", 0x30: "gfx908"}
library = open(sys.argv[1], "rb").read()
start, count, names = struct.unpack_from("<Q", library, 40)[0], *struct.unpack_from("<HH", library, 60)
sections = [struct.unpack_from("<IIQQQQIIQQ", library, start + 64 * index) for index in range(count)]
at = library.find(b"\x7fELF", 1)
while at > 0:
    if struct.unpack_from("<H", library, at + 18)[0] == AMDGPU:
        section = next(section for section in sections if section[4] <= at < section[4] + section[5])
        name = library[sections[names][4] + section[0] :].partition(b"\0")[0].decode()
        flags = struct.unpack_from("<I", library, at + 48)[0]
        mode = ":xnack-" * (flags & 0x300 == XNACK_OFF)
        version = library[at + 8] + 2
        print(f"{GPUS[flags & 0xFF]}{mode}, version {version}, in {name}{', writable' * (section[2] & WRITE)}, {section[5] / 1e6:.1f} MB")
    at = library.find(b"\x7fELF", at + 1)
END
        )
    else
        result=$(grep -om1 'error: .*' "$work/message" | sed "s|$work.*/||")
    fi
    echo "gcc -fopenmp${*:+ $*}: exit code $code; $result"
}
{
    show
    for gpu in fiji gfx900 gfx906 gfx908 gfx90a gfx1100; do show -foffload-options=-march=$gpu; done
} >"$work/out"
compare "$work/out"
