#!/usr/bin/env bash
# pyreadr 0.5.8 and rdata 1.1.0 (PyPI): a table of R (RDS) with a column of integers of 64 bits, as R has them by the class integer64 of bit64, which is what
# data.table, databases and Arrow give for large numbers. R keeps them in the 64 bits of doubles, which the class of the column says.
# Expected: the integers, or an error, or a warning.
# Seen: pyreadr takes the bits as those of doubles, without a word: 1 is 5e-324, the time of a day in milliseconds is 8.7e-312, and a missing value is -0. So
# sums are 0, and numbers of persons, which differ by these bits alone, look alike in a listing. rdata gives the same numbers, with a warning.
. "$(dirname "$0")/common.sh"
recorded <<'END'
written: 1 1767225600000 9007199254740993 and a missing value
pyreadr: 4.94e-324 8.73e-312 4.45e-308 -0, float64, 0 warnings of integer64
rdata: 4.94e-324 8.73e-312 4.45e-308 -0, float64, 1 warnings of integer64
END
venv "$work/venv" pyreadr==0.5.8 rdata==1.1.0 numpy==2.4.6
cat >"$work/integers.py" <<'END'
import struct
import warnings

import pyreadr
import rdata

TEXT, DOUBLES, STRINGS, LIST, PAIR, NAME, END = 0x40009, 0x30E, 0x10, 0x313, 0x402, 1, 254
number = struct.Struct(">i").pack


def text(string):
    return number(TEXT) + number(len(string)) + string.encode()


def attributes(**values):
    made = b"".join(number(PAIR) + number(NAME) + text(name.replace("_", ".")) + value for name, value in values.items())
    return made + number(END)


def strings(*values):
    return number(STRINGS) + number(len(values)) + b"".join(map(text, values))


def column(values, kind, form):
    return number(DOUBLES) + number(len(values)) + struct.pack(f">{len(values)}{form}", *values) + attributes(**{"class": strings(kind)})


integers = [1, 1767225600000, 9007199254740993, -(2**63)]
columns = column(integers, "integer64", "q"), column([20000.0] * 4, "Date", "d")
rows = number(13) + number(2) + number(-(2**31)) + number(-4)
table = number(LIST) + number(2) + b"".join(columns) + attributes(names=strings("id", "day"), **{"class": strings("data.frame")}, row_names=rows)
open("table.rds", "wb").write(b"X\n" + number(2) + number(0x30500) + number(0x20300) + table)
print("written:", *integers[:3], "and a missing value")
for package, read in ("pyreadr", lambda: pyreadr.read_r("table.rds")[None]), ("rdata", lambda: rdata.read_rds("table.rds")):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        ids = read()["id"]
    warned = sum("integer64" in str(warning.message) for warning in seen)
    print(f"{package}: {' '.join(f'{float(value):.3g}' for value in ids)}, {ids.dtype}, {warned} warnings of integer64")
END
(cd "$work" && venv/bin/python integers.py) >"$work/out"
compare "$work/out"
