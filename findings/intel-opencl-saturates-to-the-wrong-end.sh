#!/usr/bin/env bash
# intel-opencl-rt 2026.2.0, Intel's OpenCL for CPUs, with intel-cmplr-lib-rt 2026.2.0, pyopencl 2026.1.4 and numpy 2.4.6 (PyPI).
# Expected: mad_sat(a, b, c) is a * b + c, or the end of the type that is nearest, as the specification of OpenCL C says, for scalars and vectors, and for
# any size of a group. A saturated NaN is 0.
# Seen: of int4, and of int in a group of 64, which is vectorized, mad_sat(100, 100, -20000) is the largest int, as is each negative sum of a product
# that is not negative. In groups of one it is right, and with -cl-opt-disable. So a test with few items passes. Of long, a product that is too large is cut
# to 64 bits in each case: the result is anything. NaN as uint is 2147483648 by AVX2, which is asked for here, and 4294967295 by AVX-512; as int, uchar,
# short and ulong it is 0. (The package does not require intel-cmplr-lib-rt, without which no platform is found.)
. "$(dirname "$0")/common.sh"
recorded <<'END'
mad_sat(100, 100, -20000): int in groups of 1: -10000, int in groups of 64: 2147483647, int4: 2147483647, not optimized: -10000, specified -10000
mad_sat(5, 0, -7): int in groups of 1: -7, int in groups of 64: 2147483647, int4: 2147483647, not optimized: -7, specified -7
mad_sat(-5, 1, -7): int in groups of 1: -12, int in groups of 64: -12, int4: -12, not optimized: -12, specified -12
mad_sat(65536, 65536, 0): int in groups of 1: 2147483647, int in groups of 64: 2147483647, int4: 2147483647, not optimized: 2147483647, specified 2147483647
mad_sat(9223372036854775807, 1, 1): long: -9223372036854775808, specified 9223372036854775807
mad_sat(10000000000, 1000000000, 1): long: -8446744073709551615, specified 9223372036854775807
mad_sat(4294967296, 4294967296, 0): long: 9223372036854775807, specified 9223372036854775807
convert_…_sat(NaN): uint: 2147483648, int: 0, uchar: 0, short: 0, ulong: 0, specified 0
END
venv "$work/venv" intel-opencl-rt==2026.2.0 intel-cmplr-lib-rt==2026.2.0 intel-cmplr-lic-rt==2026.2.0 pyopencl==2026.1.4 numpy==2.4.6
mkdir "$work/vendors"
echo "$work/venv/lib/libintelocl.so" >"$work/vendors/intel.icd"
cat >"$work/functions.py" <<'END'
import math
import warnings

import numpy
import pyopencl

warnings.filterwarnings("ignore")
context = pyopencl.Context([pyopencl.get_platforms()[0].get_devices()[0]])
queue = pyopencl.CommandQueue(context)
TYPES = {kind: numpy.dtype(code) for kind, code in zip("float uchar short int uint long ulong".split(), "f4 u1 i2 i4 u4 i8 u8".split())}


def run(expression, numbers, kind, result, group=1, options=()):
    """What 64 items of a kernel compute, each of the same numbers a, b and c."""
    names = "".join(f"{kind} {name} = from[{len(numbers)} * i + {place}]; " for place, name in enumerate("abc"[: len(numbers)]))
    source = f"kernel void compute(global {result} *to, global const {kind} *from) {{ size_t i = get_global_id(0); {names}to[i] = {expression}; }}"
    given, to = numpy.array(list(numbers) * 64, TYPES[kind]), numpy.zeros(64, TYPES[result])
    flags = pyopencl.mem_flags
    buffers = pyopencl.Buffer(context, flags.READ_WRITE, to.nbytes), pyopencl.Buffer(context, flags.COPY_HOST_PTR, hostbuf=given)
    pyopencl.Program(context, source).build(list(options)).compute(queue, (64,), (group,), *buffers)
    pyopencl.enqueue_copy(queue, to, buffers[0])
    return " or ".join(map(str, sorted(set(to.tolist()))))


def specified(numbers, bits):
    return max(-(2 ** (bits - 1)), min(2 ** (bits - 1) - 1, numbers[0] * numbers[1] + numbers[2]))


for numbers in (100, 100, -20000), (5, 0, -7), (-5, 1, -7), (65536, 65536, 0):
    seen = [f"int in groups of {group}: {run('mad_sat(a, b, c)', numbers, 'int', 'int', group)}" for group in (1, 64)]
    seen.append(f"int4: {run('mad_sat((int4)(a), (int4)(b), (int4)(c)).s0', numbers, 'int', 'int')}")
    seen.append(f"not optimized: {run('mad_sat(a, b, c)', numbers, 'int', 'int', 64, ['-cl-opt-disable'])}")
    print(f"mad_sat{numbers}: {', '.join(seen)}, specified {specified(numbers, 32)}")
for numbers in (2**63 - 1, 1, 1), (10**10, 10**9, 1), (2**32, 2**32, 0):
    print(f"mad_sat{numbers}: long: {run('mad_sat(a, b, c)', numbers, 'long', 'long')}, specified {specified(numbers, 64)}")
seen = [f"{kind}: {run(f'convert_{kind}_sat(a)', [math.nan], 'float', kind, 64)}" for kind in "uint int uchar short ulong".split()]
print(f"convert_…_sat(NaN): {', '.join(seen)}, specified 0")
END
export PYOPENCL_NO_CACHE=1 OCL_ICD_VENDORS=$work/vendors LD_LIBRARY_PATH=$work/venv/lib CL_CONFIG_CPU_TARGET_ARCH=core-avx2
"$work/venv/bin/python" "$work/functions.py" >"$work/out"
compare "$work/out"
