#!/usr/bin/env bash
# numpy 2.4.6 and ml_dtypes 0.6.0 (PyPI), which gives numpy bfloat16 and floats of 8 bits.
# Expected: numpy's manual says of mean that float16 is computed by intermediates of float32, and bfloat16, which has fewer digits, is treated as well as it.
# A sort puts NaN last.
# Seen: each step of a sum is rounded to the type, so the sum of 1000 ones is 256 in bfloat16, and 16 or 8 in 8 bits; the mean and the standard deviation
# are as wrong. The product of matrices is right and the dot product of the same vectors is not, in 8 bits. Arrays with a NaN are not sorted, so
# what is built on it (unique) is wrong too. Nothing is raised: losses and statistics of weights that are taken from a device this way are wrong.
. "$(dirname "$0")/common.sh"
recorded <<'END'
float16, 1000 ones: sum 1000, mean 1, deviation 0, dot 1000, @ 1000, cumsum 1000
    sorted: 0 1 2 3 nan nan, different: 0 1 2 3 nan
bfloat16, 1000 ones: sum 256, mean 0.255859375, deviation 0.50390625, dot 1000, @ 1000, cumsum 256
    sorted: nan 1 3 nan 0 2, different: nan 1 3 nan 0 2
float8_e4m3fn, 1000 ones: sum 16, mean 0.015625, deviation 0.125, dot nan, @ 1000, cumsum 16
    sorted: nan 1 3 nan 0 2, different: nan 1 3 nan 0 2
float8_e5m2, 1000 ones: sum 8, mean 0.0078125, deviation 0.09375, dot 1024, @ 1000, cumsum 8
    sorted: nan 1 3 nan 0 2, different: nan 1 3 nan 0 2
END
venv "$work/venv" numpy==2.4.6 ml_dtypes==0.6.0
cat >"$work/sums.py" <<'END'
import ml_dtypes
import numpy


def show(values):
    return " ".join(f"{float(value):g}" for value in values)


for kind in numpy.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2:
    ones = numpy.ones(1000, kind)
    results = {
        "sum": ones.sum(),
        "mean": ones.mean(),
        "deviation": ones.std(),
        "dot": numpy.dot(ones, ones),
        "@": ones @ ones,
        "cumsum": ones.cumsum()[-1],
    }
    print(f"{kind.__name__}, 1000 ones: {', '.join(f'{name} {float(value):.10g}' for name, value in results.items())}")
    mixed = numpy.array([numpy.nan, 3, 1, numpy.nan, 2, 0], kind)
    print(f"    sorted: {show(numpy.sort(mixed))}, different: {show(numpy.unique(mixed))}")
END
"$work/venv/bin/python" -W ignore "$work/sums.py" >"$work/out"
compare "$work/out"
