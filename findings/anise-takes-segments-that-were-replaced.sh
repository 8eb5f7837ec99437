#!/usr/bin/env bash
# anise 0.10.6, spiceypy 8.3.0 and jplephem 2.24 (PyPI): a file of ephemerides (SPK) to which newer segments for the same spacecraft were appended.
# Expected: the later segment of a file counts where segments overlap, as SPICE says and as missions append what they have measured since.
# Seen: anise takes the first segment of the file that has the time, so the spacecraft is where the plan was, with success. Of two files it takes the
# one that was loaded last, as SPICE does. jplephem has the last segment of a pair of bodies alone, and refuses other times.
. "$(dirname "$0")/common.sh"
recorded <<'END'
at 10000 s: 10000 km by SPICE, 10000 by anise, refused by jplephem
at 25000 s: 20000 km by SPICE, 10000 by anise, refused by jplephem
at 35000 s: 30000 km by SPICE, 10000 by anise, 30000 by jplephem
at 45000 s: 30000 km by SPICE, 10000 by anise, 30000 by jplephem
of two files, at 25000 s: 20000 km by SPICE, 20000 by anise
END
venv "$work/venv" anise==0.10.6 spiceypy==8.3.0 jplephem==2.24 numpy==2.4.6
cat >"$work/segments.py" <<'END'
import spiceypy
from anise import Almanac, astro, time
from jplephem.spk import SPK

segments = [("the plan", 0, 86400, 10000), ("after a manoeuvre", 20000, 40000, 20000), ("as measured", 30000, 50000, 30000)]


def write(name, segments):
    file = spiceypy.spkopn(name, name, 0)
    for label, start, end, x in segments:
        coefficients = [float(value) for value in [x, 0, 0, 0, 0, 0, 0, 0, 0] * 2]
        spiceypy.spkw02(file, -999, 399, "J2000", start, end, label, (end - start) / 2, 2, 2, coefficients, start)
    spiceypy.spkcls(file)


def by_spice(seconds):
    return f"{spiceypy.spkgeo(-999, seconds, 'J2000', 399)[0][0]:.0f} km by SPICE"


def by_anise(almanac, seconds):
    moment = time.Epoch.from_et_seconds(seconds)
    return f"{almanac.translate(astro.Frame(-999, 1), astro.Frame(399, 1), moment).x_km:.0f} by anise"


def by_jplephem(name, seconds):
    try:
        return f"{SPK.open(name)[399, -999].compute(2451545 + seconds / 86400)[0]:.0f} by jplephem"
    except ValueError:
        return "refused by jplephem"


write("one.bsp", segments)
spiceypy.furnsh("one.bsp")
almanac = Almanac("one.bsp")
for seconds in 10000.0, 25000.0, 35000.0, 45000.0:
    print(f"at {seconds:.0f} s: {by_spice(seconds)}, {by_anise(almanac, seconds)}, {by_jplephem('one.bsp', seconds)}")
spiceypy.kclear()
write("old.bsp", segments[:1])
write("new.bsp", segments[1:2])
for name in "old.bsp", "new.bsp":
    spiceypy.furnsh(name)
print(f"of two files, at 25000 s: {by_spice(25000.0)}, {by_anise(Almanac('old.bsp').load('new.bsp'), 25000.0)}")
END
(cd "$work" && venv/bin/python -W ignore segments.py) >"$work/out"
compare "$work/out"
