#!/usr/bin/env bash
# openvino 2026.4.1 (PyPI), with the plug-in for CPUs, on integers of 32 bits, as numbers of tokens, hashes and times are.
# Expected: operators of integers give integers, as in onnxruntime and numpy: an integer is equal to itself alone, and all 31 bits count.
# Seen: addition, subtraction, multiplication and maxima are exact. Division, remainders, powers, sums of a tensor and comparisons are
# computed in floats, which have 24 bits: 16777217 equals 16777216, 2147483647 / 1 is negative, and of the seconds since 1970 modulo 86400
# the last digits are wrong. Where all operands are constants of the model, the same operators are computed exactly. The mode is
# ACCURACY.
. "$(dirname "$0")/common.sh"
recorded <<'END'
add: 2147483647 33554433
subtract: 2147483646 1 1764363600
multiply: 50331651 2147441940 670592745
maximum: 2147483647 16777217 1764450000
divide: -2147483648 1 20421, not 2147483647 1 20421
divide of constants: 2147483647 1 20421
mod: 0 0 75648, not 0 1 75600
mod of constants: 0 1 75600
floor_mod: 0 0 75648, not 0 1 75600
floor_mod of constants: 0 1 75600
power: 1162261504 282475264 2141700608, not 1162261467 282475249 2141700569
power of constants: 1162261467 282475249 2141700569
equal: False True False, not False False False
equal of constants: False False False
less: True False True, not True True True
less of constants: True True True
sum: 16777216, not 16777219
END
venv "$work/venv" openvino==2026.4.1 openvino-telemetry==2025.2.0 numpy==2.4.6
cat >"$work/integers.py" <<'END'
import numpy
import openvino
from openvino import opset13

core = openvino.Core()
mode = {"EXECUTION_MODE_HINT": "ACCURACY", "INFERENCE_PRECISION_HINT": "f32"}
functions = {
    "add": numpy.add,
    "subtract": numpy.subtract,
    "multiply": numpy.multiply,
    "maximum": numpy.maximum,
    "divide": numpy.floor_divide,
    "mod": numpy.fmod,
    "floor_mod": numpy.remainder,
    "power": numpy.power,
    "equal": numpy.equal,
    "less": numpy.less,
}


def run(operation, operands, constant):
    inputs = [opset13.parameter(operand.shape, numpy.int32) for operand in operands]
    nodes = [opset13.constant(operand) for operand in operands] if constant else inputs
    model = openvino.Model([operation(*nodes)], inputs, "m")
    return core.compile_model(model, "CPU", mode)(operands)[0]


def text(array):
    return " ".join(map(str, array.tolist()))


def show(name, result, truth):
    print(f"{name}: {text(result)}{'' if numpy.array_equal(result, truth) else f', not {text(truth)}'}")


def integers(*numbers):
    return numpy.array(numbers, numpy.int32)


for name, function in functions.items():
    operands = integers(2147483647, 16777217, 1764450000), integers(1, 16777216, 86400)
    if name in ("add", "less"):
        operands = operands[::-1] if name == "less" else (integers(2147483646, 16777217), integers(1, 16777216))
    elif name == "power":
        operands = integers(3, 7, 1289), integers(19, 10, 3)
    elif name == "multiply":
        operands = integers(16777217, 46341, 12345), integers(3, 46340, 54321)
    truth = function(*operands)
    operation = getattr(opset13, name)
    results = [run(operation, operands, constant) for constant in (False, True)]
    show(name, results[0], truth)
    if not numpy.array_equal(*results):
        show(f"{name} of constants", results[1], truth)
numbers = integers(16777217, 1, 1)
show("sum", run(lambda node: opset13.reduce_sum(node, [0], True), [numbers], False), numpy.sum(numbers, keepdims=True, dtype=numpy.int32))
END
"$work/venv/bin/python" "$work/integers.py" >"$work/out"
compare "$work/out"
