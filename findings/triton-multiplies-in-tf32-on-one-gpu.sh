#!/usr/bin/env bash
# triton 3.9.0 (PyPI), without a GPU: a product of two tiles of floats (tl.dot), with its default precision and with one that is named.
# Expected: on AMD's GPUs a product of floats is computed in floats, unless the kernel asks for less (input_precision="tf32"), which is
# taken or refused on all of them. So an MI300 and an MI355 give the same results up to the order of the sum.
# Seen: on gfx942 (MI300) alone the default is TF32 (xf32), which keeps 11 of 24 bits of each factor, as on NVIDIA's GPUs since Ampere. On
# gfx90a before and gfx950 after it, and on three with 32 lanes, the same kernel multiplies floats, and "tf32" is an error. So tests that
# pass on an MI250 fail on an MI300. input_precision="ieee" is the same on all, and TRITON_F32_DEFAULT=ieee makes it the default.
. "$(dirname "$0")/common.sh"
recorded <<'END'
gfx90a: default v_mfma_f32_32x32x2f32; tf32 refused; ieee v_mfma_f32_32x32x2f32
gfx942: default v_mfma_f32_32x32x4_xf32; tf32 v_mfma_f32_32x32x4_xf32; ieee v_mfma_f32_32x32x2_f32
gfx950: default v_mfma_f32_32x32x2_f32; tf32 refused; ieee v_mfma_f32_32x32x2_f32
gfx1100: default v_fma_f32, v_fmac_f32; tf32 refused; ieee v_fma_f32, v_fmac_f32
gfx1201: default v_fma_f32, v_fmac_f32; tf32 refused; ieee v_fma_f32, v_fmac_f32
gfx1250: default v_wmma_f32_16x16x4_f32; tf32 refused; ieee v_wmma_f32_16x16x4_f32
TRITON_F32_DEFAULT=ieee, gfx942: default v_mfma_f32_32x32x2_f32; tf32 v_mfma_f32_32x32x4_xf32; ieee v_mfma_f32_32x32x2_f32
END
venv "$work/venv" triton==3.9.0
cat >"$work/dot.py" <<'END'
import re
import sys

import triton
from tiles import assembly


def product(precision, gpu):
    """The instructions that multiply."""
    try:
        code = assembly(gpu, "fp32", precision)
    except triton.CompilationError as error:
        return "refused" if "input_precision must be one of" in str(error) else "an error"
    return ", ".join(sorted(set(re.findall(r"\b(v_(?:mfma|wmma)_\w+|v_fmac?_f32)", code))))


for gpu in sys.argv[1:]:
    print(f"{gpu}:", "; ".join(f"{precision or 'default'} {product(precision, gpu)}" for precision in (None, "tf32", "ieee")))
END
dot() { # GPU…
    TRITON_CACHE_DIR=$work/kernels "$work/venv/bin/python" -W ignore "$work/dot.py" "$@" 2>/dev/null
}
{
    dot gfx90a gfx942 gfx950 gfx1100 gfx1201 gfx1250
    echo "TRITON_F32_DEFAULT=ieee, $(TRITON_F32_DEFAULT=ieee dot gfx942)"
} >"$work/out"
compare "$work/out"
