#!/usr/bin/env bash
# Oclgrind 21.10, a simulator of OpenCL devices (Debian 12), with pyopencl 2026.1.4 and numpy 2.4.6 (PyPI): functions for which the
# specification of OpenCL C states the result.
# Expected: a simulator that kernels are tested with gives those results.
# Seen: a conversion to an integer that is to round up (_rtp) rounds away from zero, and one that is to round down (_rtn) towards zero, so of
# negative numbers each gives the other's result. A saturated NaN is the smallest integer in place of 0, and a denormal number is a normal one.
# The fraction of infinity is nearly 1, remquo has three bits of the quotient in place of seven, and sinpi of a whole number is not 0. A long
# becomes a float by way of a double, so it is rounded twice. PoCL 3.1 gave the numbers of the specification for all of these.
. "$(dirname "$0")/common.sh"
recorded <<'END'
Oclgrind Simulator
convert_int_rtp(x) for -2.9: -3, specified -2
convert_int_rtp(x) for 2.1: 3
convert_int_rtn(x) for -2.1: -2, specified -3
convert_int_rtn(x) for 2.9: 2
convert_int_sat(x) for nan: -2147483648, specified 0
isnormal(x) for 1e-40: 1, specified 0
fract(x, &part) for inf: 0.9999999403953552, specified 0.0
(remquo(x, 3, &bits), bits) for 100: 1, specified 33
sinpi(x) for 1: 1.2246468525851679e-16, specified 0.0
convert_float(x) for 4611686293305294849: 4.611686018427388e+18, specified 4.611686568183202e+18
END
debs oclgrind=21.10-3 liboclgrind-21.10=21.10-3 libllvm14=1:14.0.6-12 libclang-cpp14=1:14.0.6-12 libclang-common-14-dev=1:14.0.6-12 \
    libedit2=3.1-20221030-2 libz3-4=4.8.12-3.1 libxml2=2.9.14+dfsg-1.3~deb12u6 libicu72=72.1-3+deb12u1 libbsd0=0.11.7-2 libmd0=1.0.4-2 libreadline8=8.2-1.3
venv "$work/venv" pyopencl==2026.1.4 numpy==2.4.6
mkdir "$work/vendors"
echo "$work/root/usr/lib/oclgrind/liboclgrind-rt-icd.so" >"$work/vendors/oclgrind.icd"
cat >"$work/functions.py" <<'END'
import math
import warnings

import numpy
import pyopencl

warnings.filterwarnings("ignore")
TYPES = {"int": numpy.int32, "long": numpy.int64, "float": numpy.float32}
device = pyopencl.get_platforms()[0].get_devices()[0]
context = pyopencl.Context([device])
queue = pyopencl.CommandQueue(context)


def run(kind, expression, result, number):
    """What a kernel computes of x."""
    source = f"kernel void compute(global {result} *to, {kind} x) {{ float part; int bits; {result} y = {expression}; *to = y; }}"
    to = numpy.zeros(1, TYPES[result])
    buffer = pyopencl.Buffer(context, pyopencl.mem_flags.READ_WRITE, to.nbytes)
    pyopencl.Program(context, source).build().compute(queue, (1,), None, buffer, TYPES[kind](number))
    pyopencl.enqueue_copy(queue, to, buffer)
    return to[0]


print(device.name)
for kind, expression, result, number, expected in (
    ("float", "convert_int_rtp(x)", "int", -2.9, -2),
    ("float", "convert_int_rtp(x)", "int", 2.1, 3),
    ("float", "convert_int_rtn(x)", "int", -2.1, -3),
    ("float", "convert_int_rtn(x)", "int", 2.9, 2),
    ("float", "convert_int_sat(x)", "int", math.nan, 0),
    ("float", "isnormal(x)", "int", 1e-40, 0),
    ("float", "fract(x, &part)", "float", math.inf, 0),
    ("float", "(remquo(x, 3, &bits), bits)", "int", 100, 33),
    ("float", "sinpi(x)", "float", 1, 0),
    ("long", "convert_float(x)", "float", 2**62 + 2**38 + 1, 2**62 + 2**39),
):
    seen = run(kind, expression, result, number)
    print(f"{expression} for {number}: {seen}" + ("" if seen == expected else f", specified {TYPES[result](expected)}"))
END
export PYOPENCL_NO_CACHE=1 OCL_ICD_VENDORS=$work/vendors
"$work/venv/bin/python" "$work/functions.py" 2>/dev/null >"$work/out"
compare "$work/out"
