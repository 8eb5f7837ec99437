#!/usr/bin/env bash
# wgpu 0.32.0 (PyPI), which translates WGSL by naga, on lavapipe of Mesa 22.3.6 (Debian 12), which needs no GPU: a NaN of a buffer.
# Expected: x != x tells a NaN, as in each language of kernels, since WGSL has no function for it; min, max and clamp keep it or do not.
# Seen: x != x is false, as x == x and x != 7 are. !(x == x) is true, and to look at the bits finds it. min, max, clamp and saturate drop a NaN, and
# so does a product with 0. WGSL lets an implementation assume that there is no NaN, so none of it is an error, and a kernel that checks its sums by
# the usual comparison reports none.
. "$(dirname "$0")/common.sh"
recorded <<'END'
select(0.0, 1.0, x[0] != x[0]): 0
select(0.0, 1.0, x[0] == x[0]): 0
select(0.0, 1.0, !(x[0] == x[0])): 1
select(0.0, 1.0, x[0] != 7.0): 0
select(0.0, 1.0, (bitcast<u32>(x[0]) & 0x7fffffffu) > 0x7f800000u): 1
max(x[0], 2.0): 2
min(2.0, x[0]): 2
clamp(x[0], 2.0, 3.0): 2
saturate(x[0]): 0
x[0] * 0.0: 0
END
lavapipe
venv "$work/venv" wgpu==0.32.0
cat >"$work/nan.py" <<'END'
import math

import wgsl

for expression in (
    "select(0.0, 1.0, x[0] != x[0])",
    "select(0.0, 1.0, x[0] == x[0])",
    "select(0.0, 1.0, !(x[0] == x[0]))",
    "select(0.0, 1.0, x[0] != 7.0)",
    "select(0.0, 1.0, (bitcast<u32>(x[0]) & 0x7fffffffu) > 0x7f800000u)",
    "max(x[0], 2.0)",
    "min(2.0, x[0])",
    "clamp(x[0], 2.0, 3.0)",
    "saturate(x[0])",
    "x[0] * 0.0",
):
    print(f"{expression}: {wgsl.run(f'y = {expression};', math.nan)}")
END
"$work/venv/bin/python" "$work/nan.py" >"$work/out"
compare "$work/out"
