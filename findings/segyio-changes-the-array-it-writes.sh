#!/usr/bin/env bash
# segyio 1.9.14, segy 0.6.2 and numpy 2.4.6 (PyPI): seismic traces as IBM floats, the usual format of SEG-Y, which have 6 hexadecimal digits.
# Expected: to write an array does not change it, a number becomes the nearest that the format has, and what is too large for a float is read as infinity.
# Seen: segyio converts an array of float32 in place and back, so the array of the caller has lost up to three bits after the trace was written. Both writers
# cut digits off, so numbers become smaller, and 1e-40 becomes a number 59 times as large. Of the largest numbers of the format segyio makes NaN, of those
# just above what a float holds infinity, and 0.5 of a zero whose exponent is not zero; segy reads infinity and 0.
. "$(dirname "$0")/common.sh"
recorded <<'END'
an array before segyio wrote it: 0.100000001 1.99999988 123456.789 9.9999461e-41
and after: 0.0999999642 1.99999905 123456.75 9.99966584e-41
written by segyio: 0.0999999642 1.99999905 123456.75 5.92747008e-39
written by segy: 0.0999999642 1.99999905 123456.75 5.92747008e-39
exact: 3.40282347e+38 3.40282367e+38 7.23700515e+75 0
read by segy: 3.40282347e+38 inf inf 0
read by segyio: 3.40282347e+38 inf nan 0.5
END
venv "$work/venv" segyio==1.9.14 segy==0.6.2 numpy==2.4.6
cat >"$work/traces.py" <<'END'
import struct

import numpy
import segyio
from segy.ibm import ibm2ieee, ieee2ibm

spec = segyio.spec()
spec.format, spec.sorting, spec.samples, spec.ilines, spec.xlines = 1, 2, numpy.arange(4), [1], [1]
numbers = numpy.float32([0.1, 1.9999999, 123456.789, 1e-40])


def exact(word):
    word = int(word)
    return (word & 0xFFFFFF) * 16.0 ** ((word >> 24 & 127) - 70) * (-1 if word >> 31 else 1)


def text(values):
    return " ".join(f"{value:.9g}" for value in values)


array = numbers.copy()
with segyio.create("segyio.sgy", spec) as file:
    file.trace[0] = array
    file.header[0] = {}
print(f"an array before segyio wrote it: {text(numbers)}\nand after: {text(array)}")
data = open("segyio.sgy", "rb").read()
for name, written in ("segyio", numpy.frombuffer(data[3840:], ">u4")), ("segy", ieee2ibm(numbers.copy())):
    print(f"written by {name}: {text(map(exact, written))}")
large = numpy.uint32([0x60FFFFFF, 0x61100000, 0x7FFFFFFF, 0x41000000])
head = bytearray(data[:3840])
head[3220:3222] = head[3714:3716] = struct.pack(">H", len(large))
open("large.sgy", "wb").write(head + large.astype(">u4").tobytes())
print(f"exact: {text(map(exact, large))}\nread by segy: {text(ibm2ieee(large))}")
with segyio.open("large.sgy", ignore_geometry=True) as file:
    print(f"read by segyio: {text(file.trace[0])}")
END
(cd "$work" && venv/bin/python -W ignore traces.py) >"$work/out"
compare "$work/out"
