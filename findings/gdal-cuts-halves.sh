#!/usr/bin/env bash
# rasterio 1.4.4 with GDAL 3.10.3 (PyPI), and numpy 2.4.6: a TIFF of floats with 16 bits (NBITS=16), which is the float16 of GPUs.
# Expected: a number becomes the nearest one that float16 has, halves to even, as by numpy, by conversions of CPUs and by those of GPUs.
# Seen: GDAL cuts bits off: 1.0009, whose neighbours are 1 and 1.000977, becomes 1, and a small number loses up to half of its value. So each image becomes
# darker, and heights and temperatures lower, by half of a step on average. From 65520 on, float16 has infinity; GDAL goes to 65504 up to 65535.
. "$(dirname "$0")/common.sh"
recorded <<'END'
1.0009: GDAL 1, numpy 1.000977
1.001465: GDAL 1.000977, numpy 1.001953
-0.3: GDAL -0.2998047, numpy -0.3000488
65520: GDAL 65504, numpy inf
70000: GDAL inf, numpy inf
4.47e-08: GDAL 0, numpy 5.960464e-08
1e-07: GDAL 5.960464e-08, numpy 1.192093e-07
GDAL: mean error -0.5 steps, largest 1.0
numpy: mean error 0.0 steps, largest 0.5
END
venv "$work/venv" rasterio==1.4.4 numpy==2.4.6
cat >"$work/halves.py" <<'END'
import numpy
import rasterio


def through_gdal(values):
    layout = {"driver": "GTiff", "height": 1, "width": len(values), "count": 1, "dtype": "float32", "nbits": 16}
    with rasterio.open("halves.tif", "w", **layout) as file:
        file.write(values[None], 1)
    with rasterio.open("halves.tif") as file:
        return file.read(1)[0]


def through_numpy(values):
    with numpy.errstate(over="ignore"):
        return values.astype(numpy.float16).astype(numpy.float32)


numbers = numpy.float32([1.0009, 1 + 3 / 2048, -0.3, 65520, 70000, 4.47e-8, 1e-7])
for number, by_gdal, by_numpy in zip(numbers, through_gdal(numbers), through_numpy(numbers)):
    print(f"{number:.7g}: GDAL {by_gdal:.7g}, numpy {by_numpy:.7g}")
noise = numpy.random.default_rng(1).uniform(1, 2, 100000).astype(numpy.float32)
for name, rounded in ("GDAL", through_gdal(noise)), ("numpy", through_numpy(noise)):
    errors = (rounded.astype(float) - noise) * 1024
    print(f"{name}: mean error {errors.mean():.1f} steps, largest {abs(errors).max():.1f}".replace("-0.0", "0.0"))
END
(cd "$work" && venv/bin/python -W ignore halves.py) >"$work/out"
compare "$work/out"
