#!/usr/bin/env bash
# onnx 1.23.2 (its version_converter) and onnxruntime 1.32.0 (PyPI), on a CPU: the same models before and after they are converted to a newer opset.
# Expected: a conversion keeps what a model computes, by attributes or further operators where the meaning of one has changed, as it does for Softmax.
# Seen: Resize of opset 10 and Upsample place pixels by their corners (asymmetric). From opset 11 on the attribute says so, and its default is
# half_pixel, which the converter leaves: linear images are shifted by a part of a pixel. Hardmax, which is over all further dimensions before opset 13, has
# one maximum in each row after it. There is no message, and the shapes are equal. Masks of a segmentation are shifted.
. "$(dirname "$0")/common.sh"
recorded <<'END'
Resize linear, opset 10: 0 0.5 1 1.5 2 2.5 3 3
    by opset 13: 0 0.25 0.75 1.25 1.75 2.25 2.75 3
    by opset 21: 0 0.25 0.75 1.25 1.75 2.25 2.75 3
Upsample linear, opset 9: 0 0.5 1 1.5 2 2.5 3 3
    by opset 13: 0 0.25 0.75 1.25 1.75 2.25 2.75 3
    by opset 21: 0 0.25 0.75 1.25 1.75 2.25 2.75 3
Hardmax, opset 11: 0 0 0 1
    by opset 13: 0 1 0 1
    by opset 21: 0 1 0 1
Softmax, opset 11: 0.0321 0.0871 0.237 0.644
    by opset 13: 0.0321 0.0871 0.237 0.644
    by opset 21: 0.0321 0.0871 0.237 0.644
END
venv "$work/venv" onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
cat >"$work/opsets.py" <<'END'
import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, version_converter

onnxruntime.set_default_logger_severity(4)
row, block = numpy.arange(4, dtype=numpy.float32).reshape(1, 1, 1, 4), numpy.arange(4, dtype=numpy.float32).reshape(1, 2, 2)
scales = numpy_helper.from_array(numpy.array([1, 1, 1, 2], numpy.float32), "scales")


def show(model, values):
    result = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": values})[0]
    return " ".join(f"{number:.3g}" for number in result.ravel())


for name, opset, values, inputs, attributes in (
    ("Resize linear", 10, row, ["x", "scales"], {"mode": "linear"}),
    ("Upsample linear", 9, row, ["x", "scales"], {"mode": "linear"}),
    ("Hardmax", 11, block, ["x"], {}),
    ("Softmax", 11, block, ["x"], {}),
):
    ends = [helper.make_tensor_value_info(end, TensorProto.FLOAT, shape) for end, shape in (("x", values.shape), ("y", None))]
    node = helper.make_node(name.split()[0], inputs, ["y"], **attributes)
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [scales] if len(inputs) > 1 else [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=6)
    print(f"{name}, opset {opset}: {show(model, values)}")
    for newer in 13, 21:
        print(f"    by opset {newer}: {show(version_converter.convert_version(model, newer), values)}")
END
"$work/venv/bin/python" -W ignore "$work/opsets.py" >"$work/out"
compare "$work/out"
