#!/usr/bin/env bash
# clang 22.1.8 (Debian 12), for x86-64 with FMA (-march=x86-64-v3), as the packages of some distributions are built.
# Expected: a function for the CPU has the same instructions in a C++ source and in a HIP one: HIP's rule, which fuses a multiplication and
# an addition wherever it finds them, is for kernels.
# Seen: it is for the language, so for the host as well. `p = x * y; return p + z;` rounds twice in a C++ source and once in a HIP source.
# So a function of a reference for tests gives other floats by the ending of its file, and an inline function of a header has two results
# in one library, of which the linker takes one. -ffp-contract=on gives HIP the rule of C++, for kernels as well. Without optimization it
# is the other way round: a product and a sum in one expression are fused in C++, and not in HIP. In CUDA sources, the same clang has the
# host follow C++.
. "$(dirname "$0")/common.sh"
recorded <<'END'
-O2, C++: two statements vmulss vaddss, one vfmadd213ss
-O2, HIP: two statements vfmadd213ss, one vfmadd213ss
-O2, CUDA: two statements vmulss vaddss, one vfmadd213ss
-O2 -ffp-contract=on, C++: two statements vmulss vaddss, one vfmadd213ss
-O2 -ffp-contract=on, HIP: two statements vmulss vaddss, one vfmadd213ss
-O2 -ffp-contract=on, CUDA: two statements vmulss vaddss, one vfmadd213ss
-O0, C++: two statements vmulss vaddss, one vfmadd213ss
-O0, HIP: two statements vmulss vaddss, one vmulss vaddss
-O0, CUDA: two statements vmulss vaddss, one vfmadd213ss
END
hip_compiler
cat >"$work/host.h" <<'END'
extern "C" float two(float x, float y, float z) {
    float product = x * y;
    return product + z;
}
extern "C" float one(float x, float y, float z) { return x * y + z; }
END
multiplies() { # FUNCTION: its instructions that multiply and add
    sed -n "/^$1:/,/^\.Lfunc_end/p" "$work/host.s" | grep -oE '\sv(mul|add|fm)[a-z0-9]+' | paste -sd' ' | tr -s '\t ' ' ' | sed 's/^ //'
}
{
    for options in -O2 "-O2 -ffp-contract=on" -O0; do
        for language in C++ HIP CUDA; do
            # shellcheck disable=SC2086 # the options are words
            hip -x "${language,,}" -nogpuinc --offload-host-only -march=x86-64-v3 $options -S "$work/host.h" -o "$work/host.s"
            echo "$options, $language: two statements $(multiplies two), one $(multiplies one)"
        done
    done
} >"$work/out"
compare "$work/out"
