#!/usr/bin/env bash
# clang 22.1.8 (Debian 12).
# Expected: the macros that a source sees are equal in its compilations for the host and for a GPU, but for those that name the GPU. Macros of the
# host's processor are, so that both sides agree on what they exchange.
# Seen: the device is compiled without -fopenmp, so _OPENMP is defined for the host alone. A struct with a member that depends on it is larger on
# the host than in the kernel, which reads other members than those that were passed. A template whose argument depends on it is registered
# by a name that no code object has, and its launch fails. clang says nothing of either, also with -Weverything. -Xarch_device -D_OPENMP
# makes both sides agree.
. "$(dirname "$0")/common.sh"
recorded <<'END'
no option: argument of 16 bytes on the host, of 16 in the kernel; registered: _ZL6kernelILi1EEv8argument, in the code object: _ZL6kernelILi1EEv8argument; 0 warnings
-fopenmp: argument of 24 bytes on the host, of 16 in the kernel; registered: _ZL6kernelILi2EEv8argument, in the code object: _ZL6kernelILi1EEv8argument; 0 warnings
-fopenmp -Xarch_device -D_OPENMP: argument of 24 bytes on the host, of 24 in the kernel; registered: _ZL6kernelILi2EEv8argument, in the code object: _ZL6kernelILi2EEv8argument; 0 warnings
END
hip_compiler
cat >"$work/kernel.hip" <<'END'
struct argument {
    int *place;
#ifdef _OPENMP
    long lock;
#endif
    long number;
};
#ifdef _OPENMP
enum { THREADS = 2 };
#else
enum { THREADS = 1 };
#endif
static_assert(__SSE2__ && __x86_64__, "macros of the host");
extern const unsigned long size_on_the_host;
const unsigned long size_on_the_host = sizeof(argument);
template <int N> static __attribute__((global)) void kernel(argument value) { *value.place = static_cast<int>(value.number); }
void launch(argument value);
void launch(argument value) {
    void *values[] = {&value};
    hipLaunchKernel(reinterpret_cast<const void *>(&kernel<THREADS>), dim3(), dim3(), values, 0, nullptr);
}
END
show() { # OPTION…: what both sides know of the kernel
    hip_source --offload-arch=gfx942 -O2 -Weverything -Wno-c++98-compat-pedantic "$@" \
        -c "$work/kernel.hip" -o "$work/kernel.o" 2>"$work/message"
    first_code "$work/kernel.o"
    "$llvm/llvm-readelf" --notes "$work/code" >"$work/notes"
    "$llvm/llvm-objcopy" --dump-section .rodata="$work/constants" --dump-section .rodata.str1.1="$work/names" "$work/kernel.o"
    echo "${*:-no option}: argument of $(od -An -tu8 -N8 "$work/constants" | tr -d ' ') bytes on the host, of $(
        sed -n '0,/\.size: */s/.*\.size: *//p' "$work/notes"
    ) in the kernel; registered: $(
        grep -ao '_ZL6kernelI[A-Za-z0-9_]*' "$work/names" | sort -u
    ), in the code object: $(sed -n 's/.*\.name: *\(_ZL\)/\1/p' "$work/notes"); $(sed -n '/warning/p' "$work/message" | wc -l) warnings"
}
{
    show
    show -fopenmp
    show -fopenmp -Xarch_device -D_OPENMP
} >"$work/out"
compare "$work/out"
