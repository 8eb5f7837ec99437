#!/usr/bin/env bash
# eccodes 2.50.0, cfgrib 0.9.15.1, rasterio 1.4.4 (GDAL 3.10.3) and gribberish 0.30.3 (PyPI): a field of weather (GRIB2) of 3 rows from 20 to 0 degrees north
# with 4 numbers each from 0 to 30 degrees east, whose numbers are in another order (scanning mode).
# Expected: each number at the place that the mode gives it, by the WMO's flag table 3.4, or an error.
# Seen: for ecCodes and gribberish each second row of a field that goes to and fro is the wrong way round (for ecCodes not on a projection of Lambert); for
# cfgrib and gribberish a field by columns is by rows; for cfgrib one from the east is its mirror image; GDAL moves that one to the east by its width.
# None has all of them right, and none says so. (Numbers from the north and the west; the place of the first one if it is another.)
. "$(dirname "$0")/common.sh"
recorded <<'END'
rows: 0 1 2 3 | 4 5 6 7 | 8 9 10 11
  by_eccodes: right
  by_cfgrib: right
  by_gdal: right
  by_gribberish: right
to and fro: 0 1 2 3 | 7 6 5 4 | 8 9 10 11
  by_eccodes: 0 1 2 3 | 4 5 6 7 | 8 9 10 11
  by_cfgrib: right
  by_gdal: right
  by_gribberish: 0 1 2 3 | 4 5 6 7 | 8 9 10 11
to and fro, from the south: 8 9 10 11 | 7 6 5 4 | 0 1 2 3
  by_eccodes: 8 9 10 11 | 4 5 6 7 | 0 1 2 3
  by_cfgrib: right
  by_gdal: right
  by_gribberish: 8 9 10 11 | 4 5 6 7 | 0 1 2 3
by columns: 0 3 6 9 | 1 4 7 10 | 2 5 8 11
  by_eccodes: right
  by_cfgrib: 0 1 2 3 | 4 5 6 7 | 8 9 10 11
  by_gdal: right
  by_gribberish: 0 1 2 3 | 4 5 6 7 | 8 9 10 11
from the east: 3 2 1 0 | 7 6 5 4 | 11 10 9 8
  by_eccodes: right
  by_cfgrib: 0 1 2 3 | 4 5 6 7 | 8 9 10 11
  by_gdal: 3 2 1 0 | 7 6 5 4 | 11 10 9 8 from 30 degrees
  by_gribberish: right
END
venv "$work/venv" eccodes==2.50.0 eccodeslib==2.50.0.33 cfgrib==0.9.15.1 xarray==2026.9.0 rasterio==1.4.4 gribberish==0.30.3 numpy==2.4.6
cat >"$work/fields.py" <<'END'
import eccodes
import gribberish
import numpy
import rasterio
import xarray

LATITUDES, LONGITUDES = [20, 10, 0], [0, 10, 20, 30]


def write(mode):
    east, south, columns, turning = (mode >> bit & 1 for bit in (3, 2, 1, 0))
    handle = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib2")
    for key, value in {
        "Ni": 4, "Nj": 3, "scanningMode": mode << 4, "iDirectionIncrementInDegrees": 10, "jDirectionIncrementInDegrees": 10, "bitsPerValue": 8,
        "latitudeOfFirstGridPointInDegrees": 0 if south else 20, "latitudeOfLastGridPointInDegrees": 20 if south else 0,
        "longitudeOfFirstGridPointInDegrees": 30 if east else 0, "longitudeOfLastGridPointInDegrees": 0 if east else 30,
        "discipline": 10, "parameterCategory": 0, "parameterNumber": 3,
    }.items():  # fmt: skip
        eccodes.codes_set(handle, key, value)
    eccodes.codes_set_values(handle, numpy.arange(12.0))
    message = eccodes.codes_get_message(handle)
    assert list(message[-16:-4]) == list(range(0, 192, 16))  # the numbers 0 to 11 in this order, in steps of 1/16
    open("field.grib2", "wb").write(message)
    places = {}
    for number in range(12):
        i, j = divmod(number, 3) if columns else divmod(number, 4)[::-1]
        if turning and columns and i % 2:
            j = 2 - j
        if turning and not columns and j % 2:
            i = 3 - i
        places[LATITUDES[::-1 if south else 1][j], LONGITUDES[::-1 if east else 1][i]] = number
    return places


def by_eccodes():
    handle, places = eccodes.codes_grib_new_from_file(open("field.grib2", "rb")), {}
    points = eccodes.codes_grib_iterator_new(handle, 0)
    while point := eccodes.codes_grib_iterator_next(points):
        places[round(point[0]), round(point[1])] = point[2]
    return places


def on_grid(values, latitudes, longitudes):
    return {(round(float(y)), round(float(x))): float(values[j, i]) for j, y in enumerate(latitudes) for i, x in enumerate(longitudes)}


def by_cfgrib():
    read = xarray.open_dataset("field.grib2", engine="cfgrib", backend_kwargs={"indexpath": ""})
    return on_grid(next(iter(read.data_vars.values())).values, read.latitude.values, read.longitude.values)


def by_gdal():
    with rasterio.open("field.grib2") as read:
        return on_grid(read.read(1), [read.xy(j, 0)[1] for j in range(3)], [read.xy(0, i)[0] for i in range(4)])


def by_gribberish():
    message = open("field.grib2", "rb").read()
    places = gribberish.parse_grib_dataset(message)["coords"]
    values = numpy.reshape(gribberish.parse_grib_array(message, 0), (3, 4))
    return on_grid(values, places["latitude"]["values"], places["longitude"]["values"])


def text(places):
    rows = sorted({y for y, _ in places}, reverse=True), sorted({x for _, x in places})
    shown = " | ".join(" ".join(f"{places[y, x]:g}" for x in rows[1]) for y in rows[0])
    return shown + (f" from {rows[1][0]} degrees" if rows[1][0] else "")


for note, mode in ("rows", 0), ("to and fro", 1), ("to and fro, from the south", 5), ("by columns", 2), ("from the east", 8):
    expected = write(mode)
    print(f"{note}: {text(expected)}")
    for read in by_eccodes, by_cfgrib, by_gdal, by_gribberish:
        found = read()
        print(f"  {read.__name__}: {'right' if found == expected else text(found)}")
END
(cd "$work" && venv/bin/python -W ignore fields.py) >"$work/out"
compare "$work/out"
