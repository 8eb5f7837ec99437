#!/usr/bin/env bash
# wgpu 0.32.0 (PyPI), which translates WGSL by naga, on lavapipe of Mesa 22.3.6 (Debian 12), which needs no GPU.
# Expected: an expression of constants has the value that it has when the kernel computes it of the same numbers, but for the last digits.
# Seen: constants are computed as Rust does it on the host, and pow, % and some functions by formulas on the device: pow(-2, 2) is 4 as a constant
# and NaN in the kernel, pow(0, 0) is 1 and 0, 1e10 % 3 is 1 and 0, and tanh of a small number 1e-8 and 2.98e-8. So a test or a kernel with its
# numbers written in it does not tell what the kernel does with those of a buffer.
. "$(dirname "$0")/common.sh"
recorded <<'END'
pow(a, b) of -2 and 2: constant 4, computed nan
pow(a, b) of 0 and 0: constant 1, computed 0
a % b of 1e+10 and 3: constant 1, computed 0
a % b of 1 and 0.1: constant 0.1, computed 0
tanh(a) * b of 1e-08 and 1: constant 1e-08, computed 2.98023e-08
atanh(a) * b of 1e-08 and 1: constant 1e-08, computed 0
exp2(a) * b of -130 and 1: constant 7.34684e-40, computed 0
round(a) * b of 2.5 and 1: constant 2, computed 2
END
lavapipe
venv "$work/venv" wgpu==0.32.0
cat >"$work/constants.py" <<'END'
import wgsl

for expression, a, b in (
    ("pow(a, b)", -2, 2),
    ("pow(a, b)", 0, 0),
    ("a % b", 1e10, 3),
    ("a % b", 1, 0.1),
    ("tanh(a) * b", 1e-8, 1),
    ("atanh(a) * b", 1e-8, 1),
    ("exp2(a) * b", -130, 1),
    ("round(a) * b", 2.5, 1),
):
    constant = wgsl.run(f"const a = f32({a}); const b = f32({b}); y = {expression};", a, b)
    computed = wgsl.run(f"let a = x[0]; let b = x[1]; y = {expression};", a, b)
    print(f"{expression} of {a:g} and {b:g}: constant {constant}, computed {computed}")
END
"$work/venv/bin/python" "$work/constants.py" >"$work/out"
compare "$work/out"
