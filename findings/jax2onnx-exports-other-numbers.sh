#!/usr/bin/env bash
# jax2onnx 0.17.1, onnx 1.23.2, onnx-ir 1.1.0, onnxruntime 1.32.0, jax 0.10.2 with jaxlib 0.10.2, and numpy 2.4.6 (PyPI), on a CPU: functions of JAX, and
# the models for ONNX that are made of them.
# Expected: a model computes what its function computes, but for the last digits, or the export is refused, as it is for images with antialias.
# Seen: a slice that starts near the end is shorter, where JAX moves it back (dynamic_slice), so even the shape is another one; -1 is the last of the classes,
# where JAX has none (one_hot); halves go to even (lax.round); small numbers lose their digits (log1p, expm1), and small probabilities are 0 (erfc); the
# place of the largest passes by NaN (argmax). All with success. The same
# slice is written at the right place, and quotients and remainders are right.
. "$(dirname "$0")/common.sh"
recorded <<'END'
two of 10 20 30 40 from the fourth on: JAX 30 40, ONNX 40
two of 10 20 30 40 from -1 on: JAX 30 40, ONNX 40
two of 10 20 30 40 written from the fourth on: JAX 10 20 10 20, ONNX the same
one_hot of -1: JAX 0 0 0, ONNX 0 0 1
one_hot of 3: JAX 0 0 0, ONNX the same
lax.round of 0.5 1.5 2.5: JAX 1 2 3, ONNX 0 2 2
jnp.round of 0.5 1.5 2.5: JAX 0 2 2, ONNX the same
log1p of 1e-8: JAX 1e-08, ONNX 0
expm1 of 1e-8: JAX 1e-08, ONNX 0
erfc of 4: JAX 1.542e-08, ONNX 0
argmax of 1 NaN 3: JAX 1, ONNX 2
-7 and 7 by -3: //: JAX 2 -3, ONNX the same
-7 and 7 by -3: %: JAX -1 -2, ONNX the same
END
venv "$work/venv" jax2onnx==0.17.1 onnx==1.23.2 onnx-ir==1.1.0 onnxruntime==1.32.0 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat >"$work/functions.py" <<'END'
import math

import jax
import numpy
import onnxruntime
from jax import lax, numpy as jnp
from jax2onnx import to_onnx


def show(name, function, *arguments):
    arguments = [numpy.array(argument, kind) for argument, kind in arguments]
    right = numpy.asarray(jax.jit(function)(*arguments))
    model = to_onnx(function, [jax.ShapeDtypeStruct(argument.shape, argument.dtype) for argument in arguments])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    seen = session.run(None, {given.name: argument for given, argument in zip(session.get_inputs(), arguments)})[0]
    same = right.shape == seen.shape and numpy.allclose(right, seen, rtol=1e-5, atol=0)
    print(f"{name}: JAX {listed(right)}, ONNX {'the same' if same else listed(seen)}")


def listed(numbers):
    return " ".join(f"{number:.4g}" for number in numbers.ravel().tolist())


x = [10, 20, 30, 40], "float32"
show("two of 10 20 30 40 from the fourth on", lambda x, place: lax.dynamic_slice(x, (place[0],), (2,)), x, ([3], "int32"))
show("two of 10 20 30 40 from -1 on", lambda x, place: lax.dynamic_slice(x, (place[0],), (2,)), x, ([-1], "int32"))
show("two of 10 20 30 40 written from the fourth on", lambda x, place: lax.dynamic_update_slice(x, x[:2], (place[0],)), x, ([3], "int32"))
show("one_hot of -1", lambda x: jax.nn.one_hot(x, 3), ([-1], "int32"))
show("one_hot of 3", lambda x: jax.nn.one_hot(x, 3), ([3], "int32"))
halves = [0.5, 1.5, 2.5], "float32"
show("lax.round of 0.5 1.5 2.5", lax.round, halves)
show("jnp.round of 0.5 1.5 2.5", jnp.round, halves)
show("log1p of 1e-8", jnp.log1p, ([1e-8], "float32"))
show("expm1 of 1e-8", jnp.expm1, ([1e-8], "float32"))
show("erfc of 4", jax.scipy.special.erfc, ([4], "float32"))
show("argmax of 1 NaN 3", lambda x: jnp.argmax(x), ([1, math.nan, 3], "float32"))
show("-7 and 7 by -3: //", lambda x, y: x // y, ([-7, 7], "int32"), ([-3, -3], "int32"))
show("-7 and 7 by -3: %", lambda x, y: x % y, ([-7, 7], "int32"), ([-3, -3], "int32"))
END
"$work/venv/bin/python" -W ignore "$work/functions.py" >"$work/out" 2>"$work/errors"
compare "$work/out"
