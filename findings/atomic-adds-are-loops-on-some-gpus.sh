#!/usr/bin/env bash
# clang 22.1.8 (Debian 12): kernels that add to a float and to a double in the memory of the GPU, as sums over many threads do.
# Expected: without -munsafe-fp-atomics an addition is a loop that compares and swaps on each GPU, since the instruction is wrong for some memory, and
# with it an instruction on each GPU that has one.
# Seen: by default it is the instruction for floats on gfx942, gfx11 and gfx12, and for doubles on gfx90a and gfx942. The option counts on gfx908 and
# gfx90a alone, for floats: without it a sum of floats is a loop on gfx90a, whose doubles need one instruction. gfx9-generic has loops for
# all, and gfx9-4-generic instructions.
. "$(dirname "$0")/common.sh"
recorded <<'END'
gfx906: floats by a loop, doubles by a loop; with -munsafe-fp-atomics the same
gfx908: floats by a loop, doubles by a loop; with -munsafe-fp-atomics floats by an instruction, doubles by a loop
gfx9-generic: floats by a loop, doubles by a loop; with -munsafe-fp-atomics the same
gfx90a: floats by a loop, doubles by an instruction; with -munsafe-fp-atomics floats by an instruction, doubles by an instruction
gfx942: floats by an instruction, doubles by an instruction; with -munsafe-fp-atomics the same
gfx9-4-generic: floats by an instruction, doubles by an instruction; with -munsafe-fp-atomics the same
gfx1030: floats by a loop, doubles by a loop; with -munsafe-fp-atomics the same
gfx1100: floats by an instruction, doubles by a loop; with -munsafe-fp-atomics the same
gfx1201: floats by an instruction, doubles by a loop; with -munsafe-fp-atomics the same
END
hip_compiler
cat >"$work/kernel.hip" <<'END'
template <typename T> __attribute__((global)) void add(T *p, T v) { __hip_atomic_fetch_add(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
template __attribute__((global)) void add(float *, float);
template __attribute__((global)) void add(double *, double);
END
options=(-nogpulib -nogpuinc -fuse-cuid=none -O2)
additions() { # GPU OPTION…: how floats and doubles are added
    kernel_code code --offload-arch="$1" "${@:2}"
    "$llvm/llvm-objdump" -d "$work/code" | awk '/>:$/ { kind = /IfE/ ? "floats" : "doubles" }
        /atomic/ { how = $1 ~ /cmp/ ? "a loop" : "an instruction"; seen[kind] = how }
        END { print "floats by " seen["floats"] ", doubles by " seen["doubles"] }'
}
for gpu in gfx906 gfx908 gfx9-generic gfx90a gfx942 gfx9-4-generic gfx1030 gfx1100 gfx1201; do
    default=$(additions $gpu)
    unsafe=$(additions $gpu -munsafe-fp-atomics)
    [ "$unsafe" != "$default" ] || unsafe='the same'
    echo "$gpu: $default; with -munsafe-fp-atomics $unsafe"
done >"$work/out"
compare "$work/out"
