#!/usr/bin/env bash
# tinygrad 0.14.0 (PyPI), with COMGR 2.4 of ROCm 5.2.3 (libamd-comgr2 5.2.3-2, Debian 12) and COMGR 3.3 in vapoursynth-bm3dhip 2.17.5 (PyPI).
# Expected: a cache of compiled kernels knows which compiler they are by, as that of COMGR does, so an upgrade of ROCm compiles them again.
# Seen: tinygrad's key is the source and the GPU. After an upgrade it takes what the old compiler made: faults that were mended since stay, as does
# slow code, until someone removes the cache. Environments and containers of two releases of ROCm that share a home directory take the code
# objects of whichever compiled first, of version 4 or 6.
. "$(dirname "$0")/common.sh"
recorded <<'END'
COMGR 2.4: code object of version 4 by clang 15
COMGR 3.3: code object of version 4 by clang 15
COMGR 3.3: code object of version 6 by clang 23
COMGR 2.4: code object of version 6 by clang 23
END
venv "$work/venv" tinygrad==0.14.0
amd_runtime
debs libamd-comgr2=5.2.3-2 libllvm15=1:15.0.6-4+b1
cat >"$work/compile.py" <<'END'
import ctypes
import re

from tinygrad.runtime.support.compiler_amd import HIPCompiler, comgr

source = 'extern "C" __attribute__((global)) void kernel(float *p, int n) { for (int i = 0; i < n; ++i) p[n] += p[i] * p[i + 1]; }'
code = HIPCompiler("gfx90a").compile_cached(source)
major, minor = ctypes.c_uint64(), ctypes.c_uint64()
comgr.amd_comgr_get_version(ctypes.byref(major), ctypes.byref(minor))
compiler = re.search(rb"clang version (\d+)", code)[1].decode()
# ELFABIVERSION_AMDGPU_HSA_V4 is 2.
print(f"COMGR {major.value}.{minor.value}: code object of version {code[8] + 2} by clang {compiler}")
END
old() { # CACHE: with COMGR 2.4
    CACHEDB=$work/$1 COMGR_PATH=$(echo "$work"/root/usr/lib/x86_64-linux-gnu/libamd_comgr.so.2.*) "$work/venv/bin/python" "$work/compile.py"
}
new() { # CACHE: with COMGR 3.3
    LD_LIBRARY_PATH='' CACHEDB=$work/$1 COMGR_PATH=$comgr COMGR_3_PATH=$comgr "$work/venv/bin/python" "$work/compile.py"
}
{
    old first
    new first
    new second
    old second
} >"$work/out"
compare "$work/out"
