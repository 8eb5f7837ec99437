#!/usr/bin/env bash
# uv 0.13.9 (PyPI), and librocm_kpack 0.1.0 of ROCm 7.14, in vapoursynth-bm3dhip 2.17.5 (PyPI).
# Expected: the link mode of uv changes what an environment costs, and not how it works: the archive is next to the library in each.
# Seen: with --link-mode symlink both are there, as symlinks to the cache, where each wheel has a directory of its own. The runtime asks the
# kernel for the file that is mapped, which is the one in the cache, and looks for archives next to that. So the library is loaded, Python
# finds everything, and no GPU has kernels. Stores of links have the same shape.
. "$(dirname "$0")/common.sh"
recorded <<'END'
--link-mode hardlink: archive there; the runtime looks next to the library in the environment: the code object
--link-mode copy: archive there; the runtime looks next to the library in the environment: the code object
--link-mode symlink: archive there; the runtime looks next to the library in the cache: ARCHIVE_NOT_FOUND (13)
END
venv "$work/venv" uv==0.13.9 msgpack==1.1.2 zstandard==0.25.0
amd_runtime
# Any library will do; this one is loaded by ctypes.
wheel "$work/msgpack" --python-version 3.11 --platform manylinux_2_28_x86_64 msgpack==1.1.2
"$work/venv/bin/python" - "$work" "$work"/msgpack/msgpack/_cmsgpack*.so <<'END'
import sys

import kpack
import wheels

work, library = sys.argv[1:]
kpack.archive(f"{work}/x.kpack", {("lib/x#0", "gfx942"): b"the code object"})
archive = {"hostpkg/.kpack/x_gfx942.kpack": open(f"{work}/x.kpack", "rb").read()}
wheels.wheel(f"{work}/dist", "hostpkg", "1.0", {"hostpkg/lib/libx.so": open(library, "rb").read()})
wheels.wheel(f"{work}/dist", "amd-hostpkg-device-gfx942", "1.0", archive, "Requires-Dist: hostpkg == 1.0\n")
END
for mode in hardlink copy symlink; do
    UV_NO_CONFIG=1 UV_PYTHON_DOWNLOADS=never "$work/venv/bin/uv" pip install --quiet --cache-dir "$work/uv-cache" --link-mode $mode \
        --python "$(command -v python3)" --target "$work/$mode" --no-index --find-links "$work/dist" amd-hostpkg-device-gfx942 >&2
    "$work/venv/bin/python" - "$kpack" "$work/$mode" <<'END'
import ctypes
import os
import sys

import kpack

path, site = sys.argv[1:]
library = kpack.Library(path)
loaded = ctypes.PyDLL(f"{site}/hostpkg/lib/libx.so")
found, offset = ctypes.create_string_buffer(4096), ctypes.c_size_t()
library.c.kpack_discover_binary_path.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]
library.c.kpack_discover_binary_path(ctypes.cast(loaded.PyInit__cmsgpack, ctypes.c_void_p), found, 4096, ctypes.byref(offset))
binary = found.value.decode()
there = "there" if os.path.exists(f"{site}/hostpkg/.kpack/x_gfx942.kpack") else "not there"
where = "in the environment" if binary.startswith(site) else "in the cache"
answer = library.load(["../.kpack/x_@GFXARCH@.kpack"], binary, ["gfx942"])
print(f"--link-mode {os.path.basename(site)}: archive {there}; the runtime looks next to the library {where}: {answer}")
END
done >"$work/out"
compare "$work/out"
