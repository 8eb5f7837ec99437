#!/usr/bin/env bash
# cantools 45.1.0 (PyPI) and a C compiler: a signal of a CAN bus with a factor, encoded by cantools itself and by the C source that it generates.
# Expected: both send the same raw value for a physical value: the nearest one, as cantools does in Python.
# Seen: the C source cuts: 0.29 degrees with the factor 0.01 are 28 in C and 29 in Python, since 0.29 / 0.01 is 28.999999999999996. Of the 60001
# values of the signal, 7074 arrive a step nearer to zero from the device than from a test bench that runs the same database.
. "$(dirname "$0")/common.sh"
recorded <<'END'
0.29 C, 0.3 bar: Python [29, 403], C [28, 402]
-0.29 C, 25.4 bar: Python [-29, 654], C [-28, 654]
-100.57 C, 20.5 bar: Python [-10057, 605], C [-10057, 605]
7074 of 60001 temperatures differ
END
venv "$work/venv" cantools==45.1.0
cat >"$work/bus.dbc" <<'END'
VERSION ""
BU_: Node
BO_ 100 Climate: 4 Node
 SG_ Temperature : 0|16@1- (0.01,0) [-300|300] "C" Node
 SG_ Pressure : 16|16@1+ (0.1,-40) [-40|6000] "bar" Node
END
cat >"$work/main.c" <<'END'
#include "bus.h"
#include <stdio.h>
int main(void) {
    double temperature, pressure;
    while (scanf("%lf %lf", &temperature, &pressure) == 2)
        printf("%d %d\n", bus_climate_temperature_encode(temperature), bus_climate_pressure_encode(pressure));
}
END
cat >"$work/encode.py" <<'END'
import subprocess

import cantools

message = cantools.database.load_file("bus.dbc").get_message_by_name("Climate")


def by_python(temperature, pressure):
    data = message.encode({"Temperature": temperature, "Pressure": pressure})
    return list(message.decode(data, scaling=False).values())


def by_c(pairs):
    lines = "".join(f"{temperature} {pressure}\n" for temperature, pressure in pairs)
    output = subprocess.run("./encode", input=lines, capture_output=True, text=True, check=True).stdout
    return [list(map(int, line.split())) for line in output.splitlines()]


pairs = [(0.29, 0.3), (-0.29, 25.4), (-100.57, 20.5)]
for pair, in_c in zip(pairs, by_c(pairs)):
    print(f"{pair[0]} C, {pair[1]} bar: Python {by_python(*pair)}, C {in_c}")
exact = [(hundredths / 100, 0) for hundredths in range(-30000, 30001)]
others = sum(by_python(*pair)[0] != in_c[0] for pair, in_c in zip(exact, by_c(exact)))
print(f"{others} of {len(exact)} temperatures differ")
END
(cd "$work" && venv/bin/cantools generate_c_source bus.dbc) >&2
g++ -x c -std=c99 -O1 -o "$work/encode" "$work/main.c" "$work/bus.c"
(cd "$work" && venv/bin/python encode.py) >"$work/out"
compare "$work/out"
