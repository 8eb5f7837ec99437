#!/usr/bin/env bash
# onnxruntime-qnn 2.7.0, which has Qualcomm's compiler for its NPU (HTP), and onnxruntime 1.32.0 (PyPI), on a machine without one.
# Expected: to compile in advance (ep.context_enable), the NPU has to be named. Without a name, with an unknown one, or with a chip (soc_model) that has
# another NPU than the one that is named (htp_arch), there is no code, as for an unknown chip.
# Seen: without a name and with an unknown one, which is a warning, the code is for v68, the oldest, of an unknown chip, with success: "v73" is such a
# name, 73 is not. Misspelt options are taken. Of a chip and another NPU, the chip counts without a word. With htp_arch=73 alone, the code
# uses 4 MB of the fast memory, where with a chip that has v73 it uses 8.
. "$(dirname "$0")/common.sh"
recorded <<'END'
nothing: code for UNKNOWN_SDM, v68, 4 MB
htp_arch=68: code for SM8350, v68, 4 MB
htp_arch=73: code for SM8550, v73, 4 MB
htp_arch=v73: code for UNKNOWN_SDM, v68, 4 MB; Invalid HTP architecture: v73
htp_arch=99: code for UNKNOWN_SDM, v68, 4 MB; Invalid HTP architecture: 99
htp_arc=73: code for UNKNOWN_SDM, v68, 4 MB
soc_model=60: code for SC8380XP, v73, 8 MB
htp_arch=68 soc_model=60: code for SC8380XP, v73, 8 MB
soc_model=99999: no code; QNN_DEVICE_ERROR_INVALID_CONFIG
END
venv "$work/venv" onnxruntime-qnn==2.7.0 onnxruntime==1.32.0 onnx==1.22.0 numpy==2.4.6
cat >"$work/compile.py" <<'END'
import contextlib
import os
import re
import sys

import numpy
import onnx
import onnxruntime
import onnxruntime_qnn
from onnx import TensorProto, helper, numpy_helper

weights = numpy_helper.from_array(numpy.ones((16, 3, 3, 3), numpy.float32), "w")
graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], "graph",
                          [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 32, 32])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, 32, 32])], [weights])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "model.onnx")
options = onnxruntime.SessionOptions()
for name, value in ("enable", "1"), ("file_path", "context.onnx"), ("embed_mode", "0"):
    options.add_session_config_entry(f"ep.context_{name}", value)
onnxruntime.register_execution_provider_library(onnxruntime_qnn.EP_NAME, onnxruntime_qnn.get_library_path())
device = next(device for device in onnxruntime.get_ep_devices() if device.ep_name == onnxruntime_qnn.EP_NAME)
choices = dict(argument.split("=") for argument in sys.argv[1:])
options.add_provider_for_devices([device], {"backend_path": onnxruntime_qnn.get_qnn_htp_path(), **choices})
onnxruntime.InferenceSession("model.onnx", options)
with contextlib.suppress(FileNotFoundError):
    text = open("context_qnn.bin", "rb").read().decode("latin1")
    chip, kind, memory = (re.search(rf"{name}=(\w+)", text)[1] for name in ("soc_type", ";arch", "vtcm_size"))
    print(f"code for {chip}, v{kind}, {int(memory) >> 20} MB")
END
show() { # OPTION…
    rm -f "$work"/context*
    (cd "$work" && venv/bin/python compile.py "$@" >printed 2>messages)
    echo "${*:-nothing}: $(grep '^code' "$work/printed" || echo no code)" \
        "$(grep -Eo 'Invalid HTP architecture: \w+|QNN_DEVICE_ERROR_INVALID_CONFIG' "$work/messages" | head -1)"
}
{
    show
    show htp_arch=68
    show htp_arch=73
    show htp_arch=v73
    show htp_arch=99
    show htp_arc=73
    show soc_model=60
    show htp_arch=68 soc_model=60
    show soc_model=99999
} | sed 's/ $//; s/ \(Invalid\|QNN_\)/; \1/' >"$work/out"
compare "$work/out"
