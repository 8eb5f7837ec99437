#!/usr/bin/env bash
# halide 21.0.0 (PyPI), without a GPU.
# Expected: strict_float(x * a + b) multiplies and adds by two roundings on each device, so a pipeline gives the same floats on a CPU and on a GPU, which is
# what strict_float is for.
# Seen: on a CPU it does so. For CUDA the kernel has the same fused multiply-adds with and without it, and for Vulkan its SPIR-V is the same, without the
# decoration that forbids a driver to fuse (NoContraction). There is no warning. Without strict_float, x86-64 fuses only if the target names FMA, so a
# build for any x86-64 gives other floats than its GPU.
. "$(dirname "$0")/common.sh"
recorded <<'END'
x86-64-linux-sse41, plain: 4 addps, 4 mulps
x86-64-linux-sse41, strict: 4 addps, 4 mulps
x86-64-linux-avx2-fma, plain: 2 vfmadd213ps
x86-64-linux-avx2-fma, strict: 2 vaddps, 2 vmulps
x86-64-linux-cuda, plain: 2 fma.rn.f32
x86-64-linux-cuda, strict: 2 fma.rn.f32
x86-64-linux-vulkan, plain: 2 FAdd, 2 FMul
x86-64-linux-vulkan, strict: 2 FAdd, 2 FMul
END
venv "$work/venv" halide==21.0.0
cat >"$work/build.py" <<'END'
import collections
import re
import struct
import sys
import warnings

import halide

warnings.simplefilter("ignore")
x, outer, inner = (halide.Var(name) for name in ("x", "outer", "inner"))


def build(target, strict):
    """The assembly, or the object file, of a pipeline that multiplies and adds."""
    source, pipeline = halide.ImageParam(halide.Float(32), 1, "source"), halide.Func("pipeline")
    product = source[x] * halide.f32(1.7) + source[x + 1]
    pipeline[x] = halide.strict_float(product) if strict else product
    kind = halide.OutputFileType.assembly
    if target.endswith(("cuda", "vulkan")):
        pipeline.gpu_tile(x, outer, inner, 64)
        kind = halide.OutputFileType.object
    else:
        pipeline.vectorize(x, 8)
    pipeline.compile_to({kind: "output"}, [source], "pipeline", halide.Target(target))
    return open("output", "rb").read()


def spirv(content):
    """The instructions of a module, as operation and operands."""
    place = content.index(b"\x03\x02\x23\x07") + 20
    while struct.unpack_from("<I", content, place)[0] >> 16:
        word = struct.unpack_from("<I", content, place)[0]
        operands = struct.unpack_from(f"<{(word >> 16) - 1}I", content, place + 4)
        yield word & 0xFFFF, operands
        place += 4 * (word >> 16)
        if word & 0xFFFF == 56:
            return


def found(target, content):
    if target.endswith("vulkan"):
        names = {133: "FMul", 129: "FAdd"}
        words = [names.get(operation) or (operation, operands[1:2]) == (71, (42,)) and "NoContraction" for operation, operands in spirv(content)]
    elif target.endswith("cuda"):
        words = [word.decode() for word in re.findall(rb"\b(?:fma|mul|add)\.[a-z.]*f32\b", content)]
    else:
        words = [word.decode() for word in re.findall(rb"\bv?(?:fmadd\d*|mul|add)ps\b", content.partition(b"\npipeline:")[2].partition(b".size\tpipeline,")[0])]
    return ", ".join(f"{count} {word}" for word, count in sorted(collections.Counter(filter(None, words)).items()))


for target in sys.argv[1:]:
    for strict in False, True:
        print(f"{target}, {'strict' if strict else 'plain'}: {found(target, build(target, strict))}")
END
(cd "$work" && venv/bin/python build.py x86-64-linux-sse41 x86-64-linux-avx2-fma x86-64-linux-cuda x86-64-linux-vulkan 2>/dev/null >out)
compare "$work/out"
