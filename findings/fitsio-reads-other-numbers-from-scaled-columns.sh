#!/usr/bin/env bash
# fitsio 1.4.2 and astropy 8.0.2 (PyPI): a table of FITS whose integers stand for numbers by a scale (TSCAL) and an offset (TZERO), as instruments write
# them, and a picture with a pixel that has no value (BLANK).
# Expected: fitsio, which is made on NASA's library, gives integer * scale + offset, as astropy does, and NaN for the pixel.
# Seen: fitsio puts the integers two by two into the larger numbers that it returns, and scales what that makes: 50 becomes 1e-40, 5, or 393217. Columns
# of floats are right. The pixel without a value is -16374 among numbers near 10.
# All with success.
. "$(dirname "$0")/common.sh"
recorded <<'END'
I * 0.5 + 0.0, 0.5 50 1.5: 0.5 50 1.5 by astropy, 4.5987813e-41 1.37753244e-40 0 by fitsio
I * 0.1 + 5.0, 5.1 15 5.3: 5.1 15 5.3 by astropy, 5 5 5 by fitsio
I * 2.0 + 1.0, 3 201 7: 3 201 7 by astropy, 131273 393217 1 by fitsio
I * 1.0 + 10.0, 11 110 13: 11 110 13 by astropy, 65646 196618 10 by fitsio
J * 0.5 + 0.0, 0.5 50 1.5: 0.5 50 1.5 by astropy, 1.06099792e-314 3.18299369e-314 0 by fitsio
J * 2.0 + 1.0, 3 201 7: 3 201 7 by astropy, 8.58993479e+09 2.57698038e+10 1 by fitsio
E * 0.5 + 1.0, 1.5 51 2.5: 1.5 51 2.5 by astropy, 1.5 51 2.5 by fitsio
picture: 10.5 nan 12 by astropy, 10.5 -16374 12 by fitsio
END
venv "$work/venv" fitsio==1.4.2 astropy==8.0.2 numpy==2.4.6
cat >"$work/scaled.py" <<'END'
import fitsio
import numpy
from astropy.io import fits


def text(array):
    return " ".join(f"{value:.9g}" for value in array.ravel().tolist())


columns = [("I", "i2", 0.5, 0.0), ("I", "i2", 0.1, 5.0), ("I", "i2", 2.0, 1.0), ("I", "i2", 1.0, 10.0), ("J", "i4", 0.5, 0.0), ("J", "i4", 2.0, 1.0)]
columns += [("E", "f4", 0.5, 1.0)]
for form, kind, scale, offset in columns:
    table = fits.BinTableHDU.from_columns([fits.Column("x", form, array=numpy.array([1, 100, 3], kind))])
    table.header["TSCAL1"], table.header["TZERO1"] = scale, offset
    table.writeto("table.fits", overwrite=True)
    exact = numpy.array([1, 100, 3]) * scale + offset
    shown = f"{text(fits.getdata('table.fits')['x'])} by astropy, {text(fitsio.read('table.fits')['x'])} by fitsio"
    print(f"{form} * {scale} + {offset}, {text(exact)}: {shown}")
fields = [("SIMPLE", "T"), ("BITPIX", 16), ("NAXIS", 1), ("NAXIS1", 3), ("BLANK", -32768), ("BSCALE", "0.5"), ("BZERO", "10.0")]
header = "".join(f"{name:<8}= {value:>20}".ljust(80) for name, value in fields) + "END"
open("picture.fits", "wb").write(header.ljust(2880).encode() + numpy.array([1, -32768, 4], ">i2").tobytes().ljust(2880, b"\0"))
print(f"picture: {text(fits.getdata('picture.fits'))} by astropy, {text(fitsio.read('picture.fits'))} by fitsio")
END
(cd "$work" && venv/bin/python -W ignore scaled.py) >"$work/out"
compare "$work/out"
