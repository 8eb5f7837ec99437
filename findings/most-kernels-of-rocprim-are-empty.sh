#!/usr/bin/env bash
# jax-rocm7-pjrt 0.12.0 (PyPI), for ROCm 7.14, with kernels of rocPRIM.
# Expected: a code object has the kernels for its GPU, and most of its bytes are instructions. A kernel in its table of symbols can run.
# Seen: rocPRIM declares a kernel for each GPU that it is tuned for, and only the body of one of them is compiled for a GPU. The others are in
# each code object as symbols of size 0, with a descriptor, metadata and a name of 500 letters in two tables. So five of six kernels of
# the library have no instruction, many of them have names that the host does not register, and three quarters of its code objects are not
# code. A kernel that is found by its name need not do anything, and a number of kernels says little.
. "$(dirname "$0")/common.sh"
recorded <<'END'
gfx906: 86 MB, of which 22 MB are instructions; 15163 kernels, 12738 of them empty, 0 of these not of rocPRIM; 5598 are not registered
gfx942: 89 MB, of which 24 MB are instructions; 15287 kernels, 12738 of them empty, 0 of these not of rocPRIM; 5598 are not registered
gfx1100: 89 MB, of which 24 MB are instructions; 15163 kernels, 12738 of them empty, 0 of these not of rocPRIM; 7248 are not registered
gfx1201: 92 MB, of which 27 MB are instructions; 15163 kernels, 12738 of them empty, 0 of these not of rocPRIM; 7248 are not registered
END
venv "$work/venv" zstandard==0.25.0
wheel "$work/jax" --python-version 3.12 --platform manylinux_2_27_x86_64 jax-rocm7-pjrt==0.12.0
"$work/venv/bin/python" - "$work/jax/jax_plugins/xla_rocm7/xla_rocm_plugin.so" >"$work/out" <<'END'
import re
import struct
import sys
from collections import Counter

import comgr

EXECUTABLE, DYNAMIC_SYMBOLS = 4, 11


def read(code):
    """The sizes of the kernels of a code object by their names, and of its instructions."""
    start, count = struct.unpack_from("<Q", code, 40)[0], struct.unpack_from("<H", code, 60)[0]
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, start + 64 * index) for index in range(count)]
    table = next(section for section in sections if section[1] == DYNAMIC_SYMBOLS)
    sizes = {}
    for place in range(table[4], table[4] + table[5], 24):
        at, _, _, _, _, size = struct.unpack_from("<IBBHQQ", code, place)
        at += sections[table[6]][4]
        sizes[code[at : code.index(b"\0", at)]] = size
    return {name: size for name, size in sizes.items() if name + b".kd" in sizes}, sum(s[5] for s in sections if s[2] & EXECUTABLE)


library = open(sys.argv[1], "rb").read()
registered = set(re.findall(rb"(?<=\0)_Z\w+(?=\0)", library))
seen = {gpu: Counter() for gpu in ("gfx906", "gfx942", "gfx1100", "gfx1201")}
for raw in comgr.decompressed(library):
    for name, code in next(comgr.bundles(raw)):
        count = seen.get(name.rpartition("-")[2])
        if count is not None:
            kernels, instructions = read(code)
            count["bytes"] += len(code)
            count["code"] += instructions
            count["kernels"] += len(kernels)
            count["empty"] += sum(not size for size in kernels.values())
            count["unregistered"] += sum(name.startswith(b"_Z") and name not in registered for name in kernels)
            count["other empty"] += sum(not size and b"rocprim" not in name for name, size in kernels.items())
for gpu, count in seen.items():
    code = f"{count['bytes'] / 1e6:.0f} MB, of which {count['code'] / 1e6:.0f} MB are instructions"
    kernels = f"{count['kernels']} kernels, {count['empty']} of them empty, {count['other empty']} of these not of rocPRIM"
    print(f"{gpu}: {code}; {kernels}; {count['unregistered']} are not registered")
END
compare "$work/out"
