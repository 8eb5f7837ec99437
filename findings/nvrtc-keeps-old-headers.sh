#!/usr/bin/env bash
# NVRTC 13.5.37 (nvidia-cuda-nvrtc of PyPI), without a GPU.
# Expected: with -pch, which precompiles the headers at the start of a source and takes them for the next one, a header that has changed is read again, as
# gcc, clang and nvcc's front end do by time and size. Headers that are given in memory are compared by their text.
# Seen: within a process, the headers of the first compilation are those of all later ones by the same options, also of other sources: a changed file, a
# changed file that a header includes, and another text for the header in memory have no effect, with success. So a program that generates
# headers, or a notebook whose headers are edited, gets the old kernels. Another option, another line #include, or another process reads them.
. "$(dirname "$0")/common.sh"
recorded <<'END'
a file, without -pch: 111 222 3333
a file: 111 111 111
a file that a header includes: 111 111 111
a text in memory: 111 111 111
a file, sources of other names and texts: 111 111 111
a file, with another option each time: 111 222 3333
a file, with another line in front each time: 111 222 3333
a file, in the next process: 222
END
venv "$work/venv" nvidia-cuda-nvrtc==13.5.37
cat >"$work/compile.py" <<'END'
import ctypes
import glob
import os
import re
import sys

library = ctypes.CDLL(glob.glob(f"{sys.argv[1]}/lib/python3*/site-packages/nvidia/cu13/lib/libnvrtc.so.13")[0])


def value(source, *options, name=b"kernel.cu", header=None):
    """The number in the PTX of a kernel."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    texts, names = ((ctypes.c_char_p * 1)(text) for text in (header, b"value.h"))
    library.nvrtcCreateProgram(ctypes.byref(program), source, name, 1 if header else 0, texts, names)
    options = (b"-arch=compute_90", b"-I.", *options)
    assert library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)) == 0
    library.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    library.nvrtcGetPTX(program, ptx)
    return re.search(rb"\b(111|222|3333)\b", ptx.value)[0].decode()


def write(path, text, time):
    open(path, "w").write(text)
    os.utime(path, (time, time))


SOURCE = b'#include "value.h"\n__global__ void kernel(int *place) { *place += VALUE; }\n'
NESTED = SOURCE.replace(b"value.h", b"outer.h")
write("outer.h", '#include "value.h"\n', 1e9)
results = {}
for number in sys.argv[2:]:
    text = f"#define VALUE {number}\n"
    write("value.h", text, 1e9 + int(number))
    results.setdefault("a file, without -pch", []).append(value(SOURCE))
    results.setdefault("a file", []).append(value(SOURCE, b"-pch"))
    results.setdefault("a file that a header includes", []).append(value(NESTED, b"-pch"))
    results.setdefault("a text in memory", []).append(value(SOURCE, b"-pch", b"-DMEMORY", header=text.encode()))
    results.setdefault("a file, sources of other names and texts", []).append(value(SOURCE + b"// " + text.encode(), b"-pch", name=f"{number}.cu".encode()))
    results.setdefault("a file, with another option each time", []).append(value(SOURCE, b"-pch", b"-DOPTION=" + number.encode()))
    results.setdefault("a file, with another line in front each time", []).append(value(f"#define LINE {number}\n".encode() + SOURCE, b"-pch"))
for name, numbers in results.items():
    print(f"{name}: {' '.join(numbers)}")
END
(cd "$work" && venv/bin/python compile.py venv 111 222 3333 && echo "a file, in the next process: $(venv/bin/python compile.py venv 222 | sed -n 's/^a file: //p')") >"$work/out"
compare "$work/out"
