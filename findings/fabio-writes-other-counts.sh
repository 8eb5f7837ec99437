#!/usr/bin/env bash
# fabio 2026.6.0 (PyPI), which reads and writes images of X-ray detectors, with numpy 2.4.6: counts of photons that are converted to other formats.
# Expected: the counts that were written are read again, or the format that cannot hold them is refused.
# Seen: counts of 16 bits without a sign become others in the format of Oxford Diffraction (OXD), from the first one on that is less than the one left of it:
# 0 is 65536, and 39 at the end is 262183. In Bruker's format 1000 is 255. Floats are cut to integers in CBF, and a NaN or a number that 32 bits do not
# hold changes all counts behind it: 39 is -2147483648 or 16. All without a word.
. "$(dirname "$0")/common.sh"
recorded <<'END'
uint16 as edf: 51 52 1000 0 39 is 51 52 1000 0 39, 0 of 256 differ
int32 as edf: 51 52 1000 0 39 is 51 52 1000 0 39, 0 of 256 differ
uint16 as tif: 51 52 1000 0 39 is 51 52 1000 0 39, 0 of 256 differ
int32 as tif: 51 52 1000 0 39 is 51 52 1000 0 39, 0 of 256 differ
uint16 as cbf: 51 52 1000 0 39 is 51 52 1000 0 39, 0 of 256 differ
int32 as cbf: 51 52 1000 0 39 is 51 52 1000 0 39, 0 of 256 differ
uint16 as bruker100: 51 52 1000 0 39 is 51 52 1000 0 39, 0 of 256 differ
int32 as bruker100: 51 52 1000 0 39 is 51 52 1000 0 39, 0 of 256 differ
uint16 as bruker: 51 52 1000 0 39 is 51 52 255 0 39, 1 of 256 differ
int32 as bruker: 51 52 1000 0 39 is 51 52 255 0 39, 1 of 256 differ
uint16 as OXD: 51 52 1000 0 39 is 51 52 1000 65536 262183, 202 of 256 differ
int32 as OXD: 51 52 1000 0 39 is 51 52 1000 0 39, 0 of 256 differ
float32 as cbf: 51 52 2.5 0 39 is 51 52 2 0 39, 1 of 256 differ
float32 as cbf: 51 52 nan 0 39 is 51 52 -2.14748e+09 -2.14748e+09 -2.14748e+09, 203 of 256 differ
float32 as cbf: 51 52 3e+09 0 39 is 51 52 -2.14748e+09 -2.14748e+09 16, 203 of 256 differ
END
venv "$work/venv" fabio==2026.6.0 numpy==2.4.6
cat >"$work/counts.py" <<'END'
import fabio
import numpy
from fabio.fabioimage import FabioImage


def show(note, kind, counts):
    original = FabioImage(data=counts, header={}).convert(kind)
    original.write("image")
    read = type(original)().read("image").data
    shown = [" ".join(f"{number:g}" for number in (*image[3, 3:7], image[-1, -1])) for image in (counts, read)]
    print(f"{note} as {kind[:-5]}: {shown[0]} is {shown[1]}, {numpy.count_nonzero(read != counts)} of {counts.size} differ")


counts = numpy.arange(256).reshape(16, 16) % 54
counts[3, 5] = 1000
for kind in "edfimage", "tifimage", "cbfimage", "bruker100image", "brukerimage", "OXDimage":
    for bits in numpy.uint16, numpy.int32:
        show(numpy.dtype(bits).name, kind, counts.astype(bits))
for number in 2.5, numpy.nan, 3e9:
    floats = counts.astype(numpy.float32)
    floats[3, 5] = number
    show("float32", "cbfimage", floats)
END
(cd "$work" && venv/bin/python -W ignore counts.py) >"$work/out"
compare "$work/out"
