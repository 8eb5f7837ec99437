#!/usr/bin/env bash
# jax 0.10.2 with jaxlib 0.10.2, ml_dtypes 0.6.0 and numpy 2.4.6 (PyPI), on a CPU: integers of 2 and 4 bits, with and without jax.jit.
# Expected: jax.jit changes no integers: 1 + 1 of int2 is -2, and -(-8) of int4 is -8, in each place of an expression.
# Seen: inside of jax.jit, a number of few bits lies in a byte, and is cut when it is stored or by some operators. -8 + -8 of int4, read as int8, is -16, where
# it is 0 by operators alone, and -(-8) is 8, numbers that int4 does not have; read as float32 it is right. The maximum of x + x of int2 is -2
# in place of 0, and that of int4 is right.
. "$(dirname "$0")/common.sh"
recorded <<'END'
max(x + x) of int2, x = [-2, -1, 0, 1]: 0, by jit -2
max(x + x) of int4, x = [-8, -5, 0, 7]: 6, by jit 6
(-x) as int8 of int4, x = [-8, -7, 7]: [-8  7 -7], by jit [ 8  7 -7]
(-x) as float32 of int4, x = [-8, -7, 7]: [-8  7 -7], by jit [-8  7 -7]
(x + x) as int8 of int4, x = [-8, -5, 7]: [ 0  6 -2], by jit [-16 -10  14]
END
venv "$work/venv" jax==0.10.2 jaxlib==0.10.2 ml_dtypes==0.6.0 numpy==2.4.6
cat >"$work/bits.py" <<'END'
import jax
import jax.numpy as jnp
import numpy


def show(name, function, kind, values):
    array = jnp.array(numpy.array(values)).astype(kind)
    texts = (str(numpy.asarray(call(array)).astype(int)) for call in (function, jax.jit(function)))
    print(f"{name} of {kind.__name__}, x = {values}: {next(texts)}, by jit {next(texts)}")


show("max(x + x)", lambda x: jax.lax.reduce_max(x + x, (0,)), jnp.int2, [-2, -1, 0, 1])
show("max(x + x)", lambda x: jax.lax.reduce_max(x + x, (0,)), jnp.int4, [-8, -5, 0, 7])
show("(-x) as int8", lambda x: (-x).astype(jnp.int8), jnp.int4, [-8, -7, 7])
show("(-x) as float32", lambda x: (-x).astype(jnp.float32), jnp.int4, [-8, -7, 7])
show("(x + x) as int8", lambda x: (x + x).astype(jnp.int8), jnp.int4, [-8, -5, 7])
END
"$work/venv/bin/python" -W ignore "$work/bits.py" 2>/dev/null >"$work/out"
compare "$work/out"
