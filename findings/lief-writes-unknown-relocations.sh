#!/usr/bin/env bash
# lief 1.0.0 (PyPI), on a code object for gfx942 by clang 22.1.8 (Debian 12) with a pointer among its variables, and on a library for x86-64 with the same.
# Expected: a file that was read and is written without a change, with a RUNPATH or without symbols, is relocated as before. What lief does not
# know, it copies, or it refuses to write.
# Seen: lief knows no relocations of AMDGPU. It says so on standard error when it reads, and writes the type of each as 0x7ffffff in place of
# R_AMDGPU_RELATIVE64, with success. A loader has no rule for that type. Code objects without pointers in their variables have no relocations,
# so a test with a simple kernel passes.
. "$(dirname "$0")/common.sh"
recorded <<'END'
x86-64: R_X86_64_64
    unchanged: exit code 0, R_X86_64_64
    a RUNPATH: exit code 0, R_X86_64_64
    stripped: exit code 0, R_X86_64_64
gfx942: R_AMDGPU_RELATIVE64
    unchanged: exit code 0, Unknown
    a RUNPATH: exit code 0, Unknown
    stripped: exit code 0, Unknown
END
hip_compiler
venv "$work/venv" lief==1.0.0
printf '#define DEVICE\n' >"$work/host.h"
printf '#define DEVICE __attribute__((device))\n' >"$work/device.h"
printf 'DEVICE float table[8] = {1, 2, 3};\nDEVICE float *pointer = &table[3];\n' >"$work/pointer.hip"
hip -x c++ -include "$work/host.h" -O2 -shared "$work/pointer.hip" -o "$work/x86-64"
hip -x hip -nogpuinc -include "$work/device.h" --offload-arch=gfx942 --offload-device-only --no-gpu-bundle-output -O2 "$work/pointer.hip" -o "$work/gfx942"
cat >"$work/write.py" <<'END'
import sys

import lief

read, change, written = sys.argv[1:]
binary = lief.ELF.parse(read)
if change == "a RUNPATH":
    binary.add(lief.ELF.DynamicEntryRunPath("$ORIGIN"))
elif change == "stripped":
    binary.strip()
binary.write(written)
END
relocations() { # FILE: the types of its relocations
    "$llvm/llvm-readelf" --relocs "$1" | grep -oE 'R_[A-Z0-9_]+|Unknown' | paste -sd ' '
}
for machine in x86-64 gfx942; do
    echo "$machine: $(relocations "$work/$machine")"
    for change in unchanged "a RUNPATH" stripped; do
        code=0
        env -u LD_LIBRARY_PATH "$work/venv/bin/python" "$work/write.py" "$work/$machine" "$change" "$work/written" >&2 || code=$?
        echo "    $change: exit code $code, $(relocations "$work/written")"
    done
done >"$work/out"
compare "$work/out"
