#!/usr/bin/env bash
# openvino 2026.4.1, tract 0.23.9 and onnxruntime 1.32.0 (PyPI), on a CPU, each with the same model of one operator (Cast), which onnx 1.22.0 writes.
# Expected: numbers that the type has are exact, and others are as C converts them on this CPU. A double becomes the nearest float16.
# Seen: OpenVINO converts to int64 by way of int32, so a time in seconds after 2038, or the place of a byte behind 2 GiB, is -2147483648; to uint32 it
# does the same with 3000000000. NaN is False there, and True elsewhere. tract takes the nearest number that the type has, and 0 for NaN. Each of the
# three rounds doubles to floats first, so 1 + 2^-11 + 2^-40 is 1 in float16, and not the next number, which is nearer.
# (The Python package of tract hands out no integers of 64 bits.)
. "$(dirname "$0")/common.sh"
recorded <<'END'
float32 3000000000.0 to int64: onnxruntime 3000000000, openvino -2147483648, tract has none
float32 3000000000.0 to uint32: onnxruntime 3000000000, openvino 2147483648, tract 3000000000
float32 3000000000.0 to int32: onnxruntime -2147483648, openvino -2147483648, tract 2147483647
float32 nan to int32: onnxruntime -2147483648, openvino -2147483648, tract 0
float32 300 to int8: onnxruntime 44, openvino 44, tract 127
float32 -1 to uint8: onnxruntime 255, openvino 255, tract 0
float32 nan to bool: onnxruntime True, openvino False, tract True
float64 1.0004882812509095 to float16: onnxruntime 1.0, openvino 1.0, tract 1.0
by numpy: 1.0009765625
END
venv "$work/venv" onnxruntime==1.32.0 onnx==1.22.0 openvino==2026.4.1 openvino-telemetry==2025.2.0 tract==0.23.9 numpy==2.4.6
cat >"$work/casts.py" <<'END'
import numpy
import onnx
import onnxruntime
import openvino
import tract
from onnx import TensorProto, helper


def write(source, sink):
    ends = [helper.make_tensor_value_info(name, kind, [1]) for name, kind in (("x", source), ("y", sink))]
    graph = helper.make_graph([helper.make_node("Cast", ["x"], ["y"], to=sink)], "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "model.onnx")


def by_onnxruntime(values):
    return onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"]).run(None, {"x": values})[0]


def by_openvino(values):
    return openvino.Core().compile_model("model.onnx", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(values)[0]


def by_tract(values):
    return tract.onnx().load("model.onnx").into_model().into_runnable().run([values])[0].to_numpy()


for sink, number in (
    ("INT64", 3e9),
    ("UINT32", 3e9),
    ("INT32", 3e9),
    ("INT32", numpy.nan),
    ("INT8", 300),
    ("UINT8", -1),
    ("BOOL", numpy.nan),
    ("FLOAT16", 1 + 2**-11 + 2**-40),
):
    kind = numpy.float64 if sink == "FLOAT16" else numpy.float32
    write(helper.np_dtype_to_tensor_dtype(numpy.dtype(kind)), TensorProto.DataType.Value(sink))
    results = []
    for run in by_onnxruntime, by_openvino, by_tract:
        try:
            results.append(f"{run.__name__[3:]} {run(numpy.array([number], kind)).item()}")
        except Exception:
            results.append(f"{run.__name__[3:]} has none")
    print(f"{kind.__name__} {number!r} to {sink.lower()}: {', '.join(results)}")
print(f"by numpy: {numpy.float16(1 + 2**-11 + 2**-40)}")
END
(cd "$work" && venv/bin/python casts.py) >"$work/out"
compare "$work/out"
