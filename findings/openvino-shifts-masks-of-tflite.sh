#!/usr/bin/env bash
# openvino 2026.4.1, which reads models of TensorFlow Lite, ai-edge-litert 2.3.0 (LiteRT), flatbuffers 25.12.19 and numpy 2.4.6 (PyPI), on a CPU: the operator
# that makes images larger or smaller (RESIZE) in one model, by its modes. The input has the numbers 0, 1, 2, … in a row.
# Expected: both give the same pixels: half_pixel_centers, which models of TensorFlow 2 have, says that pixels are placed by their centres.
# Seen: for the nearest pixel OpenVINO passes by it, without a word, and takes pixels by their corners; linear images are right. A mask of a segmentation is
# shifted by up to half of a pixel of the smaller image, and is as large as the right one. The normalization of vectors (L2_NORM) adds up to another
# least length: a vector of 1e-8 is a thousand times smaller.
. "$(dirname "$0")/common.sh"
recorded <<'END'
nearest_neighbor, 6 to 3: LiteRT 0 2 4, OpenVINO the same
nearest_neighbor, 3 to 5: LiteRT 0 0 1 1 2, OpenVINO the same
nearest_neighbor, align_corners, 6 to 3: LiteRT 0 3 5, OpenVINO the same
nearest_neighbor, align_corners, 3 to 5: LiteRT 0 1 1 2 2, OpenVINO the same
nearest_neighbor, half_pixel_centers, 6 to 3: LiteRT 1 3 5, OpenVINO 0 2 4
nearest_neighbor, half_pixel_centers, 3 to 5: LiteRT 0 0 1 2 2, OpenVINO 0 0 1 1 2
bilinear, 6 to 3: LiteRT 0 2 4, OpenVINO the same
bilinear, 3 to 5: LiteRT 0 0.6 1.2 1.8 2, OpenVINO the same
bilinear, align_corners, 6 to 3: LiteRT 0 2.5 5, OpenVINO the same
bilinear, align_corners, 3 to 5: LiteRT 0 0.5 1 1.5 2, OpenVINO the same
bilinear, half_pixel_centers, 6 to 3: LiteRT 0.5 2.5 4.5, OpenVINO the same
bilinear, half_pixel_centers, 3 to 5: LiteRT 0 0.4 1 1.6 2, OpenVINO the same
normalization of (3, 4): LiteRT 0.6 0.8, OpenVINO the same
normalization of (0.003, 0.004): LiteRT 0.6 0.8, OpenVINO the same
normalization of (3e-08, 4e-08): LiteRT 0.03 0.04, OpenVINO 3e-05 4e-05
END
venv "$work/venv" openvino==2026.4.1 ai-edge-litert==2.3.0 flatbuffers==25.12.19 numpy==2.4.6
cat >"$work/models.py" <<'END'
import sys

import flatbuffers
import numpy
import openvino
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

path = sys.argv[1] + "/model.tflite"


def model(operator, options, shapes, constant=None):
    """A model of one operator of floats with these options, and a constant of integers as its second input."""
    whole, graph, code, call = schema.ModelT(), schema.SubGraphT(), schema.OperatorCodeT(), schema.OperatorT()
    code.builtinCode = code.deprecatedBuiltinCode = operator
    code.version = 3 if constant else 1
    graph.tensors, whole.buffers = [], [schema.BufferT()]
    tensors = [(shape, schema.TensorType.FLOAT32, None) for shape in shapes]
    if constant:
        tensors.append(([len(constant)], schema.TensorType.INT32, numpy.frombuffer(numpy.array(constant, "int32").tobytes(), "uint8")))
    for name, (shape, kind, content) in zip("xyz", tensors):
        tensor, buffer = schema.TensorT(), schema.BufferT()
        tensor.name, tensor.shape, tensor.type, tensor.buffer, buffer.data = name, shape, kind, len(whole.buffers), content
        graph.tensors.append(tensor)
        whole.buffers.append(buffer)
    call.opcodeIndex, call.inputs, call.outputs = 0, [0, 2] if constant else [0], [1]
    call.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__[:-1])
    call.builtinOptions = options
    graph.inputs, graph.outputs, graph.operators, graph.name = [0], [1], [call], "main"
    whole.version, whole.subgraphs, whole.operatorCodes = 3, [graph], [code]
    builder = flatbuffers.Builder(0)
    builder.Finish(whole.Pack(builder), b"TFL3")
    with open(path, "wb") as file:
        file.write(builder.Output())


def show(name, x):
    interpreter = Interpreter(model_path=path)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    right = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    seen = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(x)[0]
    print(f"{name}: LiteRT {listed(right)}, OpenVINO {'the same' if numpy.allclose(right, seen, rtol=1e-5) else listed(seen)}")


def listed(numbers):
    return " ".join(f"{number:.4g}" for number in numbers.ravel())


for kind, options in ("NEAREST_NEIGHBOR", schema.ResizeNearestNeighborOptionsT), ("BILINEAR", schema.ResizeBilinearOptionsT):
    for mode in "", "align_corners", "half_pixel_centers":
        for before, after in (6, 3), (3, 5):
            chosen = options()
            chosen.alignCorners, chosen.halfPixelCenters = (mode == each for each in ("align_corners", "half_pixel_centers"))
            model(getattr(schema.BuiltinOperator, "RESIZE_" + kind), chosen, [[1, 1, before, 1], [1, 1, after, 1]], [1, after])
            show(f"{kind.lower()}{', ' * bool(mode)}{mode}, {before} to {after}", numpy.arange(before, dtype="float32").reshape(1, 1, before, 1))
for length in 1, 1e-3, 1e-8:
    chosen = schema.L2NormOptionsT()
    model(schema.BuiltinOperator.L2_NORMALIZATION, chosen, [[1, 2], [1, 2]])
    show(f"normalization of ({3 * length:g}, {4 * length:g})", numpy.array([[3 * length, 4 * length]], "float32"))
END
"$work/venv/bin/python" "$work/models.py" "$work" >"$work/out" 2>"$work/errors"
compare "$work/out"
