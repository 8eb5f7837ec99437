#!/usr/bin/env bash
# onnxruntime 1.32.0 and onnx 1.22.0 (PyPI), with models whose tensors are all float16, on the CPU.
# Expected: a CPU without arithmetic for float16 computes an operator in floats, and rounds its result to the type that the model names. So
# a model that overflows there (above 65504) or loses digits is found on the CPU before it is shipped to a GPU or an NPU.
# Seen: the results between operators stay floats: only what leaves the model is rounded. A root of a mean of squares of 300, as a
# normalization of layers has it, is 300, where each step in float16 gives infinity. So tests on the CPU pass, also without any optimization
# (ORT_DISABLE_ALL). Where a result between operators is an output as well, it is infinity there, and what is computed of it stays 300.
. "$(dirname "$0")/common.sh"
recorded <<'END'
root of the mean of squares of 300: 300, without optimization 300, in float16 step by step inf
    with the result before it as an output: inf and 300
300 * 300 / 1000: 90, without optimization 90, in float16 step by step inf
    with the result before it as an output: inf and 90
sum of 8 * 300 * 100, / 1000: 240, without optimization 240, in float16 step by step inf
    with the result before it as an output: inf and 240
log of exp of 20: 20, without optimization 20, in float16 step by step inf
    with the result before it as an output: inf and 20
300 + 0.1 - 300: 0.0999756, without optimization 0.0999756, in float16 step by step 0
    with the result before it as an output: 300 and 0.0999756
END
venv "$work/venv" onnxruntime==1.32.0 onnx==1.22.0 numpy==2.4.6
cat >"$work/halves.py" <<'END'
import numpy
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

half = numpy.float16
numpy.seterr(all="ignore")
onnxruntime.set_default_logger_severity(3)
x = numpy.full((1, 8), 300, half)
constants = {
    "thousand": numpy.array([1000], half),
    "tenth": numpy.array([0.1], half),
    "twenty": numpy.array([20], half),
    "weights": numpy.full((8, 1), 100, half),
}
square, mean, root = ("Mul", "x", "x"), ("ReduceMean", "a"), ("Sqrt", "b")
models = {
    "root of the mean of squares of 300": [square, mean, root],
    "300 * 300 / 1000": [square, ("Div", "a", "thousand")],
    "sum of 8 * 300 * 100, / 1000": [("MatMul", "x", "weights"), ("Div", "a", "thousand")],
    "log of exp of 20": [("Sub", "x", "x"), ("Add", "a", "twenty"), ("Exp", "b"), ("Log", "c")],
    "300 + 0.1 - 300": [("Add", "x", "tenth"), ("Sub", "a", "x")],
}


def model(steps, outputs):
    nodes = [helper.make_node(kind, inputs, [name]) for (kind, *inputs), name in zip(steps, "abcd")]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, None) for name in outputs]
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT16, x.shape)
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", [source], values, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def run(model, level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return " and ".join(f"{result.flat[0]:g}" for result in session.run(None, {"x": x}))


for name, steps in models.items():
    last = "abcd"[len(steps) - 1]
    whole = model(steps, [last])
    stepwise = ReferenceEvaluator(whole).run(None, {"x": x})[0].flat[0]
    results = run(whole, "ORT_ENABLE_ALL"), run(whole, "ORT_DISABLE_ALL")
    print(f"{name}: {results[0]}, without optimization {results[1]}, in float16 step by step {stepwise:g}")
    before = "abcd"[len(steps) - 2]
    print(f"    with the result before it as an output: {run(model(steps, [before, last]), 'ORT_ENABLE_ALL')}")
END
"$work/venv/bin/python" "$work/halves.py" >"$work/out"
compare "$work/out"
