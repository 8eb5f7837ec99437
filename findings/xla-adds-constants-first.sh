#!/usr/bin/env bash
# jax and jaxlib 0.10.2 (PyPI), on a CPU: functions with and without jax.jit.
# Expected: what XLA compiles gives the floats of each step, as IEEE 754 says: its switch for fast math is off, and jit changes when a function is
# computed, not what it is.
# Seen: constants are taken together first. (x + 12582912) - 12582912, by which floats are rounded to integers, is x after jit, the kernel is a copy, and so are
# x * 3 / 3 and, in float16, (x + 2048) - 2048; log(exp(x)) is x where exp overflows. A product of float16 that overflows before it is divided
# is infinity without jit, and finite with it. So code that quantizes, splits floats or looks for overflow passes tests step by step, and does
# something else when compiled.
. "$(dirname "$0")/common.sh"
recorded <<'END'
(x + 12582912) - 12582912: step by step 1 0 3 0, by jit 1 0.1 3.3 0.001
(x + 1e8) - 1e8: step by step 0 0 0 0, by jit 1 0.1 3.3 0.001
(x + 2048) - 2048 in float16: step by step 0 0 4 0, by jit 1 0.1 3.3 0.001
log(exp(100 x)): step by step inf 10 inf 0.1, by jit 100 10 330 0.1
300 * 300 / 300 in float16: step by step inf, by jit 300
x / x of 0: step by step nan, by jit nan
the first one by jit: parameter, copy
END
venv "$work/venv" jax==0.10.2 jaxlib==0.10.2 scipy==1.17.1 opt_einsum==3.4.0 numpy==2.4.6
cat >"$work/constants.py" <<'END'
import re

import jax
import numpy
from jax import numpy as jnp

x = jnp.float32([1, 0.1, 3.3, 1e-3])
half = jnp.float16


def rounded(x):
    return (x + 12582912.0) - 12582912.0


for name, function, values in (
    ("(x + 12582912) - 12582912", rounded, x),
    ("(x + 1e8) - 1e8", lambda x: (x + 1e8) - 1e8, x),
    ("(x + 2048) - 2048 in float16", lambda x: (x + 2048) - 2048, x.astype(half)),
    ("log(exp(100 x))", lambda x: jnp.log(jnp.exp(x * 100)), x),
    ("300 * 300 / 300 in float16", lambda x: x * half(300) / half(300), half([300])),
    ("x / x of 0", lambda x: x / x, x[:1] * 0),
):
    results = (" ".join(f"{number:.3g}" for number in numpy.asarray(run(values))) for run in (function, jax.jit(function)))
    print(f"{name}: step by step {next(results)}, by jit {next(results)}")
text = jax.jit(rounded).lower(x).compile().as_text().partition("\nENTRY")[2]
print(f"the first one by jit: {', '.join(re.findall(r'} ([a-z]+)[(]', text))}")
END
JAX_PLATFORMS=cpu "$work/venv/bin/python" -W ignore "$work/constants.py" >"$work/out"
compare "$work/out"
