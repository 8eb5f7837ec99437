#!/usr/bin/env bash
# numba-cuda 0.30.4 with numba 0.68.1 and numpy 2.4.6 (PyPI): kernels of one operation, run by the simulator (NUMBA_ENABLE_CUDASIM=1) and
# compiled to PTX, without a GPU.
# Expected: the simulator, which is for tests and for finding errors, computes what the kernel computes.
# Seen: it computes by numpy, in the types of the arrays, where the compiler widens integers to 64 bits: 200 * 200 of uint8 is 64 in the simulator
# and 40000 on the GPU, and 1 - 2 of uint32 is 4294967295 and -1. A float32 with a whole number or a constant stays a float32 in the
# simulator, and is computed in doubles on the GPU, which are slow on many.
. "$(dirname "$0")/common.sh"
recorded <<'END'
x * x of uint8 200: simulator 64, PTX uint64, mul.wide.u32
x * x of int32 50000: simulator -1794967296, PTX int64, mul.wide.s32
x * x of float32 3: simulator 9, PTX float32, mul.f32
x - 2 of uint32 1: simulator 4294967295, PTX int64, add.s64
x << 4 of uint8 200: simulator 128, PTX uint64, mul.wide.u32
-x of uint8 200: simulator 56, PTX uint64, neg.s16
x + 1 of float32 16777216: simulator 16777216, PTX float64, add.f64
x * 0.5 of float32 4: simulator 2, PTX float64, mul.f64
END
venv "$work/venv" numba-cuda==0.30.4 numba==0.68.1 llvmlite==0.50.0 numpy==2.4.6 cuda-bindings==13.5.0 cuda-core==1.2.2 cuda-pathfinder==1.9.1 \
    nvidia-cuda-runtime==13.5.37 nvidia-cuda-nvrtc==13.5.37 nvidia-nvvm==13.5.37
cat >"$work/operations.py" <<'END'
import re
import warnings

import numba
import numpy
from numba import cuda

warnings.filterwarnings("ignore")


def mul(x):
    return x * x


def add(x):
    return x + 1


def sub(x):
    return x - 2


def shift(x):
    return x << 4


def negate(x):
    return -x


def half(x):
    return x * 0.5


for name, function, form, number in (
    ("x * x", mul, "uint8", 200),
    ("x * x", mul, "int32", 50000),
    ("x * x", mul, "float32", 3),
    ("x - 2", sub, "uint32", 1),
    ("x << 4", shift, "uint8", 200),
    ("-x", negate, "uint8", 200),
    ("x + 1", add, "float32", 2**24),
    ("x * 0.5", half, "float32", 4),
):
    value = numpy.dtype(form).type(number)
    if numba.config.ENABLE_CUDASIM:
        result = numpy.zeros(1)

        def kernel(x, y):
            y[0] = function(x[0])

        cuda.jit(kernel)[1, 1](numpy.array([value]), result)
        print(f"{name} of {form} {number}: simulator {result[0]:.0f}")
    else:
        text, form = cuda.compile_ptx(function, (getattr(numba, form),), device=True, cc=(9, 0))
        operations = re.findall(r"^\s+((?:mul|add|sub|shl|neg|fma)\.[\w.]+)", text, re.M)
        print(f", PTX {form}, {' '.join(operations)}")
END
NUMBA_ENABLE_CUDASIM=1 "$work/venv/bin/python" "$work/operations.py" >"$work/simulated"
"$work/venv/bin/python" "$work/operations.py" >"$work/compiled"
paste -d '\0' "$work/simulated" "$work/compiled" >"$work/out"
compare "$work/out"
