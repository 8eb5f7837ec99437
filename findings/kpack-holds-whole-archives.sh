#!/usr/bin/env bash
# librocm_kpack 0.1.0 of ROCm 7.14, in vapoursynth-bm3dhip 2.17.5 (PyPI).
# Expected: an archive costs what is loaded from it. Its code objects are compressed one by one and a table says where they are, so one of
# them can be read alone. Code in a fat library is mapped: processes share it, and the kernel can drop it.
# Seen: the first load reads the whole archive into private memory, which stays until the cache of the process is destroyed. A code object
# of 1 MB from an archive of 200 MB costs 200 MB, in each process again: eight processes, one for each GPU of a node, hold eight copies. An
# archive that lists the GPU and lacks the code object costs the same.
. "$(dirname "$0")/common.sh"
recorded <<'END'
a code object of 1 MB, of an archive of 200 MB: 200 MB were read, 200 MB more of private memory
after the code object was freed: 200 MB more of private memory
one that the archive lacks (KERNEL_NOT_FOUND (5)): 200 MB were read, 200 MB more of private memory
after the cache was destroyed: 0 MB more of private memory
END
cat >"$work/load.py" <<'END'
import ctypes
import re
import sys

import kpack

folder, path, index = sys.argv[1:]
library = kpack.Library(path)
for function in library.c.kpack_free_code_object, library.c.kpack_cache_destroy:
    function.argtypes = [ctypes.c_void_p]
    function.restype = None


def counter(file, name, unit):
    return int(re.search(rf"^{name}:\s+(\d+)", open(f"/proc/self/{file}").read(), re.MULTILINE)[1]) * unit


def tens(number):
    return f"{round(number / 1e7) * 10} MB"


def memory():
    return f"{tens(counter('status', 'RssAnon', 1024) - memory_before)} more of private memory"


cache, data, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
library.c.kpack_cache_create(ctypes.byref(cache))
targets = (ctypes.c_char_p * 1)(b"gfx942")
marker = kpack.marker([f"{folder}/x_@GFXARCH@.kpack"])
memory_before, read_before = counter("status", "RssAnon", 1024), counter("io", "rchar", 1)
error = library.c.kpack_load_code_object(
    cache, marker, f"{folder}/libx.so".encode(), int(index), targets, 1, ctypes.byref(data), ctypes.byref(size)
)
what = f"one that the archive lacks ({kpack.ERRORS[error]})" if error else f"a code object of {size.value // 10**6} MB, of an archive of 200 MB"
print(f"{what}: {tens(counter('io', 'rchar', 1) - read_before)} were read, {memory()}")
if error:
    library.c.kpack_cache_destroy(cache)
    print(f"after the cache was destroyed: {memory()}")
else:
    library.c.kpack_free_code_object(data)
    print(f"after the code object was freed: {memory()}")
END
venv "$work/venv" msgpack==1.1.2 zstandard==0.25.0
amd_runtime
"$work/venv/bin/python" - "$work/kpack/x_gfx942.kpack" <<'END'
import os
import sys

import kpack

kpack.archive(sys.argv[1], {(f"lib/x#{index}", "gfx942"): os.urandom(10**6) for index in range(200)})
END
for index in 0 200; do "$work/venv/bin/python" "$work/load.py" "$work/kpack" "$kpack" $index; done >"$work/out"
compare "$work/out"
