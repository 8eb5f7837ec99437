#!/usr/bin/env bash
# tinygrad 0.14.0, ml_dtypes 0.6.0 and numpy 2.4.6 (PyPI), by its device PYTHON, which needs no GPU: floats of 8 bits as they are, and as they
# are computed for a device that has no instructions for them (EMULATED_DTYPES).
# Expected: a device without such instructions gives the same numbers, by integers: the form is one of storage, and weights come in it.
# Seen: each denormal number becomes 0, without a word: 14 of the 254 numbers of fp8e4m3, up to 0.0137, and what is written loses all below the
# smallest normal number, 0.0156. So it is on CPUs, on AMD's GPUs but for gfx950, so on MI300 and gfx1201, which have instructions, too, and on
# NVIDIA's before sm_89; a model of 8 bits has other weights there than on the others. AMD's own forms (fnuz) are computed so on all GPUs.
. "$(dirname "$0")/common.sh"
recorded <<'END'
fp8e4m3: 0 of 256 codes are read as 0; 0.001 -> 0.00195312, 0.01 -> 0.00976562, 0.015 -> 0.015625, 1 -> 1
fp8e5m2: 0 of 256 codes are read as 0; 0.001 -> 0.000976562, 0.01 -> 0.00976562, 0.015 -> 0.015625, 1 -> 1
fp8e4m3fnuz: 0 of 256 codes are read as 0; 0.001 -> 0.000976562, 0.01 -> 0.00976562, 0.015 -> 0.0146484, 1 -> 1
fp8e4m3, emulated: 14 of 256 codes are read as 0, up to 0.0136719; 0.001 -> 0, 0.01 -> 0, 0.015 -> 0, 1 -> 1
fp8e5m2, emulated: 6 of 256 codes are read as 0, up to 4.57764e-05; 0.001 -> 0.000976562, 0.01 -> 0.00976562, 0.015 -> 0.015625, 1 -> 1
fp8e4m3fnuz, emulated: 14 of 256 codes are read as 0, up to 0.00683594; 0.001 -> 0, 0.01 -> 0.00976562, 0.015 -> 0.0146484, 1 -> 1
without emulation of fp8e4m3: gfx950, sm_89, sm_90
without emulation of fp8e5m2: gfx950, sm_89, sm_90
without emulation of fp8e4m3fnuz: none
END
venv "$work/venv" tinygrad==0.14.0 ml_dtypes==0.6.0 numpy==2.4.6
cat >"$work/forms.py" <<'END'
from types import SimpleNamespace

import ml_dtypes
import numpy
from tinygrad import Tensor, dtypes
from tinygrad.helpers import EMULATED_DTYPES
from tinygrad.renderer.cstyle import ClangRenderer, CUDARenderer, HIPRenderer

forms = {"fp8e4m3": ml_dtypes.float8_e4m3fn, "fp8e5m2": ml_dtypes.float8_e5m2, "fp8e4m3fnuz": ml_dtypes.float8_e4m3fnuz}
codes = numpy.arange(256, dtype="uint8")
numbers = numpy.array([0.001, 0.01, 0.015, 1], "float32")


def show(name, kind, word):
    form = getattr(dtypes, name)
    read, right = Tensor(codes).bitcast(form).cast(dtypes.float32).numpy(), codes.view(kind).astype("float32")
    lost = (read == 0) & (right != 0)
    through = Tensor(numbers).cast(form).bitcast(dtypes.uint8).numpy().view(kind).astype("float32")
    largest = f", up to {abs(right[lost]).max():g}" if lost.any() else ""
    print(f"{name}{word}: {lost.sum()} of 256 codes are read as 0{largest}; {', '.join(f'{a:g} -> {b:g}' for a, b in zip(numbers, through))}")


def has(renderer, gpu, form):
    one = object.__new__(renderer)
    one.target = SimpleNamespace(arch=gpu)
    return getattr(dtypes, form) in one.supported_dtypes()


for name, kind in forms.items():
    show(name, kind, "")
EMULATED_DTYPES.value = ",".join(forms)
for name, kind in forms.items():
    show(name, kind, ", emulated")
gpus = [(HIPRenderer, gpu) for gpu in ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")]
gpus += [(CUDARenderer, gpu) for gpu in ("sm_80", "sm_89", "sm_90")]
for name in forms:
    print(f"without emulation of {name}: {', '.join(gpu for renderer, gpu in [(ClangRenderer, 'x86_64'), *gpus] if has(renderer, gpu, name)) or 'none'}")
END
CACHEDB=$work/tinygrad.db DEV=PYTHON "$work/venv/bin/python" -W ignore "$work/forms.py" >"$work/out"
compare "$work/out"
