#!/usr/bin/env bash
# iree-base-compiler and iree-base-runtime 3.13.0 (PyPI), for a CPU (llvm-cpu): operations of StableHLO on floats and doubles.
# Expected: the specification of StableHLO takes power, sine and atan2 from IEEE 754: (-2)^2 is 4, 0^0 is 1, and atan2(0, 0) is 0. XLA gives these.
# Seen: powers of negative numbers and of 0 by 0 are NaN, for floats and doubles, as is atan2(0, 0) and the cube root of infinity. The sine of 100000 is off in
# the second digit. exp(x) - 1 and log(1 + x) of doubles are right to nine digits. The exit codes are 0. So models with a square written as a
# power, and positions that are encoded by sines of large angles, compute NaN and other numbers on a CPU than by XLA.
. "$(dirname "$0")/common.sh"
recorded <<'END'
power of f32: -7^3 = nan, -2^2 = nan, 0^0 = nan, 2^3 = 8
power of f64: -7^3 = nan, -2^2 = nan, 0^0 = nan, 2^3 = 8
atan2 of f32: 0, 0 = nan, 1, 1 = 0.785398
sine of f32: 1 = 0.841471, 88.5 = 0.510185 (0.51019), 100000 = 0.039536 (0.0357488)
cbrt of f32: -8 = -2, inf = nan
exponential_minus_one of f64: 1e-08 = 9.999999939e-09 (1.000000005e-08)
END
venv "$work/venv" iree-base-compiler==3.13.0 iree-base-runtime==3.13.0 numpy==2.4.6
cat >"$work/operations.py" <<'END'
import math

import numpy
from iree import compiler, runtime

kinds = {"f32": numpy.float32, "f64": numpy.float64}


def run(operation, kind, *operands):
    types = [f"tensor<{len(operands[0])}x{kind}>"] * len(operands)
    names = [f"%{number}" for number in range(len(operands))]
    arguments = ", ".join(map(": ".join, zip(("%a", "%b"), types)))
    names = ", ".join(("%a", "%b")[: len(operands)])
    text = (
        f"module @m {{ func.func public @main({arguments}) -> {types[0]} {{\n"
        f'  %r = "stablehlo.{operation}"({names}) : ({", ".join(types)}) -> {types[0]}\n  return %r : {types[0]} }} }}'
    )
    options = ["--iree-llvmcpu-target-cpu=generic", "--iree-input-demote-f64-to-f32=false"]
    code = compiler.compile_str(text, target_backends=["llvm-cpu"], input_type="stablehlo", extra_args=options)
    context = runtime.SystemContext(config=runtime.Config("local-sync"))
    context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, code))
    return numpy.asarray(context.modules.m.main(*(numpy.array(values, kinds[kind]) for values in operands)))


bases, exponents = (-7, -2, 0, 2), (3, 2, 0, 3)
for kind in kinds:
    results = run("power", kind, bases, exponents)
    print(f"power of {kind}: {', '.join(f'{a}^{b} = {r:g}' for a, b, r in zip(bases, exponents, results))}")
print(f"atan2 of f32: {', '.join(f'{a}, {a} = {r:g}' for a, r in zip((0, 1), run('atan2', 'f32', (0, 1), (0, 1))))}")
angles = (1, 88.5, 100000)
shown = [f"{a:g} = {r:g}" + (f" ({math.sin(a):g})" if abs(r - math.sin(a)) > 1e-6 else "") for a, r in zip(angles, run("sine", "f32", angles))]
print(f"sine of f32: {', '.join(shown)}")
print(f"cbrt of f32: {', '.join(f'{a:g} = {r:g}' for a, r in zip((-8, math.inf), run('cbrt', 'f32', (-8, math.inf))))}")
print(f"exponential_minus_one of f64: 1e-08 = {run('exponential_minus_one', 'f64', [1e-8])[0]:.10g} ({math.expm1(1e-8):.10g})")
END
"$work/venv/bin/python" -W ignore "$work/operations.py" >"$work/out"
compare "$work/out"
