#!/usr/bin/env bash
# gguf 0.19.0 and numpy 2.4.6 (PyPI): weights for llama.cpp as blocks of small numbers, by the package that converts models to its form.
# Expected: the more bits, the smaller the error, for small weights too; a block with a NaN has one, or an error tells.
# Seen: the scale of a block is a float16, which is 0 below 3e-8. Q8_0 divides the largest weight by 127 for it, and Q4_0 by 8: weights near 1e-6 are all 0 in
# eight bits, and right in four, without a word. In MXFP4, whose scale is a power of two, small weights and large ones are right, and a block with a NaN
# is one of 32 zeros, also without a word: a broken model passes for a whole one. In the other forms such a block is NaN, and numpy warns.
. "$(dirname "$0")/common.sh"
recorded <<'END'
mean error in percent of Q8_0, Q5_0, Q4_0, MXFP4
weights near 1e-08: 100.0, 100.0, 100.0, 12.0
weights near 1e-06: 100.0, 8.7, 14.6, 10.7
weights near 0.0001: 0.8, 6.4, 12.1, 12.5
weights near 1: 0.8, 6.4, 12.1, 11.2
weights near 100000: 0.8, 6.4, 12.1, 11.9
weights near 1e+06: 0.8, nan, nan, 12.0
weights near 1e+07: nan, nan, nan, 11.5
a block with a NaN in Q8_0: nan, with a warning
a block with a NaN in Q5_0: nan, with a warning
a block with a NaN in Q4_0: nan, with a warning
a block with a NaN in MXFP4: 0.0
END
venv "$work/venv" gguf==0.19.0 numpy==2.4.6
cat >"$work/blocks.py" <<'END'
import warnings

import numpy
from gguf import GGMLQuantizationType as Form
from gguf import quants

forms = Form.Q8_0, Form.Q5_0, Form.Q4_0, Form.MXFP4
weights = numpy.random.default_rng(1).normal(0, 1, (1, 32)).astype("float32")


def through(form, values):
    return quants.dequantize(quants.quantize(values, form), form)


print("mean error in percent of", ", ".join(form.name for form in forms))
for scale in 1e-8, 1e-6, 1e-4, 1, 1e5, 1e6, 1e7:
    values = weights * numpy.float32(scale)
    errors = (100 * abs(through(form, values) - values).mean() / abs(values).mean() for form in forms)
    print(f"weights near {scale:g}: " + ", ".join(f"{error:.1f}" for error in errors))
values = weights.copy()
values[0, 3] = numpy.nan
for form in forms:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        read = through(form, values)
    print(f"a block with a NaN in {form.name}: {', '.join(map(str, numpy.unique(read)))}{', with a warning' if seen else ''}")
END
"$work/venv/bin/python" -W ignore "$work/blocks.py" >"$work/out"
compare "$work/out"
