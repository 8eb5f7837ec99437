#!/usr/bin/env bash
# h5py 3.16.0 with HDF5 2.0.0, and numpy 2.4.6 (PyPI): numbers with a NaN by the filter of HDF5 that keeps some digits (scaleoffset).
# Expected: NaN comes back as NaN, or to write it is an error: it is what maps of the sea have on land.
# Seen: the filter looks for the least number of a chunk by comparisons, which NaN makes false. NaN becomes the least number of its chunk, so land has the
# coldest sea. If it is the first number of a chunk of float32, the chunk is written, with success, and HDF5 cannot read it again: a map with
# land in its corner is lost, and the same map with land elsewhere, or of float64, is not. Infinity switches the filter off for its chunk.
. "$(dirname "$0")/common.sh"
recorded <<'END'
float32, 5 nan 7: 5 5 7
float32, 5 7 nan: 5 7 5
float32, nan 5 7: written, and not read: filter returned failure during read
float32, nan nan nan: written, and not read: filter returned failure during read
float64, 5 nan 7: 5 5 7
float64, 5 7 nan: 5 7 5
float64, nan 5 7: nan 5 7
float64, nan nan nan: nan nan nan
float32, 5.126 7.128 9: 5.126 7.126 8.996
float32, 5.126 7.128 inf: 5.126 7.128 inf
land in the middle: chunks that are read: 4 of 4, NaN that are read: 0 of 16
land in the corner: chunks that are read: 3 of 4, NaN that are read: 0 of 16
END
venv "$work/venv" h5py==3.16.0 numpy==2.4.6
cat >"$work/filter.py" <<'END'
import h5py
import numpy


def write(values, chunk):
    with h5py.File("file.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=chunk, scaleoffset=2)


def read(part):
    with h5py.File("file.h5") as file:
        try:
            return file["x"][part]
        except OSError as error:
            return str(error).partition("(")[2].rstrip(")")


def text(values):
    return " ".join(f"{value:g}" for value in values)


nan, inf = numpy.nan, numpy.inf
rows = [(kind, row) for kind in ("float32", "float64") for row in ([5, nan, 7], [5, 7, nan], [nan, 5, 7], [nan] * 3)]
rows += [("float32", row) for row in ([5.126, 7.128, 9], [5.126, 7.128, inf])]
for kind, row in rows:
    write(numpy.array(row, kind), (3,))
    seen = read(slice(None))
    print(f"{kind}, {text(row)}: {f'written, and not read: {seen}' if isinstance(seen, str) else text(seen)}")
for place, start in ("middle", 4), ("corner", 0):
    sea = numpy.random.default_rng(1).uniform(5, 30, (16, 16)).astype("float32")
    sea[start : start + 4, start : start + 4] = nan
    write(sea, (8, 8))
    parts = [read((slice(y, y + 8), slice(x, x + 8))) for y in (0, 8) for x in (0, 8)]
    good = [part for part in parts if not isinstance(part, str)]
    print(f"land in the {place}: chunks that are read: {len(good)} of 4, NaN that are read: {sum(numpy.isnan(part).sum() for part in good)} of 16")
END
(cd "$work" && venv/bin/python filter.py) >"$work/out"
compare "$work/out"
