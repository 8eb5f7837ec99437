#!/usr/bin/env bash
# openvino 2026.4.1 and onnx 1.23.2 (PyPI), with the plug-in for CPUs. A model is a file of operations and a file of weights: IR (m.xml, m.bin) or ONNX
# with external data (m.onnx, m.onnx.data). The second version of the model has other weights, and the same operations.
# Expected: a cache of compiled models (CACHE_DIR) is keyed by the model: other weights are compiled again, also where their file alone was replaced, as
# Git and rsync replace only what has changed. A model that was moved is found.
# Seen: compile_model of a path has a key of the path, the size and the time of the file with the operations. The file with the weights is not looked at:
# the program goes on to compute with the old weights, with success, as long as the cache is there, also if the weights are not kept in it
# (OPTIMIZE_SIZE). Where all files have one time, as in trees of OSTree and Nix, it is so as well if both files are replaced. A model that was
# moved is compiled again. read_model first, and compile_model of what it gives, looks at all, and finds the model that was moved.
. "$(dirname "$0")/common.sh"
recorded <<'END'
m.xml, by path, weights of version 2 alone: 64 (from the cache)
m.xml, by path, all files of version 2: 128 (compiled)
m.xml, by path, all files of version 2 with the time of version 1: 64 (from the cache)
m.xml, by path, version 1 in another directory: 64 (compiled)
m.onnx, by path, weights of version 2 alone: 64 (from the cache)
m.onnx, by path, all files of version 2: 128 (compiled)
m.onnx, by path, all files of version 2 with the time of version 1: 64 (from the cache)
m.onnx, by path, version 1 in another directory: 64 (compiled)
m.xml, by path, OPTIMIZE_SIZE, weights of version 2 alone: 64 (from the cache)
m.xml, by path, OPTIMIZE_SIZE, all files of version 2: 128 (compiled)
m.xml, by path, OPTIMIZE_SIZE, all files of version 2 with the time of version 1: 64 (from the cache)
m.xml, by path, OPTIMIZE_SIZE, version 1 in another directory: 64 (compiled)
m.xml, by read_model, weights of version 2 alone: 128 (compiled)
m.xml, by read_model, all files of version 2: 128 (compiled)
m.xml, by read_model, all files of version 2 with the time of version 1: 128 (compiled)
m.xml, by read_model, version 1 in another directory: 64 (from the cache)
m.onnx, by read_model, weights of version 2 alone: 128 (compiled)
m.onnx, by read_model, all files of version 2: 128 (compiled)
m.onnx, by read_model, all files of version 2 with the time of version 1: 128 (compiled)
m.onnx, by read_model, version 1 in another directory: 64 (from the cache)
END
venv "$work/venv" openvino==2026.4.1 openvino-telemetry==2025.2.0 onnx==1.23.2
cat >"$work/make.py" <<'END'
"""Writes a model that multiplies a row of ones with a column of one weight, in both forms."""

import sys

import numpy
import onnx
import openvino

directory, weight = sys.argv[1], float(sys.argv[2])
weights = numpy.full((64, 1), weight, numpy.float32)
row = openvino.opset13.parameter([1, 64], numpy.float32, name="row")
product = openvino.opset13.matmul(row, openvino.opset13.constant(weights), False, False)
openvino.save_model(openvino.Model([product], [row], "m"), f"{directory}/m.xml", compress_to_fp16=False)
tensor = onnx.TensorProto.FLOAT
graph = onnx.helper.make_graph(
    [onnx.helper.make_node("MatMul", ["row", "weights"], ["product"])],
    "m",
    [onnx.helper.make_tensor_value_info("row", tensor, [1, 64])],
    [onnx.helper.make_tensor_value_info("product", tensor, [1, 1])],
    [onnx.numpy_helper.from_array(weights, "weights")],
)
model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
onnx.save(model, f"{directory}/m.onnx", save_as_external_data=True, location="m.onnx.data", size_threshold=0)
END
cat >"$work/run.py" <<'END'
import sys

import numpy
import openvino

path, cache, mode, how = sys.argv[1:]
core = openvino.Core()
model = core.read_model(path) if how == "read_model" else path
compiled = core.compile_model(model, "CPU", {"CACHE_DIR": cache, "CACHE_MODE": mode})
source = "from the cache" if compiled.get_property("LOADED_FROM_CACHE") else "compiled"
print(f"{compiled(numpy.ones((1, 64), numpy.float32))[0].item():g} ({source})")
END
python=$work/venv/bin/python
for version in 1 2; do
    mkdir "$work/$version"
    "$python" "$work/make.py" "$work/$version" $version >&2
done
for file in m.xml m.onnx; do
    cmp "$work/1/$file" "$work/2/$file" >&2 || unavailable "$file is not the same for other weights"
done
run() { # FILE: the result by way of the cache
    "$python" "$work/run.py" "$work/live/$1" "$work/cache" "$mode" "$how"
}
first() { # installs the first version, and runs it
    rm -rf "$work/live" "$work/moved" "$work/cache"
    cp -r "$work/1" "$work/live"
    find "$work/live" -exec touch -d @1 {} +
    run "$1" >&2
}
show() { # FILE WEIGHTS OPTIONS
    first "$1"
    cp "$work/2/$2" "$work/live"
    echo "$1, $3, weights of version 2 alone: $(run "$1")"
    first "$1"
    cp "$work/2/"* "$work/live"
    echo "$1, $3, all files of version 2: $(run "$1")"
    first "$1"
    cp "$work/2/"* "$work/live"
    find "$work/live" -exec touch -d @1 {} +
    echo "$1, $3, all files of version 2 with the time of version 1: $(run "$1")"
    first "$1"
    mv "$work/live" "$work/moved"
    echo "$1, $3, version 1 in another directory: $("$python" "$work/run.py" "$work/moved/$1" "$work/cache" "$mode" "$how")"
}
{
    mode=OPTIMIZE_SPEED how=path
    show m.xml m.bin "by path"
    show m.onnx m.onnx.data "by path"
    mode=OPTIMIZE_SIZE
    show m.xml m.bin "by path, OPTIMIZE_SIZE"
    mode=OPTIMIZE_SPEED how=read_model
    show m.xml m.bin "by read_model"
    show m.onnx m.onnx.data "by read_model"
} >"$work/out"
compare "$work/out"
