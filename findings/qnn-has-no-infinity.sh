#!/usr/bin/env bash
# onnxruntime-qnn 2.7.0, which has Qualcomm's compiler for its NPU (HTP) and a simulator of it for x86-64, onnxruntime 1.32.0 and onnx
# 1.22.0 (PyPI).
# Expected: a model of floats is computed in float16, as is documented, whatever NPU is named. So what is above 65504 is infinity, and NaN
# stays NaN: a test in the simulator finds a model that overflows.
# Seen: only where the chip is named (soc_model) it is computed in halves, and these have no infinity: overflow gives 131008, which is no
# number of float16, and the model goes on with it. NaN becomes 65536 by Relu, 131008 by Exp, and an equal share by Softmax. Without a name,
# and with the NPU alone (htp_arch), the simulator computes in floats, so a test there finds nothing; Relu of NaN is 0. The first model of a
# process decides for all later ones: after one with the chip, that with the NPU is computed in halves, too.
. "$(dirname "$0")/common.sh"
recorded <<'END'
CPU
    x * x * x / 100000 of 1 50 100: 1e-05 1.25 10
    x + 0.0001 - x of 1 50 100: 0.0001 9.92e-05 9.92e-05
    Relu of nan inf 70000: nan inf 70000
    Exp of nan 20 1: nan 485165184 2.72
    Softmax of nan 1 nan: nan nan nan
NPU
    x * x * x / 100000 of 1 50 100: 1e-05 1.25 10
    x + 0.0001 - x of 1 50 100: 0.0001 9.92e-05 9.92e-05
    Relu of nan inf 70000: 0 inf 70000
    Exp of nan 20 1: nan 485165184 2.72
    Softmax of nan 1 nan: nan nan nan
NPU htp_arch=81
    x * x * x / 100000 of 1 50 100: 1e-05 1.25 10
    x + 0.0001 - x of 1 50 100: 0.0001 9.92e-05 9.92e-05
    Relu of nan inf 70000: 0 inf 70000
    Exp of nan 20 1: nan 485165184 2.72
    Softmax of nan 1 nan: nan nan nan
NPU soc_model=60
    x * x * x / 100000 of 1 50 100: 1e-05 1.25 1.31
    x + 0.0001 - x of 1 50 100: 0 0 0
    Relu of nan inf 70000: 65536 65536 65536
    Exp of nan 20 1: 131008 131008 2.72
    Softmax of nan 1 nan: 0.499 0 0.499
NPU htp_arch=81 after soc_model=60
    x * x * x / 100000 of 1 50 100: 1e-05 1.25 1.31
    x + 0.0001 - x of 1 50 100: 0 0 0
    Relu of nan inf 70000: 131008 131008 131008
    Exp of nan 20 1: 131008 131008 2.72
    Softmax of nan 1 nan: 0.499 0 0.499
END
venv "$work/venv" onnxruntime-qnn==2.7.0 onnxruntime==1.32.0 onnx==1.22.0 numpy==2.4.6
cat >"$work/simulate.py" <<'END'
import os
import sys

import numpy
import onnxruntime
import onnxruntime_qnn
from onnx import TensorProto, helper, numpy_helper

onnxruntime.set_default_logger_severity(4)
onnxruntime.register_execution_provider_library(onnxruntime_qnn.EP_NAME, onnxruntime_qnn.get_library_path())
device = next(device for device in onnxruntime.get_ep_devices() if device.ep_name == onnxruntime_qnn.EP_NAME)
constants = [numpy_helper.from_array(numpy.array([number], numpy.float32), name) for name, number in {"tiny": 1e-4, "fraction": 1e-5}.items()]
cube = [("Mul", "x", "x"), ("Mul", "a", "x"), ("Mul", "b", "fraction")]
models = {
    "x * x * x / 100000": (cube, [1, 50, 100]),
    "x + 0.0001 - x": ([("Add", "x", "tiny"), ("Sub", "a", "x")], [1, 50, 100]),
    "Relu": ([("Relu", "x")], [numpy.nan, numpy.inf, 70000]),
    "Exp": ([("Exp", "x")], [numpy.nan, 20, 1]),
    "Softmax": ([("Softmax", "x")], [numpy.nan, 1, numpy.nan]),
}


def model(steps):
    names = "abc"[: len(steps) - 1] + "y"
    nodes = [helper.make_node(kind, inputs, [name]) for (kind, *inputs), name in zip(steps, names)]
    source, sink = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in "xy")
    used = [constant for constant in constants if any(constant.name in step for step in steps)]
    graph = helper.make_graph(nodes, "g", [source], [sink], used)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


def run(steps, numbers, choices):
    options = onnxruntime.SessionOptions()
    if choices is None:
        session = onnxruntime.InferenceSession(model(steps), providers=["CPUExecutionProvider"])
    else:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        options.add_provider_for_devices([device], {"backend_path": onnxruntime_qnn.get_qnn_htp_path(), **choices})
        session = onnxruntime.InferenceSession(model(steps), options)
    result = session.run(None, {"x": numpy.array([numbers], numpy.float32)})[0]
    return " ".join(f"{number:.3g}" if number < 60000 else f"{number:.0f}" for number in result.flat)


choices = None if sys.argv[1] == "CPU" else dict(argument.split("=") for argument in sys.argv[2:3])
if sys.argv[3:]:
    # Another model first, for another NPU, in this process.
    run(*models["Exp"], dict([sys.argv[3].split("=")]))
results = [f"{name} of {' '.join(map(str, numbers))}: {run(steps, numbers, choices)}" for name, (steps, numbers) in models.items()]
print(" after ".join([" ".join(sys.argv[1:3]), *sys.argv[3:]]), *results, sep="\n    ")
END
show() { # CPU|NPU [CHOICE [CHOICE-BEFORE]]
    (cd "$work" && venv/bin/python simulate.py "$@" | grep -v LIBNATIVE)
}
{
    show CPU
    show NPU
    show NPU htp_arch=81
    show NPU soc_model=60
    show NPU htp_arch=81 soc_model=60
} >"$work/out"
compare "$work/out"
