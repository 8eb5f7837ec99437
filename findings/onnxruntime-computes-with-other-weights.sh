#!/usr/bin/env bash
# onnxruntime 1.32.0 and onnx 1.23.2 (PyPI), with two models that have their weights in a file next to them (external data), each in a
# directory.
# Expected: an optimized model that onnxruntime writes to another directory has its weights in it, or names the file that they are in.
# Seen: weights that the optimization leaves as they are stay in their file, of which the optimized model has the name alone. Where another
# model's file of that name lies, as model.onnx.data often does, it computes with those weights, with success. Where none lies, it cannot be
# loaded, which is noticed at the next start only. The format of onnxruntime itself (.ort) has the weights inside, and a setting names a
# file for them.
. "$(dirname "$0")/common.sh"
recorded <<'END'
one/model.onnx gives 64, two/model.onnx 128
one/model.onnx, optimized as one/optimized.onnx: gives 64, names its weights as model.onnx.data
one/model.onnx, optimized as two/optimized.onnx: gives 128, names its weights as model.onnx.data
one/model.onnx, optimized as empty/optimized.onnx: Fail, names its weights as model.onnx.data
one/model.onnx, optimized as two/optimized.ort: gives 64
one/model.onnx, optimized as two/named.onnx, with a file for weights: gives 64, names its weights as named.data
END
venv "$work/venv" onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
cd "$work"
mkdir one two empty
"$work/venv/bin/python" - >"$work/out" <<'END'
import os

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def save(directory, weight):
    """A model that multiplies by a matrix of this number."""
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64]) for name in ("x", "y")]
    matrix = numpy_helper.from_array(numpy.full((64, 64), weight, numpy.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["product"]), helper.make_node("Relu", ["product"], ["y"])]
    graph = helper.make_graph(nodes, "graph", sides[:1], sides[1:], [matrix])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, f"{directory}/model.onnx", save_as_external_data=True, location="model.onnx.data", size_threshold=0)


def run(path, optimized=None, weights=None):
    """What the model gives for ones, or the name of the error; may write the optimized model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if optimized:
        options.optimized_model_filepath = optimized
    if weights:
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", weights)
        options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "0")
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        return type(error).__name__
    return f"gives {session.run(None, {'x': numpy.ones((1, 64), numpy.float32)})[0][0, 0]:.0f}"


def show(optimized, weights=None):
    run("one/model.onnx", optimized, weights)
    seen = run(optimized)
    if optimized.endswith(".onnx"):
        tensor = onnx.load(optimized, load_external_data=False).graph.initializer[0]
        seen += ", names its weights as " + {entry.key: entry.value for entry in tensor.external_data}["location"]
    print(f"one/model.onnx, optimized as {optimized}{', with a file for weights' if weights else ''}: {seen}")


save("one", 1)
save("two", 2)
print(f"one/model.onnx {run('one/model.onnx')}, two/model.onnx {run('two/model.onnx').removeprefix('gives ')}")
show("one/optimized.onnx")
show("two/optimized.onnx")
show("empty/optimized.onnx")
show("two/optimized.ort")
show("two/named.onnx", "named.data")
END
compare "$work/out"
