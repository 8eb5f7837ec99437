#!/usr/bin/env bash
# ai-edge-litert 2.3.0 (LiteRT, once TensorFlow Lite), tflite-micro 0.dev20261023182759, flatbuffers 25.12.19 and numpy 2.4.6 (PyPI): the operator that makes
# small integers of floats at the entrance of a model (QUANTIZE), and RELU6 of such integers, by the kernels of LiteRT and of a microcontroller.
# Expected: a number that is too large becomes the largest integer, as clamping is part of QUANTIZE; a runtime for microcontrollers gives what LiteRT gives.
# Seen: it is so up to 2^31 steps, and above the result is the smallest: at a scale of 0.001, 2,000,000 is 127 and 3,000,000 is -128, as are infinity and NaN.
# So it is on microcontrollers, in the kernels of LiteRT without XNNPACK, and for 16 bits by default too. A sensor that fails at its upper end looks like one at
# its lower end, and a test on a desktop with 8 bits does not find it. RELU6 for microcontrollers passes by the scales of its input and output, which
# may differ by the format: 0.25 is 3.325, and -1 is 3.2, with success.
. "$(dirname "$0")/common.sh"
recorded <<'END'
QUANTIZE to int8, scale 0.001, of 0.1, 5, 2e+06, 3e+06, inf, nan, -3e+06
    LiteRT: 100, 127, 127, 127, 127, 127, -128
    LiteRT without XNNPACK: 100, 127, 127, -128, -128, -128, -128
    microcontroller: 100, 127, 127, -128, -128, -128, -128
QUANTIZE to int16, scale 1e-05, of 0.1, 5, 20000, 30000, inf, nan, -30000
    LiteRT: 10000, 32767, 32767, -32768, -32768, -32768, -32768
    LiteRT without XNNPACK: 10000, 32767, 32767, -32768, -32768, -32768, -32768
    microcontroller: 10000, 32767, 32767, -32768, -32768, -32768, -32768
RELU6 of int8, of -1, 0.25, 6.35, with scales 0.05 and 0.025
    LiteRT: 0, 0.25, 6
    LiteRT without XNNPACK: 0, 0.25, 6
    microcontroller: 3.2, 3.325, 6.2
END
venv "$work/venv" ai-edge-litert==2.3.0 tflite-micro==0.dev20261023182759 flatbuffers==25.12.19 numpy==2.4.6
cat >"$work/models.py" <<'END'
import math

import flatbuffers
import numpy
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from tflite_micro.python.tflite_micro import runtime

TYPES = {"float32": schema.TensorType.FLOAT32, "int8": schema.TensorType.INT8, "int16": schema.TensorType.INT16}


def model(operator, given, wanted):
    """A model of one operator, from and to a type, a scale and a zero point."""
    whole, graph, code, call = schema.ModelT(), schema.SubGraphT(), schema.OperatorCodeT(), schema.OperatorT()
    code.builtinCode = code.deprecatedBuiltinCode = operator
    code.version = 2
    graph.tensors, whole.buffers = [], [schema.BufferT()]
    for name, (size, kind, scale, zero) in (("x", given), ("y", wanted)):
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type, tensor.buffer = name, [size], TYPES[kind], len(whole.buffers)
        if scale:
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale, tensor.quantization.zeroPoint = [scale], [zero]
        graph.tensors.append(tensor)
        whole.buffers.append(schema.BufferT())
    call.opcodeIndex, call.inputs, call.outputs = 0, [0], [1]
    graph.inputs, graph.outputs, graph.operators, graph.name = [0], [1], [call], "main"
    whole.version, whole.subgraphs, whole.operatorCodes = 3, [graph], [code]
    builder = flatbuffers.Builder(0)
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def results(content, x):
    for name, kernels in ("LiteRT", OpResolverType.AUTO), ("LiteRT without XNNPACK", OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES):
        interpreter = Interpreter(model_content=content, experimental_op_resolver_type=kernels)
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
        interpreter.invoke()
        yield name, interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    interpreter = runtime.Interpreter.from_bytes(content)
    interpreter.set_input(x, 0)
    interpreter.invoke()
    yield "microcontroller", interpreter.get_output(0)


def listed(numbers):
    return ", ".join(f"{number:g}" for number in numbers)


for kind, scale, large in ("int8", 0.001, 1e6), ("int16", 1e-5, 1e4):
    x = numpy.array([0.1, 5, 2 * large, 3 * large, math.inf, math.nan, -3 * large], "float32")
    print(f"QUANTIZE to {kind}, scale {scale}, of {listed(x)}")
    for name, y in results(model(schema.BuiltinOperator.QUANTIZE, (len(x), "float32", 0, 0), (len(x), kind, scale, 0)), x):
        print(f"    {name}: {listed(y)}")
x = numpy.array([-20, 5, 127], "int8")
print(f"RELU6 of int8, of {listed(x * 0.05)}, with scales 0.05 and 0.025")
for name, y in results(model(schema.BuiltinOperator.RELU6, (3, "int8", 0.05, 0), (3, "int8", 0.025, -128)), x):
    print(f"    {name}: {listed((y + 128.0) * 0.025)}")
END
"$work/venv/bin/python" "$work/models.py" >"$work/out" 2>"$work/errors"
compare "$work/out"
