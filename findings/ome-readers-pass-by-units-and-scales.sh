#!/usr/bin/env bash
# bioio 3.6.0 with bioio-ome-tiff 1.4.0, and ngff-zarr 0.50.0 (PyPI): images of a microscope. An OME-TIFF has pixels of 65 nm, planes 0.0002 mm apart and
# an image each 500 ms; an OME-Zarr has a scale for each resolution, and one for all of them (scale 10, 2, 2), as version 0.4 of the standard lets it have.
# Expected: sizes in micrometres, or with the unit that they are in; the scale of all is applied after that of a resolution, also to where the image begins.
# Seen: bioio reads 65 and 0.0002 without a unit, so pixels are 65 micrometres or planes 1,000 times too close, and the time between images is lost. ngff-zarr
# passes by the scale of all: voxels have a fortieth of their volume, and the image begins elsewhere. All without a word.
. "$(dirname "$0")/common.sh"
recorded <<'END'
bioio, pixels of 65 nm, planes 0.0002 mm apart: PhysicalPixelSizes(Z=0.0002, Y=65.0, X=65.0)
  unit of X: None; between images: None
by the standard: voxels of 10, 1 and 1 micrometres, which begin at 50, 20 and 20
ngff-zarr: voxels of [1, 0.5, 0.5], which begin at [5, 10, 10]
END
venv "$work/venv" bioio==3.6.0 bioio-ome-tiff==1.4.0 ngff-zarr==0.50.0 tifffile==2026.3.3 zarr==3.1.6 numpy==2.4.6
cat >"$work/sizes.py" <<'END'
import logging

import bioio_ome_tiff
import ngff_zarr
import numpy
import tifffile
import zarr
from bioio import BioImage

logging.disable()
units = {"PhysicalSizeXUnit": "nm", "PhysicalSizeYUnit": "nm", "PhysicalSizeZUnit": "mm", "TimeIncrementUnit": "ms"}
sizes = {"PhysicalSizeX": 65.0, "PhysicalSizeY": 65.0, "PhysicalSizeZ": 0.0002, "TimeIncrement": 500.0}
tifffile.imwrite("image.ome.tif", numpy.zeros((3, 2, 8, 8), "u2"), metadata={"axes": "TZYX", **sizes, **units})
read = BioImage("image.ome.tif", reader=bioio_ome_tiff.Reader)
print(f"bioio, pixels of 65 nm, planes 0.0002 mm apart: {read.physical_pixel_sizes}")
print(f"  unit of X: {read.dimension_properties.X.unit}; between images: {read.time_interval}")

group = zarr.open_group("image.zarr", mode="w", zarr_format=2)
for name, size in ("0", 8), ("1", 4):
    group.create_array(name, shape=(size,) * 3, dtype="u2", chunks=(8, 8, 8))[:] = 1
datasets = [
    {"path": path, "coordinateTransformations": [{"type": "scale", "scale": scale}, {"type": "translation", "translation": start}]}
    for path, scale, start in (("0", [1, 0.5, 0.5], [5, 10, 10]), ("1", [2, 1, 1], [5.5, 10.25, 10.25]))
]
axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"]
common = [{"type": "scale", "scale": [10, 2, 2]}]
group.attrs["multiscales"] = [{"version": "0.4", "name": "image", "axes": axes, "datasets": datasets, "coordinateTransformations": common}]
image = ngff_zarr.from_ngff_zarr("image.zarr").images[0]
print("by the standard: voxels of 10, 1 and 1 micrometres, which begin at 50, 20 and 20")
print(f"ngff-zarr: voxels of {[*image.scale.values()]}, which begin at {[*image.translation.values()]}")
END
(cd "$work" && venv/bin/python -W ignore sizes.py 2>/dev/null) >"$work/out"
compare "$work/out"
