#!/usr/bin/env bash
# triton 3.9.0 (PyPI), without a GPU: a product of two tiles of 64 by 64 floats of 8 bits (tl.dot), in the two forms that these floats have:
# those of the OCP (float8e4nv, float8e5), in which models are published, and AMD's of MI300 (float8e4b8).
# Expected: a GPU whose matrix instructions know the other form only is an error, or a few instructions convert, since the forms differ by
# the bias of the exponent and the code for NaN. Floats of 8 bits are chosen because a product costs less than with 16.
# Seen: a tile of the other form is converted to 16 bits and multiplied by the instructions for these, with success and without a word.
# float8e5 is the upper half of a float16, so it costs little. The others take eight to twelve times the instructions of the whole kernel:
# 2273 for float8e4nv on gfx942, where float16 takes 211. So the form that is the best on gfx950 is the worst on gfx942, and AMD's the other
# way round; on gfx90a that one is multiplied without the matrix unit.
. "$(dirname "$0")/common.sh"
recorded <<'END'
gfx90a, float16: 245 instructions, with v_mfma_f32_32x32x8f16
gfx90a, float8e4nv: 1866 instructions, with v_mfma_f32_32x32x8f16
gfx90a, float8e5: 318 instructions, with v_mfma_f32_32x32x8f16
gfx90a, float8e4b8: 2271 instructions, with v_fmac_f32_e32
gfx942, float16: 211 instructions, with v_mfma_f32_32x32x8_f16
gfx942, float8e4nv: 2273 instructions, with v_mfma_f32_32x32x8_f16
gfx942, float8e5: 317 instructions, with v_mfma_f32_32x32x8_f16
gfx942, float8e4b8: 197 instructions, with v_mfma_f32_32x32x16_fp8_fp8
gfx950, float16: 186 instructions, with v_mfma_f32_32x32x16_f16
gfx950, float8e4nv: 167 instructions, with v_mfma_f32_32x32x64_f8f6f4
gfx950, float8e5: 167 instructions, with v_mfma_f32_32x32x64_f8f6f4
gfx950, float8e4b8: 2215 instructions, with v_mfma_f32_32x32x16_f16
END
venv "$work/venv" triton==3.9.0
cat >"$work/dot.py" <<'END'
import re
import sys

from tiles import assembly

FORMS = {"fp16": "float16", "fp8e4nv": "float8e4nv", "fp8e5": "float8e5", "fp8e4b8": "float8e4b8"}
for gpu in sys.argv[1:]:
    for form, name in FORMS.items():
        kernel = assembly(gpu, form).partition("\nproduct:")[2].partition("s_endpgm")[0]
        instructions = re.findall(r"^\t([a-z]+_\w+)", kernel, re.MULTILINE)
        products = sorted({word for word in instructions if re.match("v_(mfma|wmma|fmac)", word)})
        print(f"{gpu}, {name}: {len(instructions)} instructions, with {', '.join(products)}")
END
TRITON_CACHE_DIR=$work/kernels "$work/venv/bin/python" -W ignore "$work/dot.py" gfx90a gfx942 gfx950 >"$work/out"
compare "$work/out"
