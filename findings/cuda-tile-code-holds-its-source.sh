#!/usr/bin/env bash
# cuda-tile 1.7.0 and tileiras 13.4.92 (PyPI), without a GPU, and llvm-objcopy 22.1.8 (Debian 12).
# Expected: export_kernel with the format "cubin" makes what a release ships: instructions, and at most the lines of the source, as nvcc -lineinfo. PTX and
# the intermediate representation are forms of their own, which are shipped by choice ("tileir_bytecode").
# Seen: the cubin holds the PTX of the kernel as text, which is half of it, its Tile IR as text, and the directory of the source. Instructions are
# a quarter. No option of cuda-tile leaves this out. llvm-objcopy --strip-debug keeps it, and makes the file for sm_100 larger, where two sections
# are at one place. tileiras makes a cubin without it of exported bytecode, where it is not asked for lines.
. "$(dirname "$0")/common.sh"
recorded <<'END'
sm_90: 100% of its size, instructions 26%, PTX 59%, Tile IR, directory
sm_90, stripped: 99% of its size, instructions 26%, PTX 60%, Tile IR, directory
sm_90, by tileiras without --lineinfo: 31% of its size, instructions 85%, no source
sm_100: 100% of its size, instructions 24%, PTX 47%, Tile IR, directory
sm_100, stripped: 147% of its size, instructions 16%, PTX 32%, Tile IR, directory
sm_100, by tileiras without --lineinfo: 35% of its size, instructions 69%, no source
END
debs llvm-22=1:22.1.8-1~deb12u1 libllvm22=1:22.1.8-1~deb12u1
objcopy=$work/root/usr/lib/llvm-22/bin/llvm-objcopy
tile_compiler
mkdir -p "$work/project"
cat >"$work/project/kernel.py" <<'END'
import sys

import cuda.tile as ct
from cuda.tile.compilation import ArrayConstraint, CallingConvention, KernelSignature, export_kernel


@ct.kernel
def product(a, b, c):
    left, right = ct.load(a, index=(0, 0), shape=(64, 32)), ct.load(b, index=(0, 0), shape=(32, 64))
    ct.store(c, index=(0, 0), tile=ct.matmul(left, right))


array = ArrayConstraint(ct.float32, 2, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=(), may_alias_internally=False,
                        stride_constant=(None, 1))
signature = KernelSignature([array, array, array], CallingConvention.cutile_python_v1(), symbol="product")
export_kernel(product, [signature], sys.argv[1], gpu_code=sys.argv[2], output_format=sys.argv[3])
END
cat >"$work/look.py" <<'END'
import re
import struct
import sys

content, directory = open(sys.argv[1], "rb").read(), sys.argv[2].encode()
place, (size, count, names) = struct.unpack_from("<Q", content, 40)[0], struct.unpack_from("<HHH", content, 58)
headers = [struct.unpack_from("<IIQQQQ", content, place + size * index) for index in range(count)]
sections = {content[headers[names][4] + header[0] :].split(b"\0")[0].decode(): content[header[4] :][: header[5]] for header in headers}
code = sum(len(data) for name, data in sections.items() if name.startswith(".text."))
ptx = sections.get(".nv_debug_ptx_txt", b"")
tile = b"".join(data for name, data in sections.items() if name.startswith(".nv.tileir.debug_txt"))
found = {f"PTX {len(ptx) / len(content):.0%}": b"add.rn.f32" in ptx or b"add.f32" in ptx, "Tile IR": b" mmaf " in tile, "directory": directory in content}
print(f"{len(content) / int(sys.argv[3]):.0%} of its size, instructions {code / len(content):.0%},", ", ".join(name for name in found if found[name]) or "no source")
END
show() { # NAME FILE
    echo "$1: $(python3 "$work/look.py" "$2" "$work/project" "$(stat -c %s "$work/$gpu.cubin")")"
}
export CUDA_TILE_CACHE_DIR=$work/tilecache
{
    for gpu in sm_90 sm_100; do
        (cd "$work/project" && "$tile" kernel.py "$work/$gpu.cubin" $gpu cubin && "$tile" kernel.py "$work/$gpu.bytecode" $gpu tileir_bytecode)
        show "$gpu" "$work/$gpu.cubin"
        "$objcopy" --strip-debug "$work/$gpu.cubin" "$work/stripped.cubin"
        show "$gpu, stripped" "$work/stripped.cubin"
        PATH=$cuda:$PATH "$cuda/tileiras" --gpu-name $gpu "$work/$gpu.bytecode" -o "$work/plain.cubin"
        show "$gpu, by tileiras without --lineinfo" "$work/plain.cubin"
    done
} >"$work/out"
compare "$work/out"
