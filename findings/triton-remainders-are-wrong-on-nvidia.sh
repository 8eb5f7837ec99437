#!/usr/bin/env bash
# triton 3.9.0 (PyPI), without a GPU: a % b and a / b of floats for a GPU of NVIDIA and one of AMD. What the PTX computes is computed again
# here, by its instructions.
# Expected: the remainder of floats is exact, as fmod of C, numpy and CUDA, since each remainder is a float: it has the sign of a and is
# smaller than b. One kernel gives the same on both GPUs.
# Seen: for sm_90 it is a - trunc(a / b) * b with a quotient that was rounded to 24 bits, so 1 % 0.1 is negative, and 1e10 % 3 is 256. For
# gfx942 it is a loop that subtracts until the remainder is exact. So angles and indices that are folded by % are out of their range on one
# GPU alone. Division is one approximate instruction on the first (div.full), and 11 on the second, which end with v_div_fixup.
. "$(dirname "$0")/common.sh"
recorded <<'END'
remainder, sm_90: div.rn.f32, cvt.rzi.f32.f32, neg.f32, fma.rn.f32
remainder, gfx942: 28 instructions on floats, 1 loop, 1 at the end of a division
quotient, sm_90: div.full.f32
quotient, gfx942: 11 instructions on floats, 0 loops, 1 at the end of a division
1 % 0.1: -1.49012e-08 by the PTX, 0.1 by fmod
10 % 0.1: -1.49012e-07 by the PTX, 0.0999999 by fmod
1e+10 % 3: 256 by the PTX, 1 by fmod
1e+09 % 6.2831855: -33.5333 by the PTX, 4.16579 by fmod
7 % 2: 1 by the PTX, 1 by fmod
END
venv "$work/venv" triton==3.9.0
cat >"$work/remainder.py" <<'END'
import math
import re
import struct
from fractions import Fraction

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def remainder(x, y, z):
    tl.store(z, tl.load(x) % tl.load(y))


@triton.jit
def quotient(x, y, z):
    tl.store(z, tl.load(x) / tl.load(y))


def assembly(kernel, target, form):
    source = ASTSource(fn=kernel, signature=dict.fromkeys("xyz", "*fp32"))
    return triton.compile(source, target=target).asm[form]


def rounded(number):
    """The nearest float."""
    return struct.unpack("f", struct.pack("f", number))[0]


def by_ptx(a, b):
    """div.rn, cvt.rzi, neg and fma.rn."""
    return rounded(float(Fraction(a) - math.trunc(rounded(a / b)) * Fraction(b)))


for kernel in remainder, quotient:
    ptx = assembly(kernel, GPUTarget("cuda", 90, 32), "ptx")
    words = re.findall(r"^\t((?:div|cvt|neg|fma|mul|sub|rcp)\.[a-z0-9.]+)", ptx, re.MULTILINE)
    print(f"{kernel.__name__}, sm_90: {', '.join(words)}")
    code = assembly(kernel, GPUTarget("hip", "gfx942", 64), "amdgcn").partition(f"\n{kernel.__name__}:")[2].partition("s_endpgm")[0]
    labels = [match.start() for match in re.finditer(r"^\.LBB\w+:", code, re.MULTILINE)]
    loops = sum(code.index(f"\n{match[1]}:") < match.start() for match in re.finditer(r"s_cbranch_\w+ (\.LBB\w+)", code))
    floats = re.findall(r"^\tv_(?:div|rcp|fma|fmac|mul|add|rndne|ldexp|frexp)_\w+", code, re.MULTILINE)
    print(f"{kernel.__name__}, gfx942: {len(floats)} instructions on floats, {loops} loop{'s' * (loops != 1)}, {floats.count(chr(9) + 'v_div_fixup_f32')} at the end of a division")
for a, b in (1.0, 0.1), (10.0, 0.1), (1e10, 3.0), (1e9, 2 * math.pi), (7.0, 2.0):
    a, b = rounded(a), rounded(b)
    print(f"{a:.8g} % {b:.8g}: {by_ptx(a, b):.6g} by the PTX, {math.fmod(a, b):.6g} by fmod")
END
TRITON_CACHE_DIR=$work/kernels "$work/venv/bin/python" -W ignore "$work/remainder.py" >"$work/out"
compare "$work/out"
