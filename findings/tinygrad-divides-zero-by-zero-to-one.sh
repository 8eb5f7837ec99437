#!/usr/bin/env bash
# tinygrad 0.14.0 (PyPI), on its device that needs no compiler (PYTHON), the only one that this was run on.
# Expected: floats as numpy computes them, which is what its tests compare with: 0 / 0 is NaN, and half() rounds.
# Seen: x / x is 1 for 0, infinity and NaN, x * 0 and x - x are 0 for them, and x + 1e8 - 1e8 is x: a graph of floats is simplified as one of real
# numbers. half() and float() together are left out, so 70000 stays 70000.
# The maximum of an array passes by NaN, relu makes 0 of NaN and maximum(0) keeps it. So a model with a NaN or an overflow computes on.
. "$(dirname "$0")/common.sh"
recorded <<'END'
x / x: tinygrad 1 1 1 1, numpy nan nan nan 1
x * 0: tinygrad 0 0 0 0, numpy 0 nan nan 0
x - x: tinygrad 0 0 0 0, numpy 0 nan nan 0
x + 1e8 - 1e8: tinygrad 0 inf nan 3, numpy 0 inf nan 0
x.half().float() of 0.1 70000 1e-9: tinygrad 0.1 70000 1e-09, numpy 0.0999756 inf 0
the largest of x: tinygrad inf, numpy nan
relu of x: tinygrad 0 inf 0 3, numpy 0 inf nan 3
the larger of x and 0: tinygrad 0 inf nan 3, numpy 0 inf nan 3
x % 3 of 1e10: tinygrad -512, numpy 1
END
venv "$work/venv" tinygrad==0.14.0 numpy==2.4.6
cat >"$work/rules.py" <<'END'
import numpy
from tinygrad import Tensor

numpy.seterr(all="ignore")
x = numpy.array([0, numpy.inf, numpy.nan, 3], numpy.float32)
one = numpy.float32(1e8)


def show(name, by_tinygrad, by_numpy, values=x):
    results = by_tinygrad(Tensor(values)).numpy(), by_numpy(values)
    print(f"{name}: {', '.join(f'{who} ' + ' '.join(f'{v:g}' for v in numpy.ravel(r)) for who, r in zip(('tinygrad', 'numpy'), results))}")


show("x / x", lambda x: x / x, lambda x: x / x)
show("x * 0", lambda x: x * 0, lambda x: x * 0)
show("x - x", lambda x: x - x, lambda x: x - x)
show("x + 1e8 - 1e8", lambda x: x + 1e8 - 1e8, lambda x: x + one - one)
halves = numpy.array([0.1, 70000, 1e-9], numpy.float32)
show("x.half().float() of 0.1 70000 1e-9", lambda x: x.half().float(), lambda x: x.astype(numpy.float16), halves)
show("the largest of x", lambda x: x.max(), lambda x: x.max())
show("relu of x", lambda x: x.relu(), lambda x: numpy.maximum(x, 0))
show("the larger of x and 0", lambda x: x.maximum(0), lambda x: numpy.maximum(x, 0))
show("x % 3 of 1e10", lambda x: x % 3, lambda x: x % numpy.float32(3), numpy.array([1e10], numpy.float32))
END
CACHEDB=$work/tinygrad.db DEV=PYTHON PYTHON=1 "$work/venv/bin/python" -W ignore "$work/rules.py" >"$work/out"
compare "$work/out"
