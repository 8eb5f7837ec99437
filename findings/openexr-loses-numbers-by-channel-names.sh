#!/usr/bin/env bash
# OpenEXR 3.5.3 and numpy 2.4.6 (PyPI): one image of float16 in channels of several names, by the compressions of OpenEXR.
# Expected: a compression loses the same in each channel of one type, whatever its name, and NaN and infinity are kept.
# Seen: DWA loses numbers in channels named R, G, B and Y, alone or behind the name of a layer, and none in X, Z, r or depth, so of a normal map (N.X, N.Y, N.Z) it
# loses one axis. In those channels NaN is nearly 0, and infinity nearly 0 in float16 and above 60000 in float32. LJ2K loses in R, G and B. B44
# goes by the type: it loses in all channels of float16, where infinity is nearly 0 too, and in none of float32.
. "$(dirname "$0")/common.sh"
recorded <<'END'
ZIP, float16: loses in none
ZIP, float32: loses in none
PXR24, float16: loses in none
PXR24, float32: loses in none
B44, float16: loses in R G B Y N.X N.Y N.Z r depth
B44, float32: loses in none
DWAA, float16: loses in R G B Y N.Y
DWAA, float32: loses in R G B Y N.Y
LJ2K, float16: loses in R G B
LJ2K, float32: loses in R G B
B44, float16, NaN and infinity: R near 0, near 0; X near 0, near 0
B44, float32, NaN and infinity: R nan, inf; X nan, inf
DWAA, float16, NaN and infinity: R near 0, near 0; X nan, inf
DWAA, float32, NaN and infinity: R near 0, above 60000; X nan, inf
END
venv "$work/venv" OpenEXR==3.5.3 numpy==2.4.6
cat >"$work/channels.py" <<'END'
import numpy
import OpenEXR

names = "R", "G", "B", "Y", "N.X", "N.Y", "N.Z", "r", "depth"
generator = numpy.random.default_rng(1)
image = (numpy.linspace(0, 1, 4096).reshape(64, 64) + generator.normal(0, 0.05, (64, 64))).astype(numpy.float16)
special = image.copy()
special[3, 3], special[10, 10] = numpy.nan, numpy.inf


def through(compression, pixels, channels):
    header = {"compression": getattr(OpenEXR, f"{compression}_COMPRESSION"), "type": OpenEXR.scanlineimage}
    with OpenEXR.File(header, {name: pixels.copy() for name in channels}) as file:
        file.write("image.exr")
    with OpenEXR.File("image.exr", separate_channels=True) as file:
        return {name: channel.pixels for name, channel in file.channels().items()}


def text(value):
    if not numpy.isfinite(value):
        return str(value)
    return "near 0" if abs(value) < 0.001 else "above 60000" if value > 60000 else f"{value:g}"


for compression in "ZIP", "PXR24", "B44", "DWAA", "LJ2K":
    for kind in numpy.float16, numpy.float32:
        pixels = image.astype(kind)
        read = through(compression, pixels, names)
        lost = [name for name in names if (read[name] != pixels).any()]
        print(f"{compression}, {kind.__name__}: loses in {' '.join(lost) or 'none'}")
for compression in "B44", "DWAA":
    for kind in numpy.float16, numpy.float32:
        read = through(compression, special.astype(kind), ("R", "X"))
        shown = (f"{name} {text(read[name][3, 3])}, {text(read[name][10, 10])}" for name in ("R", "X"))
        print(f"{compression}, {kind.__name__}, NaN and infinity: {'; '.join(shown)}")
END
(cd "$work" && venv/bin/python -W ignore channels.py) >"$work/out"
compare "$work/out"
