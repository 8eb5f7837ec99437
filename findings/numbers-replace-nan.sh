#!/usr/bin/env bash
# openvino 2026.4.1, tract 0.23.9 and onnxruntime 1.32.0 (PyPI), on a CPU, each with the same models of onnx 1.22.0.
# Expected: a NaN, of a damaged weight or a division of zeros, goes through a model to its output, where a test or a user sees it: the
# formulas of ONNX (max(0, x), exp(x)) give NaN for NaN.
# Seen: onnxruntime does it, but for quantization. OpenVINO gives 0 for Relu, Clip, Max and Min of NaN, 1 for HardSigmoid and infinity for
# Exp; tract gives 0 for Relu, Clip and Sigmoid, and -1 for Tanh, though not for Relu behind a product. So a network with a NaN among its
# weights has outputs that look like any other in two runtimes of three, and it depends on the activation in which of them.
. "$(dirname "$0")/common.sh"
recorded <<'END'
Relu: onnxruntime nan, openvino 0, tract 0
Clip: onnxruntime nan, openvino 0, tract 0
Max with 0: onnxruntime nan, openvino 0, tract 0
Min with 0: onnxruntime nan, openvino 0, tract 0
LeakyRelu: onnxruntime nan, openvino nan, tract nan
Sigmoid: onnxruntime nan, openvino nan, tract 0
Tanh: onnxruntime nan, openvino nan, tract -1
Exp: onnxruntime nan, openvino inf, tract nan
HardSigmoid: onnxruntime nan, openvino 1, tract 1
int8 and back: onnxruntime -128, openvino -128, tract 0
MatMul: onnxruntime nan, openvino nan, tract nan
MatMul, Relu: onnxruntime nan, openvino 0, tract nan
MatMul, Tanh: onnxruntime nan, openvino nan, tract -1
END
venv "$work/venv" onnxruntime==1.32.0 onnx==1.22.0 openvino==2026.4.1 openvino-telemetry==2025.2.0 tract==0.23.9 numpy==2.4.6
cat >"$work/nan.py" <<'END'
import numpy
import onnx
import onnxruntime
import openvino
import tract
from onnx import TensorProto, helper, numpy_helper

width = 37
constants = {
    "zero": numpy.float32(0),
    "six": numpy.float32(6),
    "scale": numpy.float32(1),
    "point": numpy.int8(0),
    "weights": numpy.where(numpy.eye(width) > 0, 1, 0).astype(numpy.float32),
}
constants["weights"][3, 5] = numpy.nan
models = {
    "Relu": [("Relu", "x")],
    "Clip": [("Clip", "x", "zero", "six")],
    "Max with 0": [("Max", "x", "zero")],
    "Min with 0": [("Min", "x", "zero")],
    "LeakyRelu": [("LeakyRelu", "x")],
    "Sigmoid": [("Sigmoid", "x")],
    "Tanh": [("Tanh", "x")],
    "Exp": [("Exp", "x")],
    "HardSigmoid": [("HardSigmoid", "x")],
    "int8 and back": [("QuantizeLinear", "x", "scale", "point"), ("DequantizeLinear", "a", "scale", "point")],
    "MatMul": [("MatMul", "one", "weights")],
    "MatMul, Relu": [("MatMul", "one", "weights"), ("Relu", "a")],
    "MatMul, Tanh": [("MatMul", "one", "weights"), ("Tanh", "a")],
}


def write(steps):
    names = "ab"[: len(steps) - 1] + "y"
    nodes = [helper.make_node(kind, inputs, [name]) for (kind, *inputs), name in zip(steps, names)]
    value = helper.make_tensor_value_info
    source, sink = (value(name, TensorProto.FLOAT, [1, width]) for name in (steps[0][1], "y"))
    used = [(numpy.asarray(tensor), name) for name, tensor in constants.items() if any(name in step for step in steps)]
    tensors = [numpy_helper.from_array(*tensor) for tensor in used]
    graph = helper.make_graph(nodes, "g", [source], [sink], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "model.onnx")


def by_onnxruntime(values):
    session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: values})[0]


def by_openvino(values):
    return openvino.Core().compile_model("model.onnx", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(values)[0]


def by_tract(values):
    return tract.onnx().load("model.onnx").into_model().into_runnable().run([values])[0].to_numpy()


onnxruntime.set_default_logger_severity(3)
for name, steps in models.items():
    write(steps)
    values = numpy.full((1, width), 1 if name.startswith("MatMul") else numpy.nan, numpy.float32)
    results = []
    for run in by_onnxruntime, by_openvino, by_tract:
        # One weight is NaN, so one element of the output is, and it is the one to look at.
        result = run(values).ravel()[5 if name.startswith("MatMul") else slice(None)]
        numbers = {f"{number.round(3):g}" for number in numpy.atleast_1d(result)}
        results.append(f"{run.__name__[3:]} {' or '.join(sorted(numbers))}")
    print(f"{name}: {', '.join(results)}")
END
(cd "$work" && venv/bin/python nan.py) >"$work/out"
compare "$work/out"
