#!/usr/bin/env bash
# paddlepaddle 3.3.1, ml_dtypes 0.6.0 and numpy 2.4.6 (PyPI), on a CPU: casts of floats to floats of 8 bits, and ReLU.
# Expected: NaN stays NaN in a format that has one, and a number that is too large becomes the largest one or NaN, by one rule for all.
# Seen: NaN becomes 448 in float8_e4m3fn, and -448 with its sign, so a lost number looks like the largest activation. 480 and all above become 448, infinity
# too; but from 464.1 to 480, where rounding reaches the code of NaN, they become NaN. In float8_e5m2 NaN stays, and infinity becomes 57344,
# for which the format has a code. relu makes 0 of NaN, and maximum(x, 0) keeps it.
. "$(dirname "$0")/common.sh"
recorded <<'END'
numbers: 448 464 465 479 480 70000 inf -inf nan
float8_e4m3fn: ml_dtypes 448 448 nan nan nan nan nan nan nan
float8_e4m3fn: paddle 448 448 nan nan 448 448 448 -448 448
float8_e5m2: ml_dtypes 448 448 448 448 512 inf inf -inf nan
float8_e5m2: paddle 448 448 448 448 512 57344 57344 -57344 nan
-nan: -448
relu: 3 0 0
maximum: 3 nan 0
END
venv "$work/venv" paddlepaddle==3.3.1 ml_dtypes==0.6.0 numpy==2.4.6
cat >"$work/casts.py" <<'END'
import math

import ml_dtypes
import numpy
import paddle

paddle.set_device("cpu")


def text(values):
    return " ".join("nan" if value != value else f"{value:g}" for value in values)


numbers = numpy.float32([448, 464, 465, 479, 480, 70000, math.inf, -math.inf, math.nan])
print("numbers:", text(numbers))
for name in "float8_e4m3fn", "float8_e5m2":
    by_paddle = paddle.to_tensor(numbers).astype(name).astype("float32").numpy()
    by_ml_dtypes = numbers.astype(getattr(ml_dtypes, name)).astype(numpy.float32)
    print(f"{name}: ml_dtypes {text(by_ml_dtypes)}")
    print(f"{name}: paddle {text(by_paddle)}")
negative = numpy.uint32([0xFFC00000]).view(numpy.float32)
print("-nan:", text(paddle.to_tensor(negative).astype("float8_e4m3fn").astype("float32").numpy()))
values = paddle.to_tensor(numpy.float32([3, math.nan, -1]))
print("relu:", text(paddle.nn.functional.relu(values).numpy()))
print("maximum:", text(paddle.maximum(values, paddle.to_tensor(0.0)).numpy()))
END
"$work/venv/bin/python" -W ignore "$work/casts.py" >"$work/out"
compare "$work/out"
