#!/usr/bin/env bash
# asammdf 8.8.28 and mdfreader 4.3 (PyPI): a measurement of a car (MDF 4), in which a formula makes a physical value of the whole number of a sensor.
# Expected: both give the values of the formula: X-40 of a byte, as buses have temperatures, is -40 for 0.
# Seen: mdfreader computes in the bits of the sensor: -40 degrees are 216 and -5 are 251, and the square of 65535 is 1. asammdf computes in 32 bits, where
# that square is -131071, also if it is divided by 1000 behind that. With a point in the formula, as in X-40.0, both are right, and as a linear
# conversion too, which the format has for it. Neither gives a message.
. "$(dirname "$0")/common.sh"
recorded <<'END'
X-40 of uint8 0 35 200: -40 -5 160 by asammdf, 216 251 160 by mdfreader
X-40.0 of uint8 0 35 200: -40 -5 160 by asammdf, -40 -5 160 by mdfreader
linear, 1 and -40 of uint8 0 35 200: -40 -5 160 by asammdf, -40 -5 160 by mdfreader
(X-40)/2 of uint8 0 35 200: -20 -2.5 80 by asammdf, 108 125.5 80 by mdfreader
X*2-40 of uint8 0 35 200: -40 30 360 by asammdf, 216 30 104 by mdfreader
X*X/1000 of uint16 5 300 65535: 0.025 90 -131.071 by asammdf, 0.025 24.464 0.001 by mdfreader
X*1.0*X/1000 of uint16 5 300 65535: 0.025 90 4294836.22 by asammdf, 0.025 90 4294836.22 by mdfreader
X-5 of uint32 4 5 4e+09: -1 0 4e+09 by asammdf, 4.2949673e+09 0 4e+09 by mdfreader
sqrt(X) of uint8 1 2 3: 1 1.41421356 1.73205081 by asammdf, 1 1.4140625 1.73242188 by mdfreader
END
venv "$work/venv" asammdf==8.8.28 mdfreader==4.3 numpy==2.4.6
cat >"$work/formulas.py" <<'END'
import logging

import mdfreader
import numpy
from asammdf import MDF, Signal

logging.disable(logging.CRITICAL)
rows = [
    ("uint8", [0, 35, 200], "X-40"),
    ("uint8", [0, 35, 200], "X-40.0"),
    ("uint8", [0, 35, 200], {"a": 1, "b": -40}),
    ("uint8", [0, 35, 200], "(X-40)/2"),
    ("uint8", [0, 35, 200], "X*2-40"),
    ("uint16", [5, 300, 65535], "X*X/1000"),
    ("uint16", [5, 300, 65535], "X*1.0*X/1000"),
    ("uint32", [4, 5, 4000000000], "X-5"),
    ("uint8", [1, 2, 3], "sqrt(X)"),
]


def text(values):
    return " ".join(f"{value:.9g}" for value in values)


for kind, numbers, formula in rows:
    conversion = {"formula": formula} if isinstance(formula, str) else formula
    signal = Signal(numpy.array(numbers, kind), numpy.arange(3.0), name="sensor", conversion=conversion)
    with MDF(version="4.10") as file:
        file.append([signal])
        file.save("car.mf4", overwrite=True)
    with MDF("car.mf4") as file:
        first = file.get("sensor").samples
    second = mdfreader.Mdf("car.mf4").get_channel_data("sensor")
    name = formula if isinstance(formula, str) else "linear, 1 and -40"
    print(f"{name} of {kind} {text(numbers)}: {text(first)} by asammdf, {text(second)} by mdfreader")
END
(cd "$work" && venv/bin/python -W ignore formulas.py) >"$work/out"
compare "$work/out"
