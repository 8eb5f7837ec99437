#!/usr/bin/env bash
# apache-tvm 0.27.0.post1 (PyPI), which writes the sources of kernels without a GPU, and numpy 2.4.6: a kernel that multiplies by a constant.
# Expected: the constant in the source is the one of the program: nine digits tell all floats apart, and 17 all doubles.
# Seen: for OpenCL, Metal and WebGPU each constant has seven digits, also a double. So pi is the next float, 16777215 is 16777220, 2^-32, by which
# random bits become numbers below 1, is no power of two, and a kernel of doubles for OpenCL has constants that are right to seven digits. For
# CUDA those that were tried are exact: floats are written in hexadecimal.
. "$(dirname "$0")/common.sh"
recorded <<'END'
float32, pi: 3.1415927
    cuda: 0x1.921fb54442d18p+1f, exact
    opencl: 3.141593e+00f, which is 3.141593
    metal: 3.141593e+00f, which is 3.141593
    webgpu: 3.141593e+00f, which is 3.141593
float32, 2^24 - 1: 1.6777215e+07
    cuda: 0x1.fffffep+23f, exact
    opencl: 1.677722e+07f, which is 1.677722e+07
    metal: 1.677722e+07f, which is 1.677722e+07
    webgpu: 1.677722e+07f, which is 1.677722e+07
float32, 2^-32: 2.3283064e-10
    cuda: 0x1p-32f, exact
    opencl: 2.328306e-10f, which is 2.328306e-10
    metal: 2.328306e-10f, which is 2.328306e-10
    webgpu: 2.328306e-10f, which is 2.328306e-10
float64, pi: 3.141592653589793
    cuda: 3.141592653589793, exact
    opencl: 3.141593e+00, which is 3.141593
float64, 2^31 - 1: 2147483647.0
    cuda: 2147483647.000000000000000, exact
    opencl: 2.147484e+09, which is 2147484000.0
END
venv "$work/venv" apache-tvm==0.27.0.post1 numpy==2.4.6
cat >"$work/constants.py" <<'END'
import math
import re

import numpy
import tvm
from tvm import s_tir, te, tirx

TARGETS = {"cuda": {"arch": "sm_90"}, "opencl": {}, "metal": {}, "webgpu": {}}


def literal(form, number, kind):
    """What the source of a kernel for a target multiplies by."""
    source = te.placeholder((64,), form, name="A")
    result = te.compute((64,), lambda i: source[i] * tirx.const(number, form), name="B")
    schedule = s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func([source, result]).with_attr("global_symbol", "main")}))
    schedule.bind(schedule.get_loops(schedule.get_sblock("B"))[0], "threadIdx.x")
    target = tvm.target.Target({"kind": kind, **TARGETS[kind]}, host="llvm")
    text = tvm.compile(schedule.mod, target=target).mod.imports[0].inspect_source()
    return re.search(r"B_ptr\[.*\] = \(.* \* ([-+.\w]+)", text)[1]


def value(text, form):
    """The number that a literal is."""
    text = text.removesuffix("f")
    return getattr(numpy, form)(float.fromhex(text) if text.startswith("0x") else text)


for form, name, number in (
    ("float32", "pi", math.pi),
    ("float32", "2^24 - 1", 2**24 - 1),
    ("float32", "2^-32", 2**-32),
    ("float64", "pi", math.pi),
    ("float64", "2^31 - 1", 2**31 - 1),
):
    exact = getattr(numpy, form)(number)
    print(f"{form}, {name}: {exact!s}")
    for kind in TARGETS:
        if form == "float64" and kind in ("metal", "webgpu"):
            continue
        text = literal(form, number, kind)
        seen = value(text, form)
        print(f"    {kind}: {text}, " + ("exact" if seen == exact else f"which is {seen!s}"))
END
(cd "$work" && venv/bin/python -W ignore constants.py) 2>/dev/null >"$work/out"
compare "$work/out"
