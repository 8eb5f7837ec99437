#!/usr/bin/env bash
# eccodes 2.50.0 and numpy 2.4.6 (PyPI): a field of temperatures with one NaN as a weather message (GRIB 2), by its packings with 16 bits.
# Expected: to encode NaN is an error, since GRIB has a bitmap for missing values, or it comes back as NaN, wherever it lies.
# Seen: the least number of the field is found by comparisons, which NaN makes false. If NaN is the first number, the usual packings give an error, and with
# grid_complex the whole field is one number near 0, with success. Anywhere else NaN is the coldest place, with success, and so is infinity with grid_complex,
# where the usual packings give an error. Only grid_ieee keeps both.
. "$(dirname "$0")/common.sh"
recorded <<'END'
the field: 270.1 to 300
grid_simple, nan as number 1: EncodingError
grid_simple, nan as number 8: 270.1, the others 270.1 to 300
grid_simple, inf as number 1: EncodingError
grid_simple, inf as number 8: EncodingError
grid_ccsds, nan as number 1: EncodingError
grid_ccsds, nan as number 8: 270.1, the others 270.1 to 300
grid_ccsds, inf as number 1: EncodingError
grid_ccsds, inf as number 8: EncodingError
grid_jpeg, nan as number 1: EncodingError
grid_jpeg, nan as number 8: 270.1, the others 270.1 to 300
grid_jpeg, inf as number 1: EncodingError
grid_jpeg, inf as number 8: EncodingError
grid_complex, nan as number 1: 1.175e-38, the others 1.175e-38 to 1.175e-38
grid_complex, nan as number 8: 270.1, the others 270.1 to 300
grid_complex, inf as number 1: 270.1, the others 270.1 to 300
grid_complex, inf as number 8: 270.1, the others 270.1 to 300
grid_complex_spatial_differencing, nan as number 1: 1.175e-38, the others 1.175e-38 to 1.175e-38
grid_complex_spatial_differencing, nan as number 8: 270.1, the others 270.1 to 300
grid_complex_spatial_differencing, inf as number 1: 270.1, the others 270.1 to 300
grid_complex_spatial_differencing, inf as number 8: 270.1, the others 270.1 to 300
grid_ieee, nan as number 1: nan, the others 270.1 to 300
grid_ieee, nan as number 8: nan, the others 270.1 to 300
grid_ieee, inf as number 1: inf, the others 270.1 to 300
grid_ieee, inf as number 8: inf, the others 270.1 to 300
END
venv "$work/venv" eccodes==2.50.0 eccodeslib==2.50.0.33 numpy==2.4.6
cat >"$work/fields.py" <<'END'
import eccodes
import numpy

field = numpy.random.default_rng(1).uniform(270, 300, 400)


def through(packing, values):
    message = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib2")
    for key, value in ("Ni", 20), ("Nj", 20), ("packingType", packing), ("bitsPerValue", 16):
        eccodes.codes_set(message, key, value)
    eccodes.codes_set_values(message, values)
    return eccodes.codes_get_values(eccodes.codes_new_from_message(eccodes.codes_get_message(message)))


print(f"the field: {field.min():.4g} to {field.max():.4g}")
for packing in "grid_simple", "grid_ccsds", "grid_jpeg", "grid_complex", "grid_complex_spatial_differencing", "grid_ieee":
    for special in numpy.nan, numpy.inf:
        for place in 0, 7:
            values = field.copy()
            values[place] = special
            try:
                read = through(packing, values)
                others = numpy.delete(read, place)
                seen = f"{read[place]:.4g}, the others {others.min():.4g} to {others.max():.4g}"
            except eccodes.CodesInternalError as error:
                seen = type(error).__name__
            print(f"{packing}, {special} as number {place + 1}: {seen}")
END
"$work/venv/bin/python" -W ignore "$work/fields.py" >"$work/out" 2>"$work/messages"
compare "$work/out"
