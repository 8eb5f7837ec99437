#!/usr/bin/env bash
# canmatrix 1.3.3 and cantools 45.1.0 (PyPI): the description of a CAN bus (DBC) that is converted to other formats, with a float, a double and a message
# whose bytes have one of two meanings, by a number in it (a multiplexer).
# Expected: a message is decoded to the same numbers by each format that canmatrix writes and reads, or the conversion is refused. PCAN's format (SYM)
# has types for floats, which cantools writes.
# Seen: in SYM floats are integers, so 1.5 V are 1069547520; in JSON and YAML the multiplexer is lost, so a message has both meanings at once.
. "$(dirname "$0")/common.sh"
recorded <<'END'
DBC by cantools: Degrees -52.34 Volts 1.5, Metres 3.25, Speed 12.3
DBC by canmatrix: Degrees -52.34 Volts 1.5, Metres 3.25, Speed 12.3
KCD by canmatrix: Degrees -52.34 Volts 1.5, Metres 3.25, Speed 12.3
SYM by canmatrix: Degrees -52.34 Volts 1.06955e+09, Metres 4.6145e+18, Speed 12.3
JSON by canmatrix: Degrees -52.34 Volts 1.5, Metres 3.25, Speed 12.3 Torque 615
YAML by canmatrix: Degrees -52.34 Volts 1.5, Metres 3.25, Speed 12.3 Torque 615
SYM by cantools: Degrees -52.34 Volts 1.5, Metres 3.25, Speed 12.3
Var=Volts signed 0,32 /u:V /min:0 /max:0 /d:0
Sig="Volts" float 32 /u:"V"
Sig="Volts" 0
END
venv "$work/venv" canmatrix==1.3.3 cantools==45.1.0 PyYAML==6.0.4 lxml==6.1.3
cat >"$work/bus.py" <<'END'
import struct

import canmatrix.formats
import cantools

open("bus.dbc", "w").write(
    """VERSION ""
BU_: A B
BO_ 256 Float: 8 A
 SG_ Volts : 0|32@1- (1,0) [0|0] "V" B
 SG_ Degrees : 39|16@0- (0.01,-40) [0|0] "degC" B
BO_ 257 Double: 8 A
 SG_ Metres : 0|64@1- (1,0) [0|0] "m" B
BO_ 258 Either: 8 A
 SG_ Selector M : 0|8@1+ (1,0) [0|0] "" B
 SG_ Speed m0 : 8|16@1- (0.1,0) [0|0] "m/s" B
 SG_ Torque m1 : 8|16@1- (5,0) [0|0] "Nm" B
SIG_VALTYPE_ 256 Volts : 1;
SIG_VALTYPE_ 257 Metres : 2;
"""
)
frames = {
    "Float": struct.pack("<f", 1.5) + struct.pack(">hh", -1234, 0),
    "Double": struct.pack("<d", 3.25),
    "Either": struct.pack("<Bhi", 0, 123, 0) + b"\0",
}


def show(note, decode):
    shown = [" ".join(f"{name} {float(value):g}" for name, value in sorted(decode(name, data).items()) if name in known) for name, data in frames.items()]
    print(f"{note}: {', '.join(shown)}")


known = {"Volts", "Degrees", "Metres", "Speed", "Torque"}
original = cantools.database.load_file("bus.dbc")
show("DBC by cantools", original.decode_message)
matrix = canmatrix.formats.loadp_flat("bus.dbc")
for form in "dbc", "kcd", "sym", "json", "yaml":
    canmatrix.formats.dumpp({"": matrix}, f"again.{form}")
    again = canmatrix.formats.loadp_flat(f"again.{form}")
    values = lambda name, data: {key: value.phys_value for key, value in again.frame_by_name(name).decode(data).items()}
    show(f"{form.upper()} by canmatrix", values)
open("other.sym", "w").write(original.as_sym_string())
show("SYM by cantools", cantools.database.load_file("other.sym").decode_message)
print("\n".join(line for name in ("again.sym", "other.sym") for line in open(name) if "Volts" in line).replace("\n\n", "\n").rstrip())
END
(cd "$work" && venv/bin/python -W ignore bus.py 2>/dev/null) >"$work/out"
compare "$work/out"
