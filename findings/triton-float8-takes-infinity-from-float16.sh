#!/usr/bin/env bash
# triton 3.9.0 (PyPI), without a GPU: a kernel that multiplies float16, with and without a line that converts the factors to floats of 8
# bits (float8e4nv).
# Expected: the product of float16 is the same in both: infinity for 300 * 300, by which training finds that its scale is too large. The
# conversion saturates, as the forms of 8 bits demand it.
# Seen: on AMD's GPUs the kernel with the conversion sets a mode of the hardware at its start (FP16_OVFL, bit 23 of MODE) and never sets it
# back. By AMD's manuals, each float16 that is too large becomes 65504 with it. So the second line of a kernel changes the first. It is set
# also on GPUs that convert by instructions for integers, where it does nothing for the conversion (gfx90a, gfx942, gfx1100, gfx1201). The
# descriptor of the kernel, which has a field for it (.amdhsa_fp16_overflow), says 0. On sm_90 the conversion alone saturates (satfinite).
. "$(dirname "$0")/common.sh"
recorded <<'END'
gfx90a: without floats of 8 bits: v_mul_f16; with them: MODE[23] = 1, v_mul_f16; descriptor 0
gfx942: without floats of 8 bits: v_mul_f16; with them: MODE[23] = 1, v_mul_f16; descriptor 0
gfx950: without floats of 8 bits: v_mul_f16; with them: MODE[23] = 1, v_mul_f16, v_cvt_scalef32_pk_fp8_f16; descriptor 0
gfx1100: without floats of 8 bits: v_mul_f16; with them: MODE[23] = 1, v_mul_f16; descriptor 0
gfx1201: without floats of 8 bits: v_mul_f16; with them: MODE[23] = 1, v_mul_f16; descriptor 0
sm_90: without floats of 8 bits: mul.f16; with them: mul.f16, cvt.rn.satfinite.e4m3x2.f16x2
END
venv "$work/venv" triton==3.9.0
cat >"$work/square.py" <<'END'
import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def square(x, y, z, small: tl.constexpr):
    i = tl.arange(0, 64)
    value = tl.load(x + i)
    tl.store(y + i, value * value)
    if small:
        tl.store(z + i, value.to(tl.float8e4nv))


def texts(target, small):
    signature = {"x": "*fp16", "y": "*fp16", "z": "*fp8e4nv", "small": "constexpr"}
    return triton.compile(ASTSource(fn=square, signature=signature, constexprs={"small": small}), target=target).asm


def steps(text):
    """What sets the mode, multiplies and converts, in its order."""
    mode, words = r"s_setreg_imm32_b32 hwreg\(HW_REG_(?:WAVE_)?(MODE), 23, 1\), (\d)", r"\s(v_mul_f16|v_cvt_\w*fp8\w*|mul\.f16|cvt\.\S*e4m3\S*)"
    found = re.findall(f"{mode}|{words}", text)
    return ", ".join(dict.fromkeys(f"{mode}[23] = {value}" if mode else word for mode, value, word in found))


for gpu in ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"):
    alone, both = (texts(GPUTarget("hip", gpu, 64 if gpu.startswith("gfx9") else 32), small)["amdgcn"] for small in (False, True))
    descriptor = re.search(r"\.amdhsa_fp16_overflow (\d)", both)[1]
    print(f"{gpu}: without floats of 8 bits: {steps(alone)}; with them: {steps(both)}; descriptor {descriptor}")
alone, both = (texts(GPUTarget("cuda", 90, 32), small)["ptx"] for small in (False, True))
print(f"sm_90: without floats of 8 bits: {steps(alone)}; with them: {steps(both)}")
END
TRITON_CACHE_DIR=$work/kernels "$work/venv/bin/python" -W ignore "$work/square.py" >"$work/out"
compare "$work/out"
