#!/usr/bin/env bash
# llvm-objcopy of LLVM 22.1.8 and GNU strip of binutils 2.40 (Debian 12), on the fat library of vapoursynth-bm3dhip 2.17.5 (PyPI).
# Expected: they refuse to remove .hip_fatbin, which is allocated and which a relocation points to; or the file gets smaller by it.
# Seen: both remove the section, with exit code 0, and overwrite the code with zeros. The file keeps its size, since the segment keeps its
# place. The wrapper still has the magic of a fat binary, and now points to zeros. So the device code is lost, and nothing is gained.
. "$(dirname "$0")/common.sh"
recorded <<'END'
llvm-objcopy: exit code 0, .hip_fatbin gone, file smaller by less than 1 %, bundles 1 -> 0, wrappers 1 -> 1
strip: exit code 0, .hip_fatbin gone, file smaller by less than 1 %, bundles 1 -> 0, wrappers 1 -> 1
END
amd_runtime
debs llvm-22=1:22.1.8-1~deb12u1 libllvm22=1:22.1.8-1~deb12u1 binutils-x86-64-linux-gnu=2.40-2 libbinutils=2.40-2 \
    libctf0=2.40-2 libctf-nobfd0=2.40-2 libgprofng0=2.40-2 libjansson4=2.14-2
count() { # FILE: bundles and wrappers
    python3 - "$1" <<'END'
import sys

content = open(sys.argv[1], "rb").read()
print(content.count(b"__CLANG_OFFLOAD_BUNDLE__"), content.count(b"FPIH\1\0\0\0"))
END
}
show() { # NAME COMMAND…
    local name=$1 code=0 before after size
    shift
    "$@" 2>"$work/messages" || code=$?
    read -ra before < <(count "$fat")
    read -ra after < <(count "$work/$name.so")
    size=$(($(stat -c %s "$fat") - $(stat -c %s "$work/$name.so")))
    local section=gone change="$size bytes"
    "$work/root/usr/bin/x86_64-linux-gnu-readelf" -SW "$work/$name.so" >"$work/sections"
    if grep -q ' \.hip_fatbin ' "$work/sections"; then section=there; fi
    if [ $((size * 100)) -lt "$(stat -c %s "$fat")" ]; then change="less than 1 %"; fi
    echo "$name: exit code $code, .hip_fatbin $section, file smaller by $change, bundles ${before[0]} -> ${after[0]}, wrappers ${before[1]} -> ${after[1]}"
}
{
    show llvm-objcopy "$work/root/usr/lib/llvm-22/bin/llvm-objcopy" --remove-section=.hip_fatbin "$fat" "$work/llvm-objcopy.so"
    show strip "$work/root/usr/bin/x86_64-linux-gnu-strip" --remove-section=.hip_fatbin -o "$work/strip.so" "$fat"
} >"$work/out"
compare "$work/out"
