#!/usr/bin/env bash
# apache-tvm 0.27.0.post1 (PyPI), which writes the sources of kernels without a GPU. What they compute is computed again here, in floats.
# Expected: tanh of a kernel is the function tanh of the device's language, which CUDA, OpenCL, Metal and WebGPU all have, and tan and erf
# alike, or a formula for the whole range where a language lacks it.
# Seen: for CUDA and OpenCL it is. For Metal and WebGPU tanh is (exp(2x) - 1) / (exp(2x) + 1), which loses the digits of a small x: it is
# wrong by one per cent at 0.000001, and is 0 at 0.00000001. So a network that is compiled for a browser or a phone gives other numbers than
# on the GPU where it was tested. tan is tanf for OpenCL and Metal, a function that neither has.
. "$(dirname "$0")/common.sh"
recorded <<'END'
tanh: cuda tanhf, opencl tanh, metal a formula, webgpu a formula
select(((exp((2 * x)) - 1) / (exp((2 * x)) + 1)), ((1 - exp((-2 * x))) / (1 + exp((-2 * x)))), (x >= 0))
tanh(1) is 0.7615942, and 0.7615941 by the formula
tanh(0.01) is 0.009999667, and 0.009999663 by the formula
tanh(0.0001) is 0.0001, and 9.99968e-05 by the formula
tanh(1e-06) is 1e-06, and 1.01328e-06 by the formula
tanh(1e-08) is 1e-08, and 0 by the formula
tan: cuda tanf, opencl tanf, metal tanf, webgpu tan
erf: cuda erff, opencl erf, metal a formula, webgpu a formula
exp: cuda expf, opencl exp, metal exp, webgpu exp
END
venv "$work/venv" apache-tvm==0.27.0.post1
cat >"$work/functions.py" <<'END'
import math
import re

import numpy
import tvm
from tvm import s_tir, te
from tvm.script import tirx

FUNCTIONS = {"tanh": tirx.tanh, "tan": tirx.tan, "erf": tirx.erf, "exp": tirx.exp}
TARGETS = {"cuda": {"arch": "sm_90"}, "opencl": {}, "metal": {}, "webgpu": {}}
ELEMENT = re.compile(r"A_ptr\[[^]]*\]")


def expression(name, kind):
    """What the kernel for a target computes of x."""
    source = te.placeholder((64,), "float32", name="A")
    result = te.compute((64,), lambda i: FUNCTIONS[name](source[i]), name="B")
    schedule = s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func([source, result]).with_attr("global_symbol", "main")}))
    schedule.bind(schedule.get_loops(schedule.get_sblock("B"))[0], "threadIdx.x")
    target = tvm.target.Target({"kind": kind, **TARGETS[kind]}, host="llvm")
    text = tvm.compile(schedule.mod, target=target).mod.imports[0].inspect_source()
    return ELEMENT.sub("x", re.search(r"B_ptr\[.*\] = (.*);", text)[1])


def value(text, x):
    """An expression, computed in floats."""
    names = {"select": lambda no, yes, condition: yes if condition else no, "exp": numpy.exp, "tanh": numpy.tanh, "x": numpy.float32(x), "number": numpy.float32}
    return float(eval(re.sub(r"\b(\d[\d.]*(?:e[+-]?\d+)?)f\b", r"number(\1)", text), names))


for name in FUNCTIONS:
    found = {kind: expression(name, kind) for kind in TARGETS}
    print(f"{name}:", ", ".join(f"{kind} {text[:-3] if text.endswith('(x)') else 'a formula'}" for kind, text in found.items()))
    if name == "tanh":
        formulas = {text for text in found.values() if not text.endswith("h(x)") and not text.startswith("tanhf")}
        for formula in sorted(formulas):
            print(re.sub(r"0{5}e\+00f|\.000000e\+00f", "", formula))
        for x in 1.0, 0.01, 0.0001, 1e-6, 1e-8:
            print(f"tanh({x:g}) is {math.tanh(x):.7g}, and {', '.join(sorted({f'{value(formula, x):.7g}' for formula in formulas}))} by the formula")
END
(cd "$work" && venv/bin/python -W ignore functions.py >out)
compare "$work/out"
