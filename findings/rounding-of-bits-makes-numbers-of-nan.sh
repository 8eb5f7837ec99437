#!/usr/bin/env bash
# numcodecs 0.16.6 (filters of Zarr) and netCDF4 1.7.5.1.post1 with netCDF-C 4.10.1 (PyPI), which round floats so that they compress better.
# Expected: what is missing stays missing: NaN is NaN, infinity is infinity, and a number becomes one near it, as the names say (BitRound).
# Seen: BitRound of numcodecs adds to the bits. 0x7fffffff, which is the NaN that instructions of NVIDIA's GPUs give (PTX ISA, "canonical NaN"), becomes -0,
# and other NaN become 0 or infinity; 0x7fc00000, that of AMD and x86, stays. So a field with missing values is right if a CPU or a GPU of AMD
# computed it, and has zeros in their place from NVIDIA's. GranularBitRound of netCDF-C makes -0 of infinity, and BitGroom NaN or infinity by the place.
. "$(dirname "$0")/common.sh"
recorded <<'END'
numcodecs BitRound: 7fc00000 -> nan, 7fffffff -> -0, ffffffff -> 0, 7f800001 -> inf, 7f800000 -> inf, 3f8ccccd -> 1.09961
netCDF BitRound: 7fc00000 -> nan, 7fffffff -> nan, ffffffff -> nan, 7f800001 -> nan, 7f800000 -> inf, 3f8ccccd -> 1.09961
netCDF GranularBitRound: 7fc00000 -> nan, 7fffffff -> nan, ffffffff -> nan, 7f800001 -> nan, 7f800000 -> -0, 3f8ccccd -> 1.10156
END
venv "$work/venv" numcodecs==0.16.6 netCDF4==1.7.5.1.post1 cftime==1.6.5 numpy==2.4.6
cat >"$work/rounding.py" <<'END'
import netCDF4
import numcodecs
import numpy

bits = numpy.array([0x7FC00000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0x7F800000, 0x3F8CCCCD], numpy.uint32)
values = bits.view(numpy.float32)


def show(name, rounded):
    print(f"{name}: {', '.join(f'{word:08x} -> {abs(value) if value != value else value:g}' for word, value in zip(bits, rounded))}")


codec = numcodecs.BitRound(10)
show("numcodecs BitRound", codec.decode(codec.encode(values.copy())).view(numpy.float32))
for mode, digits in ("BitRound", 10), ("GranularBitRound", 3):
    with netCDF4.Dataset("rounded.nc", "w") as dataset:
        dataset.createDimension("x", len(values))
        variable = dataset.createVariable("v", "f4", ("x",), zlib=True, significant_digits=digits, quantize_mode=mode)
        variable.set_auto_mask(False)
        variable[:] = values
    with netCDF4.Dataset("rounded.nc") as dataset:
        dataset.set_auto_mask(False)
        show(f"netCDF {mode}", dataset["v"][:])
END
(cd "$work" && venv/bin/python -W ignore rounding.py) >"$work/out"
compare "$work/out"
