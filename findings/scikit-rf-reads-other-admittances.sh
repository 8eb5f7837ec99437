#!/usr/bin/env bash
# scikit-rf 2.2.0 (PyPI): Touchstone files of version 1, whose parameters Z, Y, H and G are normalized by the
# resistance R of the option line. Files of version 2 have the same networks in ohms and siemens.
# Expected: Z11 * R, Y11 / R, H11 * R, H22 / R, G11 / R and G22 * R, as the specification says, so a network that was written is the one that is read.
# Seen: all parameters are multiplied by R, so what has 100 ohms has 0.04 after it was written as Y and read again: the writer has it right.
. "$(dirname "$0")/common.sh"
recorded <<'END'
a resistor: Z 100 ohms
  as S: Z 100 from 1.0, Z 100 from 2.0
  as Z: 2 in the file, Z 100 from 1.0, Z 100 from 2.0
  as Y: 0.5 in the file, Z 0.04 from 1.0, Z 100 from 2.0
an amplifier: Z 100 5 -400 200 ohms
  as S: Z 100 5 -400 200 from 1.0, Z 100 5 -400 200 from 2.0
  as Z: 2 -8 0.1 4 in the file, Z 100 5 -400 200 from 1.0, Z 100 5 -400 200 from 2.0
  as Y: 0.4545 0.9091 -0.01136 0.2273 in the file, Z 0.04 0.002 -0.16 0.08 from 1.0, Z 100 5 -400 200 from 2.0
  as H: 2.2 2 0.025 0.25 in the file, Z 100 0.1 -8 0.08 from 1.0, Z 100 5 -400 200 from 2.0
  as G: 0.5 -4 -0.05 4.4 in the file, Z 0.04 0.1 -8 200 from 1.0, Z 100 5 -400 200 from 2.0
END
venv "$work/venv" scikit-rf==2.2.0 numpy==2.4.6
cat >"$work/networks.py" <<'END'
import numpy
import skrf


def text(matrix):
    return " ".join(f"{value:.6g}" for value in matrix.real.ravel())


resistor = skrf.Network(f=[1e6], z=[[[100]]], z0=50)
amplifier = skrf.Network(f=[1e6], z=[[[100, 5], [-400, 200]]], z0=50)
for label, network, parameters in ("a resistor", resistor, "SZY"), ("an amplifier", amplifier, "SZYHG"):
    print(f"{label}: Z {text(network.z)} ohms")
    for parameter in parameters:
        shown = []
        for version in "1.0", "2.0":
            name = f"network.s{network.nports}p" if version == "1.0" else "network.ts"
            written = network.write_touchstone(name, parameter=parameter, version=version, return_string=True)
            open(name, "w").write(written)
            line = next(line for line in written.splitlines() if line[:1].isdigit())
            if parameter != "S" and version == "1.0":
                shown.append(f"{' '.join(f'{float(word):.4g}' for word in line.split()[1::2])} in the file")
            shown.append(f"Z {text(skrf.Network(name).z)} from {version}")
        print(f"  as {parameter}: {', '.join(shown)}")
END
(cd "$work" && venv/bin/python -W ignore networks.py) >"$work/out"
compare "$work/out"
