#!/usr/bin/env bash
# clang and clang-offload-bundler 22.1.8 (Debian 12).
# Expected: the command line alone says in which form clang writes device code; the environment does not matter.
# Seen: OFFLOAD_BUNDLER_COMPRESS=1 makes compressed bundles of all that clang and the bundler write, without an option, and against
# --no-offload-compress. COMPRESSED_BUNDLE_FORMAT_VERSION=2 makes them of version 2, as LLVM 19 and 21 write them. So one command
# writes libraries of three forms, and neither the command line nor a message says which.
. "$(dirname "$0")/common.sh"
recorded <<'END'
no variable: clang: raw
no variable: clang --offload-compress: compressed, version 3
no variable: clang --no-offload-compress: raw
no variable: clang-offload-bundler: raw
OFFLOAD_BUNDLER_COMPRESS=1: clang: compressed, version 3
OFFLOAD_BUNDLER_COMPRESS=1: clang --offload-compress: compressed, version 3
OFFLOAD_BUNDLER_COMPRESS=1: clang --no-offload-compress: compressed, version 3
OFFLOAD_BUNDLER_COMPRESS=1: clang-offload-bundler: compressed, version 3
OFFLOAD_BUNDLER_COMPRESS=1 COMPRESSED_BUNDLE_FORMAT_VERSION=2: clang: compressed, version 2
OFFLOAD_BUNDLER_COMPRESS=1 COMPRESSED_BUNDLE_FORMAT_VERSION=2: clang --offload-compress: compressed, version 2
OFFLOAD_BUNDLER_COMPRESS=1 COMPRESSED_BUNDLE_FORMAT_VERSION=2: clang --no-offload-compress: compressed, version 2
OFFLOAD_BUNDLER_COMPRESS=1 COMPRESSED_BUNDLE_FORMAT_VERSION=2: clang-offload-bundler: compressed, version 2
END
hip_compiler
form() { # FILE: the form of the device code in it
    python3 - "$1" <<'END'
import struct
import sys

content = open(sys.argv[1], "rb").read()
place = content.find(b"CCOB")
print(f"compressed, version {struct.unpack_from('<H', content, place + 4)[0]}" if place >= 0 else "raw")
END
}
: >"$work/host"
head -c 10000 /dev/zero >"$work/code"
write() { # VARIABLE…
    for options in "" --offload-compress --no-offload-compress; do
        # shellcheck disable=SC2086 # none or one option
        env "$@" TMPDIR="$work" "$llvm/clang" -x hip -nogpulib -nogpuinc -fno-exceptions -DKERNEL=one --offload-arch=gfx942 $options \
            -c "$PYTHONPATH/kernel.hip" -o "$work/one.o"
        echo "${*:-no variable}: clang${options:+ $options}: $(form "$work/one.o")"
    done
    env "$@" "$llvm/clang-offload-bundler" -type=o -targets=host-x86_64-unknown-linux-gnu-,hip-amdgcn-amd-amdhsa--gfx942 \
        -input="$work/host" -input="$work/code" -output="$work/bundle"
    echo "${*:-no variable}: clang-offload-bundler: $(form "$work/bundle")"
}
{
    write
    write OFFLOAD_BUNDLER_COMPRESS=1
    write OFFLOAD_BUNDLER_COMPRESS=1 COMPRESSED_BUNDLE_FORMAT_VERSION=2
} >"$work/out"
compare "$work/out"
