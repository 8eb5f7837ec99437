#!/usr/bin/env bash
# blosc2 4.14.1 and numpy 2.4.6 (PyPI): expressions that are computed when they are asked for, on compressed arrays.
# Expected: one expression has one value, that of numpy, whose rules the documentation of blosc2 names: remainders have the sign of the divisor, and
# halves are rounded to even.
# Seen: it depends on how the value is asked for. compute(), and the sum, go by another engine (miniexpr), with the remainder of C and halves away from zero;
# a slice of the same expression, or the same one of arrays that are not compressed, goes as numpy does. Indices that are folded by %, as those
# of periodic grids are, are negative in one and not in the other. Of uint64, the quotient by 3 of 2^64 - 1 is that number itself.
. "$(dirname "$0")/common.sh"
recorded <<'END'
x % 3: numpy [2 1 0 2], compute() [-1  1  0  2], [0:2] [2 1], of numpy's arrays [2 1 0 2]
round(x): numpy [0. 2. 2. 4.], compute() [1. 2. 3. 4.], [0:2] [0. 2.], of numpy's arrays [0. 2. 2. 4.]
sum of x % 7: numpy 300000, blosc2 -6
(2^64 - 1) // 3: numpy 6148914691236517205, blosc2 18446744073709551615
END
venv "$work/venv" blosc2==4.14.1 numexpr==2.14.2 numpy==2.4.6
cat >"$work/lazy.py" <<'END'
import blosc2
import numpy


def show(text, values, expected):
    lazy, plain = (blosc2.lazyexpr(text, {"x": array}) for array in (blosc2.asarray(values), values))
    print(f"{text}: numpy {expected}, compute() {lazy.compute()[:]}, [0:2] {lazy[0:2]}, of numpy's arrays {plain.compute()[:]}")


integers, floats = numpy.array([-7, 7, -6, 5], numpy.int32), numpy.array([0.5, 1.5, 2.5, 3.5])
show("x % 3", integers, integers % 3)
show("round(x)", floats, numpy.round(floats))
many = numpy.arange(-50000, 50000)
print(f"sum of x % 7: numpy {(many % 7).sum()}, blosc2 {(blosc2.asarray(many) % 7).sum()}")
large = numpy.array([2**64 - 1], numpy.uint64)
print(f"(2^64 - 1) // 3: numpy {(large // 3)[0]}, blosc2 {blosc2.lazyexpr('x // 3', {'x': blosc2.asarray(large)})[:][0]}")
END
"$work/venv/bin/python" -W ignore "$work/lazy.py" >"$work/out"
compare "$work/out"
