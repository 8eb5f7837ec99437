#!/usr/bin/env bash
# ethos-u-vela 5.2.0, Arm's compiler of models for its NPUs, and tflite 2.18.0 (PyPI), which writes models.
# Expected: a model of which nothing can run on the NPU is an error, and so is a model that was compiled before, for another NPU.
# Seen: both give a file that is named as a compiled one, with exit code 0. The code for an Ethos-U55 stays in the file for an Ethos-U85, where it counts as an
# operator for the CPU: only the name of the NPU in the report has changed. A model of floats has no code for the NPU at all. At most a
# warning, among others that each call prints, says that an operator is not supported.
. "$(dirname "$0")/common.sh"
recorded <<'END'
int8 for ethos-u55-128: exit code 0, report: Ethos_U55_128, CPU operators = 0,NPU operators = 1, code for Ethos-U55 with 128 multipliers
int8_vela for ethos-u55-256: exit code 0, report: Ethos_U55_256, CPU operators = 1,NPU operators = 0, code for Ethos-U55 with 128 multipliers
int8_vela for ethos-u85-256: exit code 0, report: Ethos_U85_256, CPU operators = 1,NPU operators = 0, code for Ethos-U55 with 128 multipliers
float for ethos-u85-256: exit code 0, report: Ethos_U85_256, CPU operators = 1,NPU operators = 0, code for none
END
venv "$work/venv" ethos-u-vela==5.2.0 tflite==2.18.0 flatbuffers==25.12.19 numpy==2.4.6
cat >"$work/model.py" <<'END'
import sys

import flatbuffers
import numpy
import tflite


def write(path, kind, number):
    """A model with one convolution."""
    builder = flatbuffers.Builder()

    def vector(start, items):
        start(builder, len(items))
        for item in reversed(items):
            builder.PrependUOffsetTRelative(item)
        return builder.EndVector()

    def integers(*values):
        return builder.CreateNumpyVector(numpy.array(values, numpy.int32))

    def table(name, **fields):
        getattr(tflite, f"{name}Start")(builder)
        for field, value in fields.items():
            getattr(tflite, f"{name}Add{field}")(builder, value)
        return getattr(tflite, f"{name}End")(builder)

    def tensor(name, buffer, kind, *shape):
        fields = {"Name": builder.CreateString(name), "Shape": integers(*shape)}
        if number is numpy.int8:
            scale, zero = builder.CreateNumpyVector(numpy.array([0.01], numpy.float32)), builder.CreateNumpyVector(numpy.array([0]))
            fields["Quantization"] = table("QuantizationParameters", Scale=scale, ZeroPoint=zero)
        return table("Tensor", Type=kind, Buffer=buffer, **fields)

    contents = [b"", numpy.ones((16, 3, 3, 8), number).tobytes(), numpy.zeros(16, numpy.int32).tobytes(), b""]
    contents = [builder.CreateByteVector(content) if content else None for content in contents]
    buffers = [table("Buffer", **({"Data": content} if content else {})) for content in contents]
    bias = tflite.TensorType.INT32 if number is numpy.int8 else kind
    tensors = [tensor("x", 0, kind, 1, 16, 16, 8), tensor("w", 1, kind, 16, 3, 3, 8), tensor("b", 2, bias, 16), tensor("y", 3, kind, 1, 16, 16, 16)]
    options = table("Conv2DOptions", StrideW=1, StrideH=1)
    inputs, outputs = integers(0, 1, 2), integers(3)
    operator = table("Operator", Inputs=inputs, Outputs=outputs, BuiltinOptionsType=tflite.BuiltinOptions.Conv2DOptions, BuiltinOptions=options)
    lists = {"Tensors": vector(tflite.SubGraphStartTensorsVector, tensors), "Operators": vector(tflite.SubGraphStartOperatorsVector, [operator])}
    first, last = integers(0), integers(3)
    graph = vector(tflite.ModelStartSubgraphsVector, [table("SubGraph", Inputs=first, Outputs=last, **lists)])
    code = table("OperatorCode", DeprecatedBuiltinCode=3, BuiltinCode=3, Version=3)
    codes, buffers = vector(tflite.ModelStartOperatorCodesVector, [code]), vector(tflite.ModelStartBuffersVector, buffers)
    builder.Finish(table("Model", Version=3, OperatorCodes=codes, Subgraphs=graph, Buffers=buffers), b"TFL3")
    open(path, "wb").write(builder.Output())


if len(sys.argv) == 2:
    # The second word behind the magic number of a command stream names the NPU: its generation, and the logarithm of its multipliers.
    content = open(sys.argv[1], "rb").read()
    place = content.find(b"COP1")
    word = int.from_bytes(content[place + 8 : place + 12], "little")
    print("code for none" if place < 0 else f"code for Ethos-U{(55, 65, 85)[word >> 28]} with {1 << (word & 15)} multipliers")
else:
    write("int8.tflite", tflite.TensorType.INT8, numpy.int8)
    write("float.tflite", tflite.TensorType.FLOAT32, numpy.float32)
END
python=$work/venv/bin/python
(cd "$work" && "$python" model.py write models)
show() { # MODEL NPU
    local code=0
    (cd "$work" && venv/bin/vela "$1.tflite" --output-dir . --accelerator-config "$2" >report 2>&1) || code=$?
    echo "$1 for $2: exit code $code, report: $(sed -n 's/^Accelerator configuration *//p' "$work/report")," \
        "$(sed -n 's/^\([CN]PU operators = [0-9]*\).*/\1/p' "$work/report" | paste -sd,), $(cd "$work" && "$python" model.py "$1_vela.tflite")"
}
{
    show int8 ethos-u55-128
    show int8_vela ethos-u55-256
    show int8_vela ethos-u85-256
    show float ethos-u85-256
} >"$work/out"
compare "$work/out"
