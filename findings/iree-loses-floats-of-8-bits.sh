#!/usr/bin/env bash
# iree-base-compiler and iree-base-runtime 3.13.0, ml_dtypes 0.6.0 and numpy 2.4.6 (PyPI), for a CPU (llvm-cpu): arith.truncf and
# arith.extf of floats of 8 bits.
# Expected: the nearest number of the form, as by ml_dtypes and XLA, which agree on all forms: the error of a number near the smallest normal
# one is at most half of a step, and both codes of NaN are read as NaN.
# Seen: what is to be rounded up to the smallest normal number is 0, since the carry of the rounding is lost: 0.015 of f8E4M3FN, whose
# neighbours 0.0145 and 0.0158 are kept. So numbers that are sixteen times the smallest of the form vanish, in each of the four forms. The
# negative NaN of f8E4M3FN (0xff) is read as -480, which the form does not have: -470 is -480 after a way through it, where 470 is NaN.
. "$(dirname "$0")/common.sh"
recorded <<'END'
f8E4M3FN: 0 for numbers from 0.01474 to 0.01556, where 0.015625 is right; 9 of 4096 numbers are wrong
f8E5M2: 0 for numbers from 5.352e-05 to 6.087e-05, where 6.10352e-05 is right; 20 of 4096 numbers are wrong
f8E4M3FNUZ: 0 for numbers from 0.007341 to 0.007802, where 0.0078125 is right; 10 of 4096 numbers are wrong
f8E5M2FNUZ: 0 for numbers from 2.683e-05 to 3.031e-05, where 3.05176e-05 is right; 19 of 4096 numbers are wrong
f8E4M3FN: 0.0145 -> 0.0136719, 0.015 -> 0, 0.0158 -> 0.015625, 470 -> nan, -470 -> -480; 0x7f -> nan, 0xff -> -480
f8E5M2: 0.0145 -> 0.0136719, 0.015 -> 0.015625, 0.0158 -> 0.015625, 470 -> 448, -470 -> -448; 0x7f -> nan, 0xff -> nan
END
venv "$work/venv" iree-base-compiler==3.13.0 iree-base-runtime==3.13.0 ml_dtypes==0.6.0 numpy==2.4.6
cat >"$work/casts.py" <<'END'
import ml_dtypes
import numpy
from iree import compiler, runtime

forms = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}


def run(array, *steps):
    """What a program makes of the array by these operations, each with the type that it gives."""
    size = array.size
    before = start = {numpy.dtype("float32"): "f32", numpy.dtype("int8"): "i8"}[array.dtype]
    lines = []
    for number, (operation, kind) in enumerate(steps, 1):
        lines.append(f"%{number} = arith.{operation} %{number - 1} : tensor<{size}x{before}> to tensor<{size}x{kind}>")
        before = kind
    body = "\n".join([*lines, f"return %{len(steps)} : tensor<{size}x{before}>"]).replace("%0 ", "%a ")
    text = f"module @m {{ func.func public @main(%a: tensor<{size}x{start}>) -> tensor<{size}x{before}> {{\n{body} }} }}"
    code = compiler.compile_str(text, target_backends=["llvm-cpu"], extra_args=["--iree-llvmcpu-target-cpu=generic"])
    context = runtime.SystemContext(config=runtime.Config("local-sync"))
    context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, code))
    return numpy.asarray(context.modules.m.main(array))


def pairs(names, results):
    return ", ".join(f"{name} -> {result:g}" for name, result in zip(names, results))


numbers = 2 ** numpy.linspace(-30, 10, 4096, endpoint=False).astype("float32")
for name, kind in forms.items():
    seen = run(numbers, ("truncf", name), ("bitcast", "i8")).view(kind).astype("float32")
    right = numbers.astype(kind).astype("float32")
    wrong = ~((seen == right) | numpy.isnan(seen) & numpy.isnan(right))
    told = f"{' and '.join(f'{x:g}' for x in set(seen[wrong]))} for numbers from {numbers[wrong].min():.4g} to {numbers[wrong].max():.4g}"
    print(f"{name}: {told}, where {', '.join(f'{x:g}' for x in set(right[wrong]))} is right; {wrong.sum()} of {numbers.size} numbers are wrong")
some = 0.0145, 0.015, 0.0158, 470, -470
for name in "f8E4M3FN", "f8E5M2":
    through = run(numpy.array(some, "float32"), ("truncf", name), ("extf", "f32"))
    codes = run(numpy.array([0x7F, -1], "int8"), ("bitcast", name), ("extf", "f32"))
    print(f"{name}: {pairs(some, through)}; {pairs(('0x7f', '0xff'), codes)}")
END
"$work/venv/bin/python" -W ignore "$work/casts.py" >"$work/out"
compare "$work/out"
