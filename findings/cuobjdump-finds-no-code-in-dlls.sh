#!/usr/bin/env bash
# cuobjdump 13.4.92 (PyPI), on libraries of bitsandbytes 0.50.2 (PyPI) for Linux and for Windows.
# Expected: cuobjdump lists the code of a DLL as that of a shared library, since the fat binaries in it are the same; or it says that it does not read DLLs.
# Seen: on Linux it says that the DLL does not contain device code, also with -all, and ends with 255, as for a library that has none. A fat binary that is
# copied out of the DLL is listed as expected.
. "$(dirname "$0")/common.sh"
recorded <<'END'
library.so: exit code 0, sm_100 sm_120 sm_75 sm_80 sm_86 sm_89 sm_90
library.dll: exit code 255, File 'library.dll' does not contain device code
library.dll, -all: exit code 255, File 'library.dll' does not contain device code
copied.fatbin: exit code 0, sm_100 sm_120 sm_75 sm_80 sm_86 sm_89 sm_90
END
venv "$work/venv" nvidia-cuda-cuobjdump==13.4.92
for platform in win_amd64 manylinux_2_24_x86_64; do wheel "$work/$platform" --platform $platform bitsandbytes==0.50.2; done
ln -s "$work/win_amd64/bitsandbytes/libbitsandbytes_cuda130.dll" "$work/library.dll"
ln -s "$work/manylinux_2_24_x86_64/bitsandbytes/libbitsandbytes_cuda130.so" "$work/library.so"
cat >"$work/copy.py" <<'END'
import struct
import sys

# fatbinary.h of CUDA: the magic, the version, the size of the header, and that of what follows.
MAGIC = struct.pack("<I", 0xBA55ED50)
library = open(sys.argv[1], "rb").read()
start = library.index(MAGIC)
header, body = struct.unpack_from("<HQ", library, start + 6)
open(sys.argv[2], "wb").write(library[start : start + header + body])
END
python3 "$work/copy.py" "$work/library.dll" "$work/copied.fatbin"
show() { # FILE [OPTION]
    local code=0
    (cd "$work" && "$work"/venv/lib/python3*/site-packages/nvidia/cu13/bin/cuobjdump ${2:+"$2"} -lelf "$1") >"$work/listed" 2>&1 || code=$?
    echo "$1${2:+, $2}: exit code $code, $(grep -o 'sm_[0-9a-z]*' "$work/listed" | sort -u | paste -sd' ' | grep . || sed "s|^cuobjdump info *: ||; s|$work/||" "$work/listed")"
}
{
    show library.so
    show library.dll
    show library.dll -all
    show copied.fatbin
} >"$work/out"
compare "$work/out"
