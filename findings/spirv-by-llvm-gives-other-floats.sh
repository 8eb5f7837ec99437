#!/usr/bin/env bash
# clang 22.1.8 (Debian 12), and COMGR 3.3 of ROCm 7.14 in vapoursynth-bm3dhip 2.17.5 (PyPI), which compiles SPIR-V for a GPU at run time.
# Expected: a kernel that gets to the GPU as SPIR-V (amdgcnspirv) computes what its native code computes: in HIP, x * y + z is fused by default.
# Seen: by way of LLVM's back end for SPIR-V it is multiplied and added, with two roundings, by the same options. So of one release, a GPU with native code
# and one that takes SPIR-V give other floats. SPIR-V by AMD's translator, which COMGR has, is fused. With -ffp-contract=on and off, where clang
# and not a later compiler decides, all agree.
. "$(dirname "$0")/common.sh"
recorded <<'END'
default, native: v_fma_f32 v_fmac_f64
    SPIR-V by llvm: v_add_f32 v_add_f64 v_mul_f32 v_mul_f64
    SPIR-V by amd: v_fma_f32 v_fmac_f64
-ffp-contract=on, native: v_fma_f32 v_fmac_f64
    SPIR-V by llvm: v_fma_f32 v_fmac_f64
    SPIR-V by amd: v_fma_f32 v_fmac_f64
-ffp-contract=off, native: v_add_f32 v_add_f64 v_mul_f32 v_mul_f64
    SPIR-V by llvm: v_add_f32 v_add_f64 v_mul_f32 v_mul_f64
    SPIR-V by amd: v_add_f32 v_add_f64 v_mul_f32 v_mul_f64
END
hip_compiler
amd_runtime
export AMD_COMGR_CACHE=0
grep -v KERNEL "$PYTHONPATH/kernel.hip" >"$work/kernel.hip"
cat >>"$work/kernel.hip" <<'END'
extern "C" __attribute__((global)) void kernel(float *place, double *other, float x, float y, float z) {
    *place = x * y + z;
    *other = *other * y + z;
}
END
options=(-nogpuinc -nogpulib -fno-exceptions -O3)
instructions() { # of floats and doubles in the file code
    "$llvm/llvm-objdump" -d --no-show-raw-insn "$work/code" | grep -Eo '\bv_(fma|fmac|mul|add)_f(32|64)' | sort | paste -sd' '
}
show() { # NAME OPTION…
    kernel_code code --offload-arch=gfx942 "${@:2}"
    echo "$1, native: $(instructions)"
    for compiler in llvm amd; do
        through_spirv $compiler "${@:2}"
        echo "    SPIR-V by $compiler: $(instructions)"
    done
}
{
    show "default"
    show "-ffp-contract=on" -ffp-contract=on
    show "-ffp-contract=off" -ffp-contract=off
} >"$work/out"
compare "$work/out"
