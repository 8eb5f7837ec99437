#!/usr/bin/env bash
# gdb 13.1 and binutils 2.40 (Debian 12), on a code object by COMGR 3.3 in vapoursynth-bm3dhip 2.17.5 (PyPI).
# Expected: a gdb that does not know AMD's GPUs, as Debian's does not, refuses to disassemble a code object, as objdump of binutils does, or warns.
# Seen: gdb reads lines and types of the kernel, takes the machine for i386, and prints instructions of x86, with exit code 0 and without a word.
# The places of variables end at an operation of AMD, which readelf calls a user's one and passes by.
. "$(dirname "$0")/common.sh"
recorded <<'END'
objdump, instructions: exit code 1; x86_64-linux-gnu-objdump: can't disassemble for architecture UNKNOWN!
gdb, machine: exit code 0; The target architecture is set to "auto" (currently "i386").
gdb, instructions: exit code 0; 0x00001c00 <+0>: addb $0xa1,(%eax)
gdb, types: exit code 0; long second;
gdb, places: exit code 1; Symbol pairs is a variable in $bad_register_numberCorrupted DWARF2 expression for "pairs".
readelf, places: exit code 0; <32> DW_AT_location : 9 byte block: 90 41 94 4 30 22 35 e9 2 (DW_OP_regx: 65 (r65); DW_OP_deref_size: 4; DW_OP_lit0; DW
END
debs gdb-minimal=13.1-3 binutils-x86-64-linux-gnu=2.40-2 libbinutils=2.40-2 libctf0=2.40-2 libctf-nobfd0=2.40-2 libgprofng0=2.40-2 libjansson4=2.14-2 \
    libipt2=2.0.5-1 libmpfr6=4.2.0-1 libgmp10=2:6.2.1+dfsg1-1.1 libxxhash0=0.8.1-1 libreadline8=8.2-1.3 \
    libdebuginfod1=0.188-2.1 libdw1=0.188-2.1 libelf1=0.188-2.1
amd_runtime
tools=$work/root/usr/bin
"$tools/gdb" --version >/dev/null || unavailable "gdb does not start"
cat >"$work/compile.py" <<'END'
import sys

import comgr

SOURCE = """
struct pair { int first; long second; };
__kernel void kernel_of_pairs(__global struct pair *pairs, int count) { int twice = count * 2; pairs[twice].first = twice; }
"""
with open(sys.argv[2], "wb") as file:
    file.write(comgr.Comgr(sys.argv[1]).compile("gfx942", SOURCE, ["-g", "-O0"]))
END
LD_LIBRARY_PATH= python3 "$work/compile.py" "$comgr" "$work/code.co"
show() { # NAME COMMAND…
    local code=0
    "${@:2}" >"$work/printed" 2>&1 || code=$?
    echo "$1: exit code $code; $(grep -m1 "$pattern" "$work/printed" | sed 's|.*/root/usr/bin/||' | tr -s ' \t' ' ' | cut -c1-120 | sed 's/^ //')"
}
debugger() { # COMMAND
    TERM=dumb "$tools/gdb" -nx -batch -ex "$1" "$work/code.co"
}
{
    pattern=UNKNOWN show "objdump, instructions" "$tools/x86_64-linux-gnu-objdump" -d "$work/code.co"
    pattern='currently' show "gdb, machine" debugger "show architecture"
    pattern='^ .*+0>' show "gdb, instructions" debugger "disassemble kernel_of_pairs"
    pattern=second show "gdb, types" debugger "ptype struct pair"
    pattern=DWARF show "gdb, places" debugger "info scope kernel_of_pairs"
    pattern='op 0xe9' show "readelf, places" "$tools/x86_64-linux-gnu-readelf" --debug-dump=info "$work/code.co"
} >"$work/out"
compare "$work/out"
