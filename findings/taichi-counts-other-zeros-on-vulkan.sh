#!/usr/bin/env bash
# taichi 1.7.4 (PyPI), on the CPU and on Vulkan by lavapipe of Mesa 22.3.6 (Debian 12), which needs no GPU. GPUs of AMD are reached by
# Vulkan, since the wheel has no back end for them.
# Expected: one kernel gives the same integers on both, and the same for the functions of floats that are exact (floor, round).
# Seen: clz(-7), the zeros in front of the first one, is 0 on the CPU, and 29 on Vulkan, which looks for the highest zero of negative
# numbers. So codes and hashes with the highest bit set are sorted into other trees. Of numbers without a sign or with 64 bits, where 0 is
# the right answer as well, the kernel does not compile there. round(2.5) is 3 on the CPU, and what the driver likes on Vulkan, which
# leaves halves open: 2 here.
. "$(dirname "$0")/common.sh"
recorded <<'END'
CPU: clz of i32 0 28, clz of u32 0 28, clz of i64 0 60, clz of u64 0 60, round 1 2 3
Vulkan: clz of i32 29 28, clz of u32 does not compile, clz of i64 does not compile, clz of u64 does not compile, round 0 2 2
END
lavapipe
cat >"$work/kernels.py" <<'END'
import sys

import taichi as ti

device = sys.argv[1]
ti.init(arch={"CPU": ti.cpu, "Vulkan": ti.vulkan}[device])
integers, floats = ti.field(ti.i32, (2,)), ti.field(ti.f32, (3,))
integers[0], integers[1] = -7, 8
floats[0], floats[1], floats[2] = 0.5, 1.5, 2.5


@ti.kernel
def zeros(kind: ti.template()):
    for i in integers:
        integers[i] = ti.cast(ti.math.clz(ti.cast(integers[i], kind)), ti.i32)


@ti.kernel
def rounded():
    for i in floats:
        floats[i] = ti.round(floats[i])


found = []
for name in ("i32", "u32", "i64", "u64"):
    integers[0], integers[1] = -7, 8
    try:
        zeros(getattr(ti, name))
        found.append(f"clz of {name} {integers[0]} {integers[1]}")
    except RuntimeError:
        found.append(f"clz of {name} does not compile")
rounded()
print(f"found {device}:", f"{', '.join(found)}, round", *(f"{floats[i]:g}" for i in range(3)))
END
venv "$work/venv" taichi==1.7.4
for device in CPU Vulkan; do
    "$work/venv/bin/python" -W ignore "$work/kernels.py" $device >>"$work/printed"
done
sed -n 's/^found //p' "$work/printed" >"$work/out"
compare "$work/out"
