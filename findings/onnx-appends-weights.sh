#!/usr/bin/env bash
# onnx 1.23.2 (PyPI), which saves a model with its weights in a file next to it (save_as_external_data), three times, from two working
# directories.
# Expected: a model that is saved again under its name replaces the file with its weights, as it replaces the one with its operations; or
# this is an error wherever the program runs.
# Seen: the weights are appended, with success: the file holds those of all versions, of which the model names the last. So a program that
# saves the best model so far has a file that grows by all of its weights each time. Only where the program runs in the directory of the
# model, it is an error: whether the file exists is asked of the working directory. So a file of that name there, whatever it is, is an
# error, too. Without a name for the file, each time leaves another file.
. "$(dirname "$0")/common.sh"
recorded <<'END'
in another directory: 1 MB of weights, 2 MB of weights, 3 MB of weights, in 1 file; the model reads the last
in another directory, with the file removed before: 1 MB of weights, 1 MB of weights, 1 MB of weights, in 1 file; the model reads the last
in the directory of the model: 1 MB of weights, FileExistsError, FileExistsError, in 1 file; the model reads the first
in another directory, where a file has that name: FileExistsError, FileExistsError, FileExistsError, in 0 files
in another directory, without a name: 1 MB of weights, 2 MB of weights, 3 MB of weights, in 3 files; the model reads the last
END
venv "$work/venv" onnx==1.23.2 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - "$work" >"$work/out" <<'END'
import os
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper


def model(weight):
    weights = numpy_helper.from_array(numpy.full(250_000, weight, numpy.float32), "w")
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [250_000])
    return helper.make_model(helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "graph", [], [output], [weights]))


def show(what, place, location="m.onnx.data", remove=False):
    """Saves three versions to a new directory, by a program that runs at `place`."""
    directory = f"{sys.argv[1]}/{what}"
    os.mkdir(directory)
    os.chdir(place or directory)

    def weights():
        return [os.path.join(directory, name) for name in os.listdir(directory) if name != "m.onnx"]

    seen = []
    for version in (1, 2, 3):
        if remove:
            for path in weights():
                os.remove(path)
        try:
            onnx.save(model(version), f"{directory}/m.onnx", save_as_external_data=True, location=location)
            seen.append(f"{sum(map(os.path.getsize, weights())) / 1e6:.0f} MB of weights")
        except FileExistsError:
            seen.append("FileExistsError")
    files = len(weights())
    line = f"{what}: {', '.join(seen)}, in {files} file{'s' if files != 1 else ''}"
    if files:
        read = numpy_helper.to_array(onnx.load(f"{directory}/m.onnx").graph.initializer[0])[0]
        line += f"; the model reads the {({1: 'first', 2: 'second', 3: 'last'})[int(read)]}"
    print(line)


other = f"{sys.argv[1]}/other"
os.mkdir(other)
show("in another directory", other)
show("in another directory, with the file removed before", other, remove=True)
show("in the directory of the model", None)
open(f"{other}/m.onnx.data", "w").close()
show("in another directory, where a file has that name", other)
show("in another directory, without a name", other, location=None)
END
compare "$work/out"
