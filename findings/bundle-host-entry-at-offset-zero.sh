#!/usr/bin/env bash
# clang-offload-bundler of LLVM 22.1.8 (Debian 12), and COMGR 3.3 in vapoursynth-bm3dhip 2.17.5 (PyPI).
# Expected: the host entry of a HIP bundle is empty, so its offset does not matter; 0 is the natural value.
# Seen: an entry at offset 0 ends LLVM's reading of the table. clang-offload-bundler lists nothing, with exit code 0, and finds no code
# object. COMGR has both readers: look-ups in the raw bundle find the code, UNBUNDLE of it gives an empty code object and success.
. "$(dirname "$0")/common.sh"
recorded <<'END'
host entry at 4096: clang-offload-bundler lists 2 entries, exit code 0
host entry at 4096: COMGR finds 9 bytes by lookup, 9 by unbundle
host entry at 0: clang-offload-bundler lists 0 entries, exit code 0
host entry at 0: COMGR finds 9 bytes by lookup, 0 by unbundle
END
venv "$work/venv" zstandard==0.25.0
amd_runtime
for offset in 4096 0; do
    "$work/venv/bin/python" - "$comgr" $offset "$work/$offset.hipfb" >"$work/comgr-$offset" <<'END'
import sys

import comgr

library = comgr.Comgr(sys.argv[1])
offset = int(sys.argv[2])
raw = comgr.bundle([("gfx942", b"some code")], host_offset=offset)
with open(sys.argv[3], "wb") as file:
    file.write(raw)
found = len(library.lookup(raw, ["gfx942"])[0]), len(library.unbundle(raw, ["gfx942"])[0])
print(f"host entry at {offset}: COMGR finds {found[0]} bytes by lookup, {found[1]} by unbundle")
END
done
debs clang-tools-22=1:22.1.8-1~deb12u1 libllvm22=1:22.1.8-1~deb12u1 libclang-cpp22=1:22.1.8-1~deb12u1
for offset in 4096 0; do
    code=0
    "$work/root/usr/lib/llvm-22/bin/clang-offload-bundler" -list -type=o -input="$work/$offset.hipfb" >"$work/list" || code=$?
    echo "host entry at $offset: clang-offload-bundler lists $(grep -c . "$work/list" || true) entries, exit code $code"
    cat "$work/comgr-$offset"
done >"$work/out"
compare "$work/out"
