#!/usr/bin/env bash
# cuda-tile 1.7.0, tileiras 13.4.92 and nvdisasm 13.5.37 (PyPI), without a GPU.
# Expected: a product of tiles of floats (mma) becomes fused multiply-adds, as x * y + z of tiles does, and that of doubles instructions of the tensor
# cores, which compute doubles on sm_90.
# Seen: each product is multiplied and added by two instructions, of floats and of doubles, and no tensor core computes doubles. So a product of
# matrices costs twice the instructions, and rounds twice. ct.matmul does the same. Smaller types use the tensor cores.
. "$(dirname "$0")/common.sh"
recorded <<'END'
mma of float32 on sm_90: 264 FADD, 256 FMUL
matmul of float32 on sm_90: 264 FADD, 256 FMUL
x * y + z of float32 on sm_90: 8 FFMA
mma of float64 on sm_90: 264 DADD, 256 DMUL
x * y + z of float64 on sm_90: 8 DFMA
mma of float16 to float32 on sm_90: 4 HMMA
mma of float32 on sm_120: 264 FADD, 256 FMUL
matmul of float32 on sm_120: 264 FADD, 256 FMUL
x * y + z of float32 on sm_120: 8 FFMA
mma of float64 on sm_120: 264 DADD, 256 DMUL
x * y + z of float64 on sm_120: 8 DFMA
mma of float16 to float32 on sm_120: 4 HMMA
END
tile_compiler
cat >"$work/kernels.py" <<'END'
import collections
import re
import subprocess
import sys

import cuda.tile as ct
from cuda.tile.compilation import ArrayConstraint, CallingConvention, KernelSignature, export_kernel


@ct.kernel
def mma(a, b, c):
    left, right = ct.load(a, index=(0, 0), shape=(32, 32)), ct.load(b, index=(0, 0), shape=(32, 32))
    ct.store(c, index=(0, 0), tile=ct.mma(left, right, ct.load(c, index=(0, 0), shape=(32, 32))))


@ct.kernel
def matmul(a, b, c):
    left, right = ct.load(a, index=(0, 0), shape=(32, 32)), ct.load(b, index=(0, 0), shape=(32, 32))
    ct.store(c, index=(0, 0), tile=ct.matmul(left, right))


@ct.kernel
def fused(a, b, c):
    left, right = ct.load(a, index=(0, 0), shape=(32, 32)), ct.load(b, index=(0, 0), shape=(32, 32))
    ct.store(c, index=(0, 0), tile=left * right + ct.load(c, index=(0, 0), shape=(32, 32)))


def array(kind):
    return ArrayConstraint(kind, 2, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=(), may_alias_internally=False,
                           stride_constant=(None, 1), stride_divisible_by=(16, 1), base_addr_divisible_by=16)


def show(name, kernel, kind, result, gpu):
    signature = KernelSignature([array(kind), array(kind), array(result)], CallingConvention.cutile_python_v1())
    export_kernel(kernel, [signature], "kernel.cubin", gpu_code=gpu, output_format="cubin")
    text = subprocess.run([sys.argv[1], "-c", "kernel.cubin"], capture_output=True, check=True, text=True).stdout
    instructions = re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ +)?([A-Z]\w+)", text, re.MULTILINE)
    counts = collections.Counter(word for word in instructions if re.fullmatch(r"[FD](FMA2?|MUL2?|ADD2?)|\w*MMA", word))
    print(f"{name} on {gpu}: {', '.join(f'{count} {word}' for word, count in sorted(counts.items()))}")


for gpu in "sm_90", "sm_120":
    show("mma of float32", mma, ct.float32, ct.float32, gpu)
    show("matmul of float32", matmul, ct.float32, ct.float32, gpu)
    show("x * y + z of float32", fused, ct.float32, ct.float32, gpu)
    show("mma of float64", mma, ct.float64, ct.float64, gpu)
    show("x * y + z of float64", fused, ct.float64, ct.float64, gpu)
    show("mma of float16 to float32", mma, ct.float16, ct.float32, gpu)
END
(cd "$work" && "$tile" kernels.py "$cuda/nvdisasm" >out)
compare "$work/out"
