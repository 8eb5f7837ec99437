#!/usr/bin/env bash
# NVRTC and nvJitLink 13.5.37 and nvdisasm 13.5.37 (PyPI), for sm_90, without a GPU. Each kernel does one operation.
# Expected: a program that is compiled for optimization at the link (-dlto) computes as its options say, whether they are given to the
# compilation or to the link; at least all of one group of options are of one of the two, and one that has no effect is refused.
# Seen: -fmad and -prec-div have an effect at the link alone, -prec-sqrt at the compilation alone, without a word at the other. -ftz is half
# of each: roots and fmaxf flush denormals if the compilation says so, products and divisions if the link does, and expf computes as asked
# only if both do. So a program that was compiled by -fmad=false is fused. Of -use_fast_math, given to the compilation, roots, divisions and
# fmaxf keep their effect, and products are as without it.
# What a program computes so depends on whether it is optimized at the link.
. "$(dirname "$0")/common.sh"
recorded <<'END'
-fmad=false, a * b + c: as without it by the compilation, as asked by the link, as asked by the two
-prec-div=false, a / b: as without it by the compilation, as asked by the link, as asked by the two
-prec-sqrt=false, sqrtf(a): as asked by the compilation, as without it by the link, as asked by the two
-ftz=true, a * b + c: as without it by the compilation, as asked by the link, as asked by the two
-ftz=true, a / b: as without it by the compilation, as asked by the link, as asked by the two
-ftz=true, sqrtf(a): as asked by the compilation, as without it by the link, as asked by the two
-ftz=true, a * b: as without it by the compilation, as asked by the link, as asked by the two
-ftz=true, fmaxf(a, b): as asked by the compilation, as without it by the link, as asked by the two
-ftz=true, expf(a): neither by the compilation, neither by the link, as asked by the two
-use_fast_math, a * b + c: as without it by the compilation
-use_fast_math, a / b: as asked by the compilation
-use_fast_math, sqrtf(a): as asked by the compilation
-use_fast_math, a * b: as without it by the compilation
-use_fast_math, fmaxf(a, b): as asked by the compilation
-use_fast_math, expf(a): neither by the compilation
END
venv "$work/venv" nvidia-cuda-nvrtc==13.5.37 nvidia-nvjitlink==13.5.37 nvidia-cuda-nvdisasm==13.5.37
cat >"$work/link.py" <<'END'
import ctypes
import functools
import glob
import re
import subprocess
import sys

root = glob.glob(f"{sys.argv[1]}/lib/python3*/site-packages/nvidia/cu13")[0]
nvrtc, linker = (ctypes.CDLL(f"{root}/lib/lib{name}.so.13") for name in ("nvrtc", "nvJitLink"))
KERNELS = {"a * b + c": "x[0] * y[0] + y[1]", "a / b": "x[0] / y[0]", "sqrtf(a)": "sqrtf(x[0])", "a * b": "x[0] * y[0]",
           "fmaxf(a, b)": "fmaxf(x[0], y[0])", "expf(a)": "expf(x[0])"}
LTO_IR = 3  # NVJITLINK_INPUT_LTOIR


def strings(options):
    return len(options), (ctypes.c_char_p * len(options))(*(option.encode() for option in options))


def checked(result):
    if result:
        sys.exit(f"error {result}")


@functools.cache
def compiled(expression, kind, *options):
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    source = f'extern "C" __global__ void kernel(float *x, const float *y) {{ x[0] = {expression}; }}'
    checked(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None))
    checked(nvrtc.nvrtcCompileProgram(program, *strings(["-arch=sm_90", *options])))
    checked(getattr(nvrtc, f"nvrtcGet{kind}Size")(program, ctypes.byref(size)))
    content = ctypes.create_string_buffer(size.value)
    checked(getattr(nvrtc, f"nvrtcGet{kind}")(program, content))
    return content.raw


@functools.cache
def linked(module, *options):
    handle, size = ctypes.c_void_p(), ctypes.c_size_t()
    checked(linker.nvJitLinkCreate(ctypes.byref(handle), *strings(["-arch=sm_90", "-lto", *options])))
    checked(linker.nvJitLinkAddData(handle, LTO_IR, module, ctypes.c_size_t(len(module)), b"kernel"))
    checked(linker.nvJitLinkComplete(handle))
    checked(linker.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(size)))
    content = ctypes.create_string_buffer(size.value)
    checked(linker.nvJitLinkGetLinkedCubin(handle, content))
    return content.raw


@functools.cache
def instructions(cubin):
    open("cubin", "wb").write(cubin)
    text = subprocess.run([f"{root}/bin/nvdisasm", "cubin"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^\s+/\*[0-9a-f]{4}\*/\s+(.*?);", text, re.MULTILINE)


OPTIONS = {("-fmad=false", "-fma=0"): ["a * b + c"], ("-prec-div=false", "-prec-div=0"): ["a / b"], ("-prec-sqrt=false", "-prec-sqrt=0"): ["sqrtf(a)"],
           ("-ftz=true", "-ftz=1"): KERNELS, ("-use_fast_math", None): KERNELS}
for (compilation, link), names in OPTIONS.items():
    for name in names:
        expression = KERNELS[name]
        with_it, without = (instructions(compiled(expression, "CUBIN", *options)) for options in ((compilation,), ()))
        ways = {"compilation": instructions(linked(compiled(expression, "LTOIR", "-dlto", compilation)))}
        if link:
            ways["link"] = instructions(linked(compiled(expression, "LTOIR", "-dlto"), link))
            ways["two"] = instructions(linked(compiled(expression, "LTOIR", "-dlto", compilation), link))
        found = [f"{'as asked' if code == with_it else 'as without it' if code == without else 'neither'} by the {way}" for way, code in ways.items()]
        print(f"{compilation}, {name}: {', '.join(found)}")
END
(cd "$work" && venv/bin/python link.py venv >out)
compare "$work/out"
