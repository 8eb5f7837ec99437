#!/usr/bin/env bash
# ziglang 0.17.1 (PyPI), with clang 22.1.8 (Debian 12) and COMGR 3.3 of vapoursynth-bm3dhip 2.17.5 (PyPI) for comparison.
# Expected: code that Zig compiles for a processor runs on this GPU: as with clang, features that are not named are of any mode.
# Seen: Zig hands LLVM a feature as off that nobody asked for, so the code object is for gfx942:sramecc-:xnack-, which no MI300 is: its memory has
# ECC always. The runtime of such a GPU (gfx942:sramecc+:xnack-) refuses it. Of gfx90a the same. Each feature can be switched on by the name
# of the processor (gfx942+sramecc), but none can be left open. GPUs without features (gfx1100) are as expected. The metadata has
# one dash and "unknown" before the processor, and no two dashes at which readers of targets divide it.
. "$(dirname "$0")/common.sh"
recorded <<'END'
clang, gfx942: 0x54c, gfx942, xnack, sramecc; amdgcn-amd-amdhsa--gfx942
clang, gfx90a: 0x53f, gfx90a, xnack, sramecc; amdgcn-amd-amdhsa--gfx90a
clang, gfx1100: 0x41, gfx1100; amdgcn-amd-amdhsa--gfx1100
zig, gfx942: 0xa4c, gfx942, xnack-, sramecc-; amdgcn-amd-amdhsa-unknown-gfx942:sramecc-:xnack-
zig, gfx942+sramecc: 0xe4c, gfx942, xnack-, sramecc+; amdgcn-amd-amdhsa-unknown-gfx942:sramecc+:xnack-
zig, gfx942+sramecc+xnack: 0xf4c, gfx942, xnack+, sramecc+; amdgcn-amd-amdhsa-unknown-gfx942:sramecc+:xnack+
zig, gfx90a: 0xa3f, gfx90a, xnack-, sramecc-; amdgcn-amd-amdhsa-unknown-gfx90a:sramecc-:xnack-
zig, gfx9_4_generic: 0x1000a5f, gfx9-4-generic, xnack-, sramecc-, generic_v1; amdgcn-amd-amdhsa-unknown-gfx9-4-generic:sramecc-:xnack-
zig, gfx1100: 0x41, gfx1100; amdgcn-amd-amdhsa-unknown-gfx1100
code for gfx942:sramecc-:xnack-, GPU gfx942:sramecc+:xnack-: not found
code for gfx942, GPU gfx942:sramecc+:xnack-: found
END
venv "$work/venv" ziglang==0.17.1
hip_compiler
amd_runtime
echo 'export fn kernel(p: [*]addrspace(.global) i32) callconv(.amdgcn_kernel) void { p[0] = 1; }' >"$work/kernel.zig"
export ZIG_GLOBAL_CACHE_DIR=$work/zig ZIG_LOCAL_CACHE_DIR=$work/zig
show() { # NAME CODE-OBJECT: its target by the header, and by the metadata
    "$llvm/llvm-readelf" --file-header --notes "$2" >"$work/notes"
    echo "$1: $(sed -n 's/.*Flags: *//p' "$work/notes"); $(sed -n "s/.*amdhsa.target: *//p" "$work/notes" | tr -d "'")"
}
served() { # GPU TARGET: whether a runtime finds code for the target in a bundle
    python3 - "$comgr" "$@" <<'END'
import sys

import comgr

library, gpu, target = comgr.Comgr(sys.argv[1]), *sys.argv[2:]
found = library.lookup(comgr.bundle([(target, b"code")]), [gpu])[0]
print(f"code for {target}, GPU {gpu}: {'found' if found else 'not found'}")
END
}
{
    for gpu in gfx942 gfx90a gfx1100; do
        hip_compile $gpu.co kernel --offload-arch=$gpu -O3 --cuda-device-only --no-gpu-bundle-output
        show "clang, $gpu" "$work/$gpu.co"
    done
    for processor in gfx942 gfx942+sramecc gfx942+sramecc+xnack gfx90a gfx9_4_generic gfx1100; do
        "$work/venv/bin/python" -m ziglang build-lib -dynamic -target amdgcn-amdhsa -mcpu "$processor" -O ReleaseFast "$work/kernel.zig" \
            -femit-bin="$work/zig.co" 2>"$work/message"
        show "zig, $processor" "$work/zig.co"
    done
    served gfx942:sramecc+:xnack- gfx942:sramecc-:xnack-
    served gfx942:sramecc+:xnack- gfx942
} >"$work/out"
compare "$work/out"
