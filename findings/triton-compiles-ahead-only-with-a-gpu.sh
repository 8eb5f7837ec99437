#!/usr/bin/env bash
# triton 3.9.0 (PyPI), on a machine without a GPU of AMD or NVIDIA.
# Expected: triton.tools.compile, which compiles in advance for the GPU that its option --target names, needs no GPU: so a package can be built where
# packages are built. triton.compile, which it calls, needs none.
# Seen: before it looks at the target, it asks the driver for the GPU of the machine, and ends with an error if there is none. So a package for
# AMD's GPUs has to be built next to a GPU, of any kind, or by the function.
. "$(dirname "$0")/common.sh"
recorded <<'END'
triton.tools.compile --target hip:gfx942:64: exit code 1; RuntimeError: 0 active drivers ([]). There should only be one.
triton.compile for hip, gfx942, 64: exit code 0; b'\x7fELF'
END
[ ! -e /dev/kfd ] && [ ! -e /dev/nvidiactl ] || unavailable "this machine has a GPU"
venv "$work/venv" triton==3.9.0
export TRITON_HOME=$work TRITON_CACHE_DIR=$work/cache
cat >"$work/kernel.py" <<'END'
import triton
import triton.language as tl


@triton.jit
def kernel(place):
    tl.store(place, 1)
END
cat >"$work/function.py" <<'END'
import kernel
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

compiled = triton.compile(ASTSource(fn=kernel.kernel, signature={"place": "*i32"}), target=GPUTarget("hip", "gfx942", 64))
print(compiled.asm["hsaco"][:4])
END
show() { # NAME COMMAND…
    local code=0
    (cd "$work" && "$work/venv/bin/python" "${@:2}") >"$work/printed" 2>&1 || code=$?
    echo "$1: exit code $code; $(tail -1 "$work/printed")"
}
{
    show "triton.tools.compile --target hip:gfx942:64" -m triton.tools.compile "$work/kernel.py" --kernel-name kernel --signature '*i32' \
        --grid 1,1,1 --target hip:gfx942:64 --out-path "$work/out-of-tool"
    show "triton.compile for hip, gfx942, 64" "$work/function.py"
} >"$work/out"
compare "$work/out"
