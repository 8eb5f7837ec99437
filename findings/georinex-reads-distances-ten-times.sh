#!/usr/bin/env bash
# georinex 1.16.2 (PyPI): observations of satellites (RINEX 3) whose header states that the receiver wrote some of them times a factor (SYS / SCALE FACTOR),
# to keep more digits than the three of the format.
# Expected: observations are divided by the factor, or the file is refused.
# Seen: the record is read into the header, and the observations stay as they are: a distance of 20,000 km is 200,000 or 2,000,000 km, with success.
. "$(dirname "$0")/common.sh"
recorded <<'END'
20000000.123 m and 1000.5 cycles, no factor: 20000000.123 m and 1000.5 cycles
20000000.123 m and 1000.5 cycles, C1C times 10: 200000001.230 m and 1000.5 cycles
20000000.123 m and 1000.5 cycles, all times 100: 2000000012.300 m and 100050.0 cycles
END
venv "$work/venv" georinex==1.16.2 numpy==2.4.6
cat >"$work/observations.py" <<'END'
import georinex


def line(text, label):
    return f"{text:<60}{label:<20}\n"


for note, scales in ("no factor", []), ("C1C times 10", ["G   10  1 C1C"]), ("all times 100", ["G  100"]):
    factor = int(scales[0].split()[1]) if scales else 1
    phase = factor if note.startswith("all") else 1
    header = [
        line("     3.04           OBSERVATION DATA    M", "RINEX VERSION / TYPE"),
        line("receiver                                20260101 000000 UTC", "PGM / RUN BY / DATE"),
        line("MARK", "MARKER NAME"),
        line("observer            agency", "OBSERVER / AGENCY"),
        line("1                   TYPE                1", "REC # / TYPE / VERS"),
        line("1                   TYPE", "ANT # / TYPE"),
        line("  4000000.0000  1000000.0000  4800000.0000", "APPROX POSITION XYZ"),
        line("        0.0000        0.0000        0.0000", "ANTENNA: DELTA H/E/N"),
        line("G    2 C1C L1C", "SYS / # / OBS TYPES"),
        *[line(scale, "SYS / SCALE FACTOR") for scale in scales],
        line("  2026     1     1     0     0    0.0000000     GPS", "TIME OF FIRST OBS"),
        line("", "END OF HEADER"),
    ]
    record = f"> 2026 01 01 00 00  0.0000000  0  1\nG01{20000000.123 * factor:14.3f}  {1000.5 * phase:14.3f}  \n"
    open("a.26o", "w").write("".join(header) + record)
    read = georinex.load("a.26o")
    print(f"20000000.123 m and 1000.5 cycles, {note}: {read.C1C.values.item():.3f} m and {read.L1C.values.item():.1f} cycles")
END
(cd "$work" && venv/bin/python -W ignore observations.py) >"$work/out"
compare "$work/out"
