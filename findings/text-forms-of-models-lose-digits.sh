#!/usr/bin/env bash
# onnx 1.22.0 and openvino 2026.4.1 (PyPI): models as text, by onnx.printer and onnx.parser, and the file of operations of OpenVINO's IR
# (m.xml).
# Expected: what is written can be read again, with the same numbers: nine digits tell all floats apart, as in MLIR, HLO and JSON of Python.
# Seen: onnx's text has six digits for weights and attributes, so 16777216 comes back as 16777200, and no tensor of float16; a number below
# 1e-38 cannot be read. OpenVINO writes attributes that are one number with all digits, and those that are a list with six: the sizes of the
# boxes of a detector (PriorBox) are others after save_model, and so are its results.
. "$(dirname "$0")/common.sh"
recorded <<'END'
onnx, floats: 16777216 0.333333343 123456.789 -> 16777200 0.333332986 123457
onnx, an attribute: 0.333333333 -> 0.333332986
onnx, doubles: 0.333333333 -> 0.333333
onnx, float16: unreadable
onnx, 1e-40: unreadable
OpenVINO, Clamp: -0.333333333 16777217 -> -0.333333333 16777217
OpenVINO, corners of PriorBox: -61.3283882 -61.3283882 62.1283875 62.1283875 -> -61.3284988 -61.3284988 62.1284981 62.1284981
OpenVINO, its variance: 0.142857149 -> 0.142857
END
venv "$work/venv" onnx==1.22.0 openvino==2026.4.1 openvino-telemetry==2025.2.0 numpy==2.4.6
cat >"$work/digits.py" <<'END'
import numpy
import onnx.parser
import onnx.printer
import openvino
from onnx import TensorProto, helper, numpy_helper
from openvino import opset13


def show(name, before, after):
    print(f"{name}: {' '.join(f'{number:.9g}' for number in numpy.ravel(before))} -> {' '.join(f'{number:.9g}' for number in numpy.ravel(after))}")


def through_text(array, alpha=1.0):
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Add", ["x", "weights"], ["a"]), helper.make_node("Elu", ["a"], ["y"], alpha=alpha)]
    names = [value(name, TensorProto.FLOAT, array.shape) for name in "xy"]
    graph = helper.make_graph(nodes, "g", names[:1], names[1:], [numpy_helper.from_array(array, "weights")])
    text = onnx.printer.to_text(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))
    return onnx.parser.parse_model(text).graph


weights = numpy.array([16777216, 1 / 3, 123456.789], numpy.float32)
graph = through_text(weights, 1 / 3)
show("onnx, floats", weights, numpy_helper.to_array(graph.initializer[0]))
show("onnx, an attribute", [1 / 3], [graph.node[1].attribute[0].f])
doubles = numpy.array([1 / 3])
show("onnx, doubles", doubles, numpy_helper.to_array(through_text(doubles).initializer[0]))
for name, array in ("float16", weights[1:2].astype(numpy.float16)), ("1e-40", numpy.array([1e-40], numpy.float32)):
    try:
        through_text(array)
        print(f"onnx, {name}: readable")
    except (onnx.parser.ParseError, IndexError):
        print(f"onnx, {name}: unreadable")


def through_ir(model):
    openvino.save_model(model, "m.xml", compress_to_fp16=False)
    return openvino.Core().read_model("m.xml")


def run(model, values):
    return openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(values)[0]


def attribute(model, kind, name):
    return next(node for node in model.get_ops() if node.get_type_name() == kind).get_attributes()[name]


one = opset13.parameter([1, 2], numpy.float32)
clamp = openvino.Model([opset13.clamp(one, -1 / 3, 16777217)], [one], "m")
show("OpenVINO, Clamp", *([attribute(model, "Clamp", name) for name in ("min", "max")] for model in (clamp, through_ir(clamp))))
layer, image = opset13.parameter([2], numpy.int64), opset13.parameter([2], numpy.int64)
sizes = {"min_size": [1234.5678], "aspect_ratio": [1 / 3], "variance": [1 / 7], "offset": 0.5, "step": 8.0, "scale_all_sizes": True}
boxes = openvino.Model([opset13.prior_box(layer, image, sizes)], [layer, image], "m")
values = [numpy.array(size, numpy.int64) for size in ([1, 1], [10, 10])]
show("OpenVINO, corners of PriorBox", *(run(model, values)[0][:4] for model in (boxes, through_ir(boxes))))
show("OpenVINO, its variance", *(run(model, values)[1][:1] for model in (boxes, through_ir(boxes))))
END
(cd "$work" && venv/bin/python digits.py) >"$work/out"
compare "$work/out"
