#!/usr/bin/env bash
# ethos-u-vela 5.2.0 (PyPI), which compiles models of TensorFlow Lite for the Ethos-U, an accelerator of Arm, and a model of pymicro-wakeword 2.5.0 (PyPI).
# Expected: a compiled model tells for which accelerator it is: by its name, its description or its metadata. What is compiled already is refused.
# Seen: for each accelerator the output has one name, one description ("Vela Optimised") and one name of the operator ("ethos-u"), and for two of them
# one size, though their code differs. What tells is a number in the data of a tensor, behind the letters COP1, which the driver compares when the
# model runs. A compiled model is compiled for another accelerator with exit code 0: the code is for the first one, in a file with a report for the second.
. "$(dirname "$0")/common.sh"
recorded <<'END'
ethos-u55-32: alexa_vela.tflite, 42,704 bytes, names no accelerator, number 0x1005
ethos-u55-256: alexa_vela.tflite, 42,704 bytes, names no accelerator, number 0x3008
ethos-u65-256: alexa_vela.tflite, 43,264 bytes, names no accelerator, number 0x10003008
ethos-u65-512: alexa_vela.tflite, 43,696 bytes, names no accelerator, number 0x10006009
ethos-u85-256: alexa_vela.tflite, 75,440 bytes, names no accelerator, number 0x20000118
of ethos-u55-32, compiled again for ethos-u65-512: exit code 0, alexa_vela_vela.tflite, 42,704 bytes, names no accelerator, number 0x1005, with alexa_vela_summary_Ethos_U65_Client_Server.csv
END
venv "$work/venv" ethos-u-vela==5.2.0 flatbuffers==25.12.19
wheel "$work/models" pymicro-wakeword==2.5.0
model=$work/models/pymicro_wakeword/models/alexa.tflite
compile() { # MODEL ACCELERATOR DIRECTORY
    "$work/venv/bin/vela" "$1" --accelerator-config "$2" --output-dir "$3" >&2
}
cat >"$work/read.py" <<'END'
"""Tells what a compiled model says of its accelerator."""

import os
import struct
import sys

path = sys.argv[1]
with open(path, "rb") as file:
    content = file.read()
named = [name for name in ("u55", "u65", "u85") if name in content.decode("latin1").lower()]
place = content.index(b"COP1")
print(f"{os.path.basename(path)}, {len(content):,} bytes, names {', '.join(named) or 'no accelerator'}, number {struct.unpack_from('<I', content, place + 8)[0]:#x}")
END
{
    for accelerator in ethos-u55-32 ethos-u55-256 ethos-u65-256 ethos-u65-512 ethos-u85-256; do
        compile "$model" $accelerator "$work/$accelerator"
        echo "$accelerator: $(python3 "$work/read.py" "$work/$accelerator/alexa_vela.tflite")"
    done
    code=0
    compile "$work/ethos-u55-32/alexa_vela.tflite" ethos-u65-512 "$work/again" || code=$?
    echo "of ethos-u55-32, compiled again for ethos-u65-512: exit code $code, $(python3 "$work/read.py" "$work/again/alexa_vela_vela.tflite")," \
        "with $(basename "$work"/again/*.csv)"
} >"$work/out"
compare "$work/out"
