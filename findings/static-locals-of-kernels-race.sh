#!/usr/bin/env bash
# clang 22.1.8 (Debian 12).
# Expected: a static local variable of a kernel, with an initial value of run time, is an error, as a __device__ variable with one is. Or it is
# initialized once, under a guard that threads respect, as on the host.
# Seen: clang compiles it without a warning. The guard is a byte that is read and written by plain instructions, without a fence. So of the threads of
# a launch, several initialize the variable, and others can read zero; and it keeps its value for all later launches, with other
# arguments, until the module is unloaded. The same function is correct on the host.
. "$(dirname "$0")/common.sh"
recorded <<'END'
host: 1 call that locks the guard, 0 warnings
gfx942: 0 atomic instructions, calls and fences, 0 warnings
__device__ variable: error: dynamic initialization is not supported for __device__, __constant__, __shared__, and __managed__ variables
END
hip_compiler
cat >"$work/local.hip" <<'END'
static inline __attribute__((host, device)) int first(const int *p) {
    static int value = *p;
    return value;
}
extern "C" __attribute__((global)) void kernel(int *p) { *p = first(p); }
void call(int *p);
void call(int *p) { *p = first(p); }
END
cat >"$work/variable.hip" <<'END'
extern __attribute__((device)) int source;
__attribute__((device)) int value = source;
END
compile() { # SOURCE OPTION…: assembly, warnings and errors
    hip_source --offload-arch=gfx942 -O3 -Weverything -Wno-c++98-compat -Wno-missing-prototypes \
        -Wno-unsafe-buffer-usage -S "${@:2}" "$work/$1.hip" -o "$work/$1.s" >"$work/message" 2>&1
}
warnings() { grep -c 'warning: ' "$work/message" || true; }
device=(--offload-device-only --no-gpu-bundle-output)
{
    compile local --offload-host-only
    echo "host: $(grep -c 'call.*__cxa_guard_acquire' "$work/local.s") call that locks the guard, $(warnings) warnings"
    compile local "${device[@]}"
    echo "gfx942: $(grep -c 'atomic\|__cxa_guard\|buffer_wbl2' "$work/local.s" || true) atomic instructions, calls and fences, $(warnings) warnings"
    compile variable "${device[@]}" || echo "__device__ variable: $(grep -om1 'error: .*' "$work/message")"
} >"$work/out"
compare "$work/out"
