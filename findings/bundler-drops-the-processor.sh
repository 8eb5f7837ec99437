#!/usr/bin/env bash
# clang-offload-bundler of LLVM 19.1.7 and 22.1.8 (Debian 12).
# Expected: a target with one dash before the processor, as build scripts of ROCm 5 and 6 write it, is refused or read as with two.
# Seen: LLVM 19 reads it as with two. LLVM 22 takes the processor for the environment of the triple, and writes an entry without a
# processor, with exit code 0. No GPU finds it.
. "$(dirname "$0")/common.sh"
recorded <<'END'
LLVM 19, hip-amdgcn-amd-amdhsa--gfx90a: exit code 0, hip-amdgcn-amd-amdhsa--gfx90a
LLVM 19, hip-amdgcn-amd-amdhsa-gfx90a: exit code 0, hip-amdgcn-amd-amdhsa--gfx90a
LLVM 22, hip-amdgcn-amd-amdhsa--gfx90a: exit code 0, hip-amdgcn-amd-amdhsa--gfx90a
LLVM 22, hip-amdgcn-amd-amdhsa-gfx90a: exit code 0, hip-amdgcn-amd-amdhsa--
END
debs clang-tools-22=1:22.1.8-1~deb12u1 libllvm22=1:22.1.8-1~deb12u1 libclang-cpp22=1:22.1.8-1~deb12u1 \
    clang-tools-19=1:19.1.7-3~deb12u1 libllvm19=1:19.1.7-3~deb12u1 libclang-cpp19=1:19.1.7-3~deb12u1
: >"$work/host"
# The zero separates the last ID from the code.
printf '\0code' >"$work/device"
for version in 19 22; do
    for target in hip-amdgcn-amd-amdhsa--gfx90a hip-amdgcn-amd-amdhsa-gfx90a; do
        code=0
        "$work/root/usr/lib/llvm-$version/bin/clang-offload-bundler" -type=o -targets=host-x86_64-unknown-linux-gnu-,$target \
            -input="$work/host" -input="$work/device" -output="$work/bundle" || code=$?
        echo "LLVM $version, $target: exit code $code, $(grep --text --only-matching 'hip-amdgcn[a-z0-9-]*' "$work/bundle")"
    done
done >"$work/out"
compare "$work/out"
