#!/usr/bin/env bash
# iree-base-compiler 3.13.0 (PyPI).
# Expected: two --iree-rocm-target options give a module with code for both GPUs, as two --offload-arch options of clang do; a list of targets and the
# names of modes and of generic targets are understood as well.
# Seen: the last option counts, with exit code 0 and no word, so the module runs on one GPU. A list, a mode and a generic target are unknown targets
# and an error, though LLVM in it knows them; names of products stand for targets. So a release for several GPUs is a module for each.
. "$(dirname "$0")/common.sh"
recorded <<'END'
gfx942 gfx1100: succeeds, code for gfx1100
gfx1100 gfx942: succeeds, code for gfx942
gfx942,gfx1100: fails, Unknown ROCM target
gfx90a: succeeds, code for gfx90a
gfx90a:xnack+: fails, Unknown ROCM target
gfx11-generic: fails, Unknown ROCM target
mi300x: succeeds, code for gfx942
END
venv "$work/venv" iree-base-compiler==3.13.0
cat >"$work/targets.py" <<'END'
import re
import struct
import sys

# Of llvm/BinaryFormat/ELF.h: EF_AMDGPU_MACH_AMDGCN_…
GPUS = {0x3F: "gfx90a", 0x41: "gfx1100", 0x4C: "gfx942"}
module = open(sys.argv[1], "rb").read()
flags = [struct.unpack_from("<I", module, match.start() + 48)[0] for match in re.finditer(b"\x7fELF\2\1\1\x40", module)]
print("code for", *[GPUS[flag & 0xFF] for flag in flags])
END
show() { # TARGET…
    rm -f "$work/add.vmfb"
    if "$work/venv/bin/iree-compile" --iree-hal-target-device=hip "${@/#/--iree-rocm-target=}" "$PYTHONPATH/add.mlir" -o "$work/add.vmfb" 2>"$work/message"; then
        echo "$*: succeeds, $(python3 "$work/targets.py" "$work/add.vmfb")"
    else
        echo "$*: fails, $(grep -om1 'Unknown ROCM target' "$work/message")"
    fi
}
{
    show gfx942 gfx1100
    show gfx1100 gfx942
    show gfx942,gfx1100
    show gfx90a
    show gfx90a:xnack+
    show gfx11-generic
    show mi300x
} >"$work/out"
compare "$work/out"
