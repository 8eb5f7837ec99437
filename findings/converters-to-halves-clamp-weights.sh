#!/usr/bin/env bash
# openvino 2026.4.1, onnxconverter-common 1.16.0, onnxruntime 1.32.0 (transformers.float16) and coremltools 9.0 (PyPI): four that save the
# weights of a model of floats as float16. That is the default of OpenVINO's save_model and of coremltools.
# Expected: a weight that float16 has no number for (above 65504, as -1e9 in a mask, or a scale of 1e6) stays a float, or becomes infinity,
# which is seen in the output; or there is a warning. A small one becomes 0.
# Seen: OpenVINO writes 65504 for it without a word, where less than three quarters of a tensor are out of range, and else keeps floats.
# onnxruntime writes 65504 and raises small weights to 6e-8. onnxconverter-common writes 10000, also for 60000, which float16 has, and 1e-7,
# with warnings. coremltools leaves the operator in floats. So one model has three results behind four converters, none of which is
# infinite.
. "$(dirname "$0")/common.sh"
recorded <<'END'
the weights: 1e+06 -1e+09 6e+04 1 1e-09 0.5 2 3
openvino: float16 6.55e+04 -6.55e+04 6e+04 1 0 0.5 2 3; 0 warnings
onnxconverter-common: float16 1e+04 -1e+04 1e+04 1 1.19e-07 0.5 2 3; 3 warnings
onnxruntime: float16 6.55e+04 -6.55e+04 6e+04 1 5.96e-08 0.5 2 3; 0 warnings
coremltools: float32 1e+06 -1e+09 6e+04 1 1e-09 0.5 2 3; 0 warnings
openvino, 5 of 8 out of range: float16 6.55e+04 6.55e+04 6.55e+04 6.55e+04 6.55e+04 1 1 1; 0 warnings
openvino, 6 of 8 out of range: float32 1e+06 1e+06 1e+06 1e+06 1e+06 1e+06 1 1; 0 warnings
openvino, 7 of 8 out of range: float32 1e+06 1e+06 1e+06 1e+06 1e+06 1e+06 1e+06 1; 0 warnings
END
venv "$work/venv" openvino==2026.4.1 openvino-telemetry==2025.2.0 onnx==1.22.0 onnxconverter-common==1.16.0 onnxruntime==1.32.0 numpy==2.4.6 \
    coremltools==9.0 cattrs==26.2.1 attrs==26.1.0 pyaml==26.7.0 tqdm==4.70.1
cat >"$work/halves.py" <<'END'
import logging
import os
import warnings

import numpy
import onnx
import openvino
from onnx import TensorProto, helper, numpy_helper
from onnxconverter_common import float16 as common
from onnxruntime.transformers import float16 as transformers

logging.disable(logging.ERROR)
import coremltools  # noqa: E402 - it logs while it is imported
from coremltools.converters.mil import Builder  # noqa: E402

weights = numpy.array([1e6, -1e9, 60000, 1, 1e-9, 0.5, 2, 3], numpy.float32)
value = helper.make_tensor_value_info
graph = helper.make_graph(
    [helper.make_node("Mul", ["x", "weights"], ["y"])],
    "g",
    [value("x", TensorProto.FLOAT, [8])],
    [value("y", TensorProto.FLOAT, [8])],
    [numpy_helper.from_array(weights, "weights")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def by_openvino(array):
    source = openvino.opset13.parameter(array.shape, numpy.float32)
    product = openvino.opset13.multiply(source, openvino.opset13.constant(array))
    openvino.save_model(openvino.Model([product], [source], "m"), "m.xml")
    constant = next(node for node in openvino.Core().read_model("m.xml").get_ops() if node.get_type_name() == "Constant")
    return constant.get_data()


def by_onnx(converter):
    converted = converter.convert_float_to_float16(onnx.ModelProto.FromString(model.SerializeToString()))
    return numpy_helper.to_array(converted.graph.initializer[0])


def by_coremltools(array):
    @Builder.program(input_specs=[Builder.TensorSpec(shape=array.shape)])
    def program(x):
        return Builder.mul(x=x, y=array)

    converted = coremltools.convert(program, convert_to="mlprogram")
    product = next(step for step in converted._mil_program.functions["main"].operations if step.op_type == "mul")
    return product.y.val


def show(name, function, argument):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(argument)
    said = sum("truncated" in str(warning.message) for warning in caught)
    print(f"{name}: {result.dtype} {' '.join(f'{number:.3g}' for number in result)}; {said} warnings")


os.environ["TQDM_DISABLE"] = "1"
print(f"the weights: {' '.join(f'{number:.3g}' for number in weights)}")
show("openvino", by_openvino, weights)
show("onnxconverter-common", by_onnx, common)
show("onnxruntime", by_onnx, transformers)
show("coremltools", by_coremltools, weights)
for count in 5, 6, 7:
    array = numpy.where(numpy.arange(8) < count, numpy.float32(1e6), numpy.float32(1))
    show(f"openvino, {count} of 8 out of range", by_openvino, array)
END
(cd "$work" && venv/bin/python halves.py) >"$work/out"
compare "$work/out"
