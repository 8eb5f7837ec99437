#!/usr/bin/env bash
# laspy 2.7.0 (PyPI): points of a scanner on an aircraft (LAS 1.2, point format 3) that are converted to a point format of LAS 1.4, and back.
# Expected: an angle of the scanner in degrees becomes one in steps of 0.006 degrees, as both formats have it, or the conversion is refused.
# Seen: all angles are 0, without a word, so strips and the slope of a beam are lost: the fields have other names. The way back drops them too, and with
# them channels of the scanner, while a class or a return that does not fit is an error. A place that is NaN is written as -21474836.48 m.
. "$(dirname "$0")/common.sh"
recorded <<'END'
format 3: -15 0 20 degrees, classes 1 2 6
as format 6 in LAS 1.4: 0 0 0 degrees, classes 1 2 6
format 6: -15 0 18 degrees, channels 0 1 2
as format 3: 0 0 0 degrees
class 40 as format 3: an error
x of 1, NaN and 3 m: 1.00 -21474836.48 3.00
END
venv "$work/venv" laspy==2.7.0 numpy==2.4.6
cat >"$work/angles.py" <<'END'
import laspy
import numpy


def points(version, number):
    made = laspy.create(file_version=version, point_format=number)
    made.x = made.y = made.z = [1, 2, 3]
    return made


def text(array):
    return " ".join(f"{value:g}" for value in numpy.asarray(array).tolist())


def saved(made):
    made.write("points.las")
    return laspy.read("points.las")


old = points("1.2", 3)
old.scan_angle_rank, old.classification = [-15, 0, 20], [1, 2, 6]
print(f"format 3: {text(saved(old).scan_angle_rank)} degrees, classes {text(old.classification)}")
new = saved(laspy.convert(old, point_format_id=6))
print(f"as format 6 in LAS {new.header.version}: {text(new.scan_angle * 0.006)} degrees, classes {text(new.classification)}")
new = points("1.4", 6)
new.scan_angle, new.scanner_channel = [-2500, 0, 3000], [0, 1, 2]
print(f"format 6: {text(saved(new).scan_angle * 0.006)} degrees, channels {text(new.scanner_channel)}")
print(f"as format 3: {text(saved(laspy.convert(new, point_format_id=3, file_version='1.2')).scan_angle_rank)} degrees")
new.classification = [1, 40, 2]
try:
    print(f"class 40 as format 3: {text(laspy.convert(new, point_format_id=3).classification)}")
except OverflowError:
    print("class 40 as format 3: an error")
new.x = [1, numpy.nan, 3]
print(f"x of 1, NaN and 3 m: {' '.join(f'{value:.2f}' for value in saved(new).x)}")
END
(cd "$work" && venv/bin/python -W ignore angles.py) >"$work/out"
compare "$work/out"
