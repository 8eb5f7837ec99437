#!/usr/bin/env bash
# brp-strip of rpm 4.18.0 (Debian 12) with binutils 2.40, and code objects by COMGR 3.3 in vapoursynth-bm3dhip 2.17.5 (PyPI).
# Expected: the scripts that rpmbuild runs after %install pass by files that strip does not know: code objects are left as they are.
# Seen: brp-strip takes each file that file(1) calls ELF and not stripped, so also .hsaco and .co files. strip does not know their
# machine, and brp-strip ends with 123. rpmbuild stops at that. A library next to it is stripped all the same.
. "$(dirname "$0")/common.sh"
recorded <<'END'
a library: exit code 0; library stripped
a library and a code object: exit code 123; library stripped, code object as it was
the same with a strip that knows the machine (llvm-strip 22): exit code 0; library stripped, code object stripped
END
command -v file >/dev/null || unavailable "no file (Debian's package file)"
amd_runtime
python3 - "$comgr" "$work/k.hsaco" <<'END'
import sys

import comgr

with open(sys.argv[2], "wb") as file:
    file.write(comgr.Comgr(sys.argv[1]).compile("gfx942"))
END
# A library that is not stripped.
wheel "$work/msgpack" --python-version 3.11 --platform manylinux_2_28_x86_64 msgpack==1.1.2
cp "$work"/msgpack/msgpack/_cmsgpack*.so "$work/libx.so"
debs rpm=4.18.0+dfsg-1+deb12u1 llvm-22=1:22.1.8-1~deb12u1 libllvm22=1:22.1.8-1~deb12u1 binutils-x86-64-linux-gnu=2.40-2 libbinutils=2.40-2
for strip in llvm-22/bin/llvm-strip ../bin/x86_64-linux-gnu-strip; do
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$LD_LIBRARY_PATH" "$work/root/usr/lib/$strip" >"$work/${strip##*/}"
    chmod +x "$work/${strip##*/}"
done
unset LD_LIBRARY_PATH
run() { # WHAT STRIP FILE…
    local what=$1 strip=$2 code=0 file state=
    shift 2
    rm -rf "$work/buildroot"
    mkdir -p "$work/buildroot/usr/lib"
    cp "$@" "$work/buildroot/usr/lib"
    RPM_BUILD_ROOT=$work/buildroot sh "$work/root/usr/lib/rpm/brp-strip" "$strip" >&2 || code=$?
    for file; do
        state+=${state:+, }
        case $file in *.so) state+="library " ;; *) state+="code object " ;; esac
        if cmp -s "$file" "$work/buildroot/usr/lib/${file##*/}"; then state+="as it was"; else state+=stripped; fi
    done
    echo "$what: exit code $code; $state"
}
{
    run "a library" "$work/x86_64-linux-gnu-strip" "$work/libx.so"
    run "a library and a code object" "$work/x86_64-linux-gnu-strip" "$work/libx.so" "$work/k.hsaco"
    run "the same with a strip that knows the machine (llvm-strip 22)" "$work/llvm-strip" "$work/libx.so" "$work/k.hsaco"
} >"$work/out"
compare "$work/out"
