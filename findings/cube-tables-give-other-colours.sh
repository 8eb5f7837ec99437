#!/usr/bin/env bash
# OpenColorIO 2.6.0, pillow-lut 1.1.0 and ffmpeg 9.0.2 in imageio-ffmpeg 0.8.1 (PyPI): a table of colours (.cube) that makes each colour half as bright, for
# inputs from DOMAIN_MIN to DOMAIN_MAX, as tables for cameras and films with more than the range of a screen have.
# Expected: one file gives one picture, whatever the domain: white becomes 128 of 255, and black stays black.
# Seen: OpenColorIO goes by the domain, and pillow-lut never does: it takes 0 to 1 for any table. ffmpeg divides by the width of the domain, if that is above
# 1, and does not subtract its start: by a table for -1 to 2 the whole picture is black, and for a part of the range it is as by pillow-lut. All have
# exit code 0, and no message.
. "$(dirname "$0")/common.sh"
recorded <<'END'
the picture: 0 32 64 96 128 160 200 255
0 to 1: OpenColorIO 0 16 32 48 64 80 100 128, pillow-lut 0 16 32 48 64 80 100 127, ffmpeg 0 16 32 48 64 80 100 127
0 to 2: OpenColorIO 0 16 32 48 64 80 100 128, pillow-lut 0 32 64 96 128 128 128 128, ffmpeg 0 15 32 48 64 79 100 127
-1 to 2: OpenColorIO 0 16 32 48 64 80 100 128, pillow-lut 0 0 0 16 64 112 128 128, ffmpeg 0 0 0 0 0 0 0 0
-0.5 to 1: OpenColorIO 0 16 32 48 64 80 100 128, pillow-lut 0 0 0 8 32 56 86 127, ffmpeg 0 0 0 0 0 16 36 63
0.25 to 0.75: OpenColorIO 0 16 32 48 64 80 100 128, pillow-lut 32 40 48 56 64 72 82 96, ffmpeg 31 39 47 55 63 71 81 95
0 to 0.5: OpenColorIO 0 16 32 48 64 80 100 128, pillow-lut 0 8 16 24 32 40 50 64, ffmpeg 0 8 16 24 32 40 49 63
END
venv "$work/venv" opencolorio==2.6.0 pillow-lut==1.1.0 pillow==13.0.0 imageio-ffmpeg==0.8.1 numpy==2.4.6
cat >"$work/tables.py" <<'END'
import subprocess

import imageio_ffmpeg
import numpy
import PyOpenColorIO as ocio
from PIL import Image
from pillow_lut import load_cube_file

levels = [0, 32, 64, 96, 128, 160, 200, 255]
picture = numpy.repeat(numpy.uint8(levels)[None, :, None], 3, 2)
Image.fromarray(picture).save("in.png")


def table(low, high, size=13):
    steps = [low + (high - low) * step / (size - 1) for step in range(size)]
    half = [f"{min(max(step, 0), 1) / 2:.6f}" for step in steps]
    lines = [f"LUT_3D_SIZE {size}", f"DOMAIN_MIN {low} {low} {low}", f"DOMAIN_MAX {high} {high} {high}"]
    lines += [f"{red} {green} {blue}" for blue in half for green in half for red in half]
    open("half.cube", "w").write("\n".join(lines) + "\n")


def by_opencolorio():
    transform = ocio.FileTransform("half.cube", interpolation=ocio.INTERP_LINEAR)
    pixels = (picture / 255).astype("float32")
    ocio.Config.CreateRaw().getProcessor(transform).getDefaultCPUProcessor().applyRGB(pixels)
    return (pixels * 255).round().astype(int)


def by_pillow():
    return numpy.array(Image.fromarray(picture).filter(load_cube_file("half.cube")))


def by_ffmpeg():
    program = imageio_ffmpeg.get_ffmpeg_exe()
    subprocess.run([program, "-v", "error", "-y", "-i", "in.png", "-vf", "lut3d=half.cube:interp=trilinear", "out.png"], check=True)
    return numpy.array(Image.open("out.png").convert("RGB"))


print("the picture:", *levels)
for low, high in (0, 1), (0, 2), (-1, 2), (-0.5, 1), (0.25, 0.75), (0, 0.5):
    table(low, high)
    shown = (f"{name} {' '.join(map(str, apply()[0, :, 0]))}" for name, apply in
             (("OpenColorIO", by_opencolorio), ("pillow-lut", by_pillow), ("ffmpeg", by_ffmpeg)))
    print(f"{low:g} to {high:g}: {', '.join(shown)}")
END
(cd "$work" && venv/bin/python -W ignore tables.py) >"$work/out"
compare "$work/out"
