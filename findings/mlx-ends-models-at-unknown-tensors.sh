#!/usr/bin/env bash
# mlx 0.32.4 with mlx-cpu, gguf 0.19.0 and numpy 2.4.6 (PyPI), on a CPU: models for llama.cpp (GGUF), written by the package of llama.cpp
# and read by mlx.load.
# Expected: all tensors are there, bfloat16 as bfloat16, which mlx has; or an error names the tensor whose form mlx does not know, as it is
# for blocks of five bits (Q5_0).
# Seen: at the first tensor of a newer form (MXFP4, TQ1_0, TQ2_0) the reading ends, with success. That tensor is missing, and so are all
# behind it, also those of floats: a model that starts with one has no tensor at all. MXFP4 is the form of the gpt-oss models. bfloat16
# becomes float16 (the third tensor), without a word: 70000 and 3e38 are infinity, and 1e-9 is 0. mlx reads bfloat16 from safetensors as it is.
. "$(dirname "$0")/common.sh"
recorded <<'END'
the second of four is F16: first float16, second float16, third float16, last float32
the second of four is Q8_0: first float16, second uint32, third float16, last float32
the second of four is Q5_0: an error
the second of four is MXFP4: first float16
the second of four is TQ1_0: first float16
the second of four is TQ2_0: first float16
1e-09, 70000, 3e+38 of bfloat16 from GGUF: float16, 0, inf, inf
1e-09, 70000, 3e+38 of bfloat16 from safetensors: bfloat16, 9.96806e-10, 70144, 3.00406e+38
END
venv "$work/venv" mlx==0.32.4 mlx-cpu==0.32.4 gguf==0.19.0 numpy==2.4.6
cat >"$work/read.py" <<'END'
import sys

import gguf
import mlx.core as mx
import numpy
from gguf import GGMLQuantizationType as Form

mx.set_default_device(mx.cpu)
path = sys.argv[1] + "/model"


def read(tensors):
    """What mlx reads of a GGUF file with these tensors: a name, numbers and a form each."""
    writer = gguf.GGUFWriter(path + ".gguf", "llama")
    for name, numbers, form in tensors:
        writer.add_tensor(name, gguf.quants.quantize(numbers, form), raw_dtype=form)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return mx.load(path + ".gguf")


def word(kind):
    return str(kind).rpartition(".")[2]


ones = numpy.ones((2, 256), "float32")
for form in Form.F16, Form.Q8_0, Form.Q5_0, Form.MXFP4, Form.TQ1_0, Form.TQ2_0:
    tensors = ("first", Form.F16), ("second", form), ("third", Form.BF16), ("last", Form.F32)
    try:
        model = read([(name, ones, kind) for name, kind in tensors])
        seen = ", ".join(f"{name} {word(model[name].dtype)}" for name, _ in tensors if name in model)
    except RuntimeError:
        seen = "an error"
    print(f"the second of four is {form.name}: {seen}")
numbers = numpy.array([1e-9, 70000, 3e38], "float32")
mx.save_safetensors(path + ".safetensors", {"x": mx.array(numbers).astype(mx.bfloat16)})
for form, array in ("GGUF", read([("x", numbers, Form.BF16)])["x"]), ("safetensors", mx.load(path + ".safetensors")["x"]):
    seen = numpy.array(array.astype(mx.float32))
    print(f"{', '.join(f'{x:g}' for x in numbers)} of bfloat16 from {form}: {word(array.dtype)}, {', '.join(f'{x:g}' for x in seen)}")
END
"$work/venv/bin/python" -W ignore "$work/read.py" "$work" >"$work/out"
compare "$work/out"
