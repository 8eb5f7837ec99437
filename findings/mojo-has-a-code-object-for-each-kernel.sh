#!/usr/bin/env bash
# mojo-compiler 1.2.0, with max-core and max-mojo-libs 26.7.0 (PyPI).
# Expected: the kernels of a Mojo program, which is compiled as a whole, lie in one code object for the GPU, as those of a HIP source do. Kernels
# whose code is equal lie there once.
# Seen: each kernel is an ELF file of its own, of 4 KB for two instructions that matter, bare and at a multiple of 16 in constant data. A generic kernel
# that is used for ten types is ten files. So a runtime loads as many modules as the program has kernels, most of each is tables and padding,
# and no table says that they are there, for which GPU, or that they belong together. There is code for one GPU: a second option is
# an error, and a target with a mode fails without a word about the target.
. "$(dirname "$0")/common.sh"
recorded <<'END'
1 kernels with same code, --target-accelerator gfx942: 1 code objects with 1 kernels, 4 kB, at multiples of 16
10 kernels with other code, --target-accelerator gfx942: 10 code objects with 10 kernels, 41 kB, at multiples of 16
10 kernels with same code, --target-accelerator gfx942: 10 code objects with 10 kernels, 41 kB, at multiples of 16
1 kernels, --target-accelerator gfx942 --target-accelerator gfx1100: error: too many specified target accelerators, expected exactly one
1 kernels, --target-accelerator gfx90a:xnack+: error: function instantiation failed
END
venv "$work/venv"
"$work/venv/bin/pip" install --quiet --no-deps mojo-compiler==1.2.0 mojo-compiler-mojo-libs==1.2.0 max-core==26.7.0 max-mojo-libs==26.7.0 >&2 ||
    unavailable "pip cannot install Mojo"
cat >"$work/program.py" <<'END'
import sys

print("from max.gpu.host import DeviceContext")
kernels, factor = int(sys.argv[1]), sys.argv[2]
for kernel in range(kernels):
    value = kernel + 2 if factor == "other" else 2
    print(f"def kernel_{kernel}(place: UnsafePointer[Float32, MutAnyOrigin]):\n    place[0] = place[1] * {value}\n")
print("def main() raises:\n    var context = DeviceContext()\n    var buffer = context.enqueue_create_buffer[DType.float32](16)")
for kernel in range(kernels):
    for size in 1, 2:
        print(f"    context.enqueue_function[kernel_{kernel}](buffer, grid_dim={size}, block_dim=1)")
END
cat >"$work/look.py" <<'END'
import re
import struct
import sys

content, sizes, kernels, places = open(sys.argv[1], "rb").read(), [], 0, []
for match in re.finditer(b"\x7fELF\2\1\1\x40", content):
    code = content[match.start() :]
    sizes.append(struct.unpack_from("<Q", code, 40)[0] + 64 * struct.unpack_from("<H", code, 60)[0])
    kernels += len(set(re.findall(rb"\0(\w+)\.kd(?=\0)", code[: sizes[-1]])))
    places.append(match.start())
aligned = max(power for power in (1, 2, 4, 8, 16, 4096) if all(place % power == 0 for place in places))
print(f"{len(sizes)} code objects with {kernels} kernels, {sum(sizes) / 1000:.0f} kB, at multiples of {aligned}")
END
show() { # KERNELS other|same OPTION…
    python3 "$work/program.py" "$1" "$2" >"$work/program.mojo"
    if HOME=$work timeout 500 "$work/venv/bin/mojo" build --emit object "${@:3}" "$work/program.mojo" -o "$work/program.o" >"$work/message" 2>&1; then
        echo "$1 kernels with $2 code, ${*:3}: $(python3 "$work/look.py" "$work/program.o")"
    else
        echo "$1 kernels, ${*:3}: $(grep -o 'error: .*' "$work/message" | head -1)"
    fi
}
{
    show 1 same --target-accelerator gfx942
    show 10 other --target-accelerator gfx942
    show 10 same --target-accelerator gfx942
    show 1 same --target-accelerator gfx942 --target-accelerator gfx1100
    show 1 same --target-accelerator gfx90a:xnack+
} >"$work/out"
compare "$work/out"
