#!/usr/bin/env bash
# clang 22.1.8 (Debian 12).
# Expected: options for coverage and for profiles, which a build sets for the host, concern the host: a GPU has no file to write counters to.
# Seen: -fprofile-instr-generate and -fprofile-generate put counters into kernels, which get twice as long, and nothing registers or reads the
# counters. --coverage and -finstrument-functions do not link for the GPU. -fprofile-instr-use compiles kernels by how often the host ran a
# function that both have, so the bytes of a kernel depend on a run of the program without a GPU. -Xarch_host before an option keeps it
# from kernels. All this is without a warning. (Sanitizers are ignored with one.)
. "$(dirname "$0")/common.sh"
recorded <<'END'
no option: 228 bytes of instructions, 0 counters, the same as without; 0 warnings
-fprofile-instr-generate: 568 bytes of instructions, 3 counters; 0 warnings
-fprofile-generate: 440 bytes of instructions, 1 counters; 0 warnings
--coverage: undefined symbol: llvm_gcda_start_file
-finstrument-functions: undefined symbol: __cyg_profile_func_enter
-Xarch_host -fprofile-instr-generate: 228 bytes of instructions, 0 counters, the same as without; 0 warnings
the object refers to __hipPopCallConfiguration __hipRegisterFatBinary __hipRegisterFunction __hipUnregisterFatBinary atexit hipLaunchKernel
-fprofile-instr-use=profile: 240 bytes of instructions, 0 counters; 0 warnings
-Xarch_host -fprofile-instr-use=profile: 228 bytes of instructions, 0 counters, the same as without; 0 warnings
END
hip_compiler libclang-rt-22-dev=1:22.1.8-1~deb12u1
grep -v KERNEL "$PYTHONPATH/kernel.hip" >"$work/base.h"
cat >"$work/kernel.hip" <<'END'
#define BOTH static __attribute__((host)) __attribute__((device))
BOTH float often(float x, int n) {
    for (int i = 0; i < n; ++i) {
        float y = x * x + i;
        x = y > 4 ? y / (x + 3) : y * 0.5f + x;
    }
    return x;
}
BOTH float both(float x, int n) { return n < 4 ? x : often(x, n); }
extern "C" __attribute__((global)) void kernel(float *p, int n) { p[n] = both(p[n], n); }
extern "C" float on_the_host(float x, int n) { return both(x, n); }
END
cat >"$work/main.c" <<'END'
float on_the_host(float, int);
int main(void) {
    float sum = 0;
    for (int i = 0; i < 1000; ++i) sum += on_the_host(i, i % 3);
    return sum < 0;
}
END
# A stand-in for the runtime, so that the program runs.
for name in hipLaunchKernel __hip{Register,Unregister}FatBinary __hipPopCallConfiguration __hipRegisterFunction; do
    echo "long $name(void) { return 0; }"
done >"$work/runtime.c"
compile() { # OBJECT OPTION…
    TMPDIR=$work "$llvm/clang" -nogpulib -no-hip-rt -fPIC -Wno-unused-command-line-argument -x hip -nogpuinc -fno-exceptions \
        -include "$work/base.h" --offload-arch=gfx942 -O3 -fuse-cuid=none "${@:2}" -c "$work/kernel.hip" -o "$work/$1"
}
show() { # OPTION…: the code object that clang makes with these options
    rm -f "$work/code"
    local result
    if compile code --cuda-device-only --no-gpu-bundle-output "$@" 2>"$work/message"; then
        [ -s "$work/first" ] || cp "$work/code" "$work/first"
        "$llvm/llvm-readelf" --symbols --wide "$work/code" >"$work/symbols"
        result="$(awk '$4 == "FUNC" && $8 == "kernel" {size = $3} END {print size}' "$work/symbols") bytes of instructions"
        result+=", $(sed -n 's/.*__profc_//p' "$work/symbols" | sort -u | wc -l) counters"
        if cmp -s "$work/first" "$work/code"; then result+=", the same as without"; fi
        result+="; $(sed -n /warning/p "$work/message" | wc -l) warnings"
    else
        result=$(grep -om1 'undefined symbol: .*' "$work/message")
    fi
    echo "${*:-no option}: $result" | sed "s|$work/||"
}
{
    show
    for option in -fprofile-instr-generate -fprofile-generate --coverage -finstrument-functions; do show $option; done
    show -Xarch_host -fprofile-instr-generate
    compile kernel.o -fprofile-instr-generate
    echo "the object refers to $("$llvm/llvm-nm" -u "$work/kernel.o" | grep -o '[_a-zA-Z]*$' | paste -sd ' ')"
    "$llvm/clang" -w -fprofile-instr-generate -fuse-ld=lld "$work"/{main.c,runtime.c,kernel.o} -o "$work/program"
    LLVM_PROFILE_FILE=$work/raw "$work/program"
    "$llvm/llvm-profdata" merge "$work/raw" -o "$work/profile"
    show "-fprofile-instr-use=$work/profile"
    show -Xarch_host "-fprofile-instr-use=$work/profile"
} >"$work/out"
compare "$work/out"
