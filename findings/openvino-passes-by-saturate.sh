#!/usr/bin/env bash
# openvino 2026.4.1 and onnxruntime 1.32.0 (PyPI), on a CPU, each with the same model of onnx 1.22.0: numbers that become floats of 8 bits, and floats again.
# Expected: 500 is 448 in float8e4m3fn, the largest number, in both, and NaN if the attribute saturate is 0. ONNX says so of Cast and QuantizeLinear.
# Seen: OpenVINO passes by the attribute: its Cast gives NaN and infinity, its QuantizeLinear never does. So a weight or an activation that
# is a little too large for a Cast, which onnxruntime clamps, makes all that is computed of it NaN, and a model that is to show overflow hides it. The forms
# that AMD's MI300 has (fnuz) are refused.
. "$(dirname "$0")/common.sh"
recorded <<'END'
cast 500 and 3 to float8e4m3fn, saturate=1: onnxruntime 448 3, openvino nan 3
cast 500 and 3 to float8e4m3fn, saturate=0: onnxruntime nan 3, openvino nan 3
quantize 500 and 3 to float8e4m3fn, saturate=1: onnxruntime 448 3, openvino 448 3
quantize 500 and 3 to float8e4m3fn, saturate=0: onnxruntime nan 3, openvino 448 3
cast 100000 and 3 to float8e5m2, saturate=1: onnxruntime 57344 3, openvino inf 3
cast 100000 and 3 to float8e5m2, saturate=0: onnxruntime inf 3, openvino inf 3
quantize 100000 and 3 to float8e5m2, saturate=1: onnxruntime 57344 3, openvino 57344 3
quantize 100000 and 3 to float8e5m2, saturate=0: onnxruntime inf 3, openvino 57344 3
cast 300 and 3 to float8e4m3fnuz, saturate=1: onnxruntime 240 3, openvino refuses it
cast 300 and 3 to float8e4m3fnuz, saturate=0: onnxruntime nan 3, openvino refuses it
quantize 300 and 3 to float8e4m3fnuz, saturate=1: onnxruntime 240 3, openvino refuses it
quantize 300 and 3 to float8e4m3fnuz, saturate=0: onnxruntime nan 3, openvino refuses it
END
venv "$work/venv" onnxruntime==1.32.0 onnx==1.22.0 openvino==2026.4.1 openvino-telemetry==2025.2.0 numpy==2.4.6
cat >"$work/float8.py" <<'END'
import numpy
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper


def write(nodes, kind):
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    constants = [helper.make_tensor("one", TensorProto.FLOAT, [], [1]), helper.make_tensor("zero", kind, [], [0])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), "model.onnx")


def by_onnxruntime(values):
    return onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"]).run(None, {"x": values})[0]


def by_openvino(values):
    return openvino.Core().compile_model("model.onnx", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(values)[0]


def cast(kind, saturate):
    return [helper.make_node("Cast", ["x"], ["e"], to=kind, saturate=saturate), helper.make_node("Cast", ["e"], ["y"], to=TensorProto.FLOAT)]


def quantize(kind, saturate):
    return [
        helper.make_node("QuantizeLinear", ["x", "one", "zero"], ["e"], saturate=saturate),
        helper.make_node("DequantizeLinear", ["e", "one", "zero"], ["y"]),
    ]


onnxruntime.set_default_logger_severity(3)
for name, number in (("FLOAT8E4M3FN", 500), ("FLOAT8E5M2", 1e5), ("FLOAT8E4M3FNUZ", 300)):
    kind = TensorProto.DataType.Value(name)
    for build in cast, quantize:
        for saturate in 1, 0:
            write(build(kind, saturate), kind)
            results = []
            for run in by_onnxruntime, by_openvino:
                try:
                    result = " ".join(f"{value:g}" for value in run(numpy.array([number, 3], numpy.float32)))
                except Exception:
                    result = "refuses it"
                results.append(f"{run.__name__[3:]} {result}")
            print(f"{build.__name__} {number:g} and 3 to {name.lower()}, saturate={saturate}: {', '.join(results)}")
END
(cd "$work" && venv/bin/python float8.py 2>/dev/null) >"$work/out"
compare "$work/out"
