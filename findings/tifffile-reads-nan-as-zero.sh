#!/usr/bin/env bash
# tifffile 2026.3.3 with imagecodecs 2026.3.6, and rasterio 1.4.4 with GDAL 3.10.3 (PyPI): TIFF files of floats with NaN, compressed by LERC without loss.
# Expected: both read NaN where NaN was written, in a file of either, as with the other compressions.
# Seen: LERC keeps NaN apart from the numbers, as a mask, which tifffile does not look at: it reads 0, in its own files and in those of GDAL, where the sea
# has no height, or a cloud no temperature. The files are right: GDAL reads NaN in both. With other compressions tifffile reads NaN.
. "$(dirname "$0")/common.sh"
recorded <<'END'
written: 516 of 4096 are NaN, mean 14.68
lerc, written by tifffile, read by tifffile: 0.0 in place of NaN, mean 12.83, other numbers equal
lerc, written by tifffile, read by GDAL: nan in place of NaN, mean 14.68, other numbers equal
lerc, written by GDAL, read by tifffile: 0.0 in place of NaN, mean 12.83, other numbers equal
lerc, written by GDAL, read by GDAL: nan in place of NaN, mean 14.68, other numbers equal
deflate, written by tifffile, read by tifffile: nan in place of NaN, mean 14.68, other numbers equal
deflate, written by tifffile, read by GDAL: nan in place of NaN, mean 14.68, other numbers equal
deflate, written by GDAL, read by tifffile: nan in place of NaN, mean 14.68, other numbers equal
deflate, written by GDAL, read by GDAL: nan in place of NaN, mean 14.68, other numbers equal
END
venv "$work/venv" tifffile==2026.3.3 imagecodecs==2026.3.6 rasterio==1.4.4 numpy==2.4.6
cat >"$work/image.py" <<'END'
import numpy
import rasterio
import tifffile

image = numpy.linspace(-5, 30, 64 * 64).reshape(64, 64).astype("float32")
image[:8] = image[40:42, 40:42] = numpy.nan
holes = numpy.isnan(image)


def by_tifffile(name, compression):
    tifffile.imwrite(name, image, compression=compression)


def by_gdal(name, compression):
    layout = {"driver": "GTiff", "height": 64, "width": 64, "count": 1, "dtype": "float32", "nodata": numpy.nan}
    with rasterio.open(name, "w", **layout, compress=compression) as file:
        file.write(image, 1)


def read_gdal(name):
    with rasterio.open(name) as file:
        return file.read(1)


def text(read):
    values = " and ".join(map(str, numpy.unique(read[holes])))
    return f"{values} in place of NaN, mean {numpy.nanmean(read):.2f}, other numbers {'equal' if (read == image)[~holes].all() else 'differ'}"


print(f"written: {holes.sum()} of {holes.size} are NaN, mean {numpy.nanmean(image):.2f}")
for compression in "lerc", "deflate":
    for writer, write in ("tifffile", by_tifffile), ("GDAL", by_gdal):
        write("image.tif", compression)
        for reader, read in ("tifffile", tifffile.imread), ("GDAL", read_gdal):
            print(f"{compression}, written by {writer}, read by {reader}: {text(read('image.tif'))}")
END
(cd "$work" && venv/bin/python -W ignore image.py) >"$work/out"
compare "$work/out"
