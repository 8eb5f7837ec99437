#!/usr/bin/env bash
# clang and lld 22.1.8 (Debian 12).
# Expected: kernels with 64 lanes (-mwavefrontsize64 on a GPU of RDNA) do not link with functions that were compiled for 32, as objects for
# two GPUs or of two versions of the form do not.
# Seen: with -fgpu-rdc, they link without a word by both drivers, and the function becomes part of the kernel as it is: it works with masks of
# 32 lanes, and __builtin_amdgcn_wavefrontsize is 32, in a kernel that runs with 64. The code object has the target of any other; only the
# metadata of each kernel state a wavefront size.
. "$(dirname "$0")/common.sh"
recorded <<'END'
--no-offload-new-driver, both for 32 lanes: exit code 0; gfx1100, kernel with 32 lanes, answers 32
--no-offload-new-driver, kernel for 64 lanes: exit code 0; gfx1100, kernel with 64 lanes, answers 32
--no-offload-new-driver, function for 64 lanes: exit code 0; gfx1100, kernel with 32 lanes, answers 64
--no-offload-new-driver, kernel of version 5: exit code 1; error: linking module flags 'amdhsa_code_object_version'
--offload-new-driver, both for 32 lanes: exit code 0; gfx1100, kernel with 32 lanes, answers 32
--offload-new-driver, kernel for 64 lanes: exit code 0; gfx1100, kernel with 64 lanes, answers 32
--offload-new-driver, function for 64 lanes: exit code 0; gfx1100, kernel with 32 lanes, answers 64
--offload-new-driver, kernel of version 5: exit code 1; error: linking module flags 'amdhsa_code_object_version'
END
hip_compiler
cat >"$work/kernel.hip" <<'END'
extern __attribute__((device)) int lanes();
extern "C" __attribute__((global)) void kernel(int *p) { *p = lanes(); }
END
echo '__attribute__((device)) int lanes() { return __builtin_amdgcn_wavefrontsize(); }' >"$work/function.hip"
compile() { # NAME OPTION…
    hip_source -O3 -fgpu-rdc "${@:2}" -c "$work/$1.hip" -o "$work/$1.o"
}
show() { # DRIVER NAME OPTIONS-OF-KERNEL OPTIONS-OF-FUNCTION: compiles both, links, and prints what the kernel has and answers
    local result code=0
    compile kernel "$1" $3
    compile function "$1" $4
    hip --hip-link -fgpu-rdc "$1" --offload-arch=gfx1100 -shared "$work"/{kernel,function}.o -o "$work/libx.so" 2>"$work/message" || code=$?
    if [ $code = 0 ]; then
        first_code "$work/libx.so"
        "$llvm/llvm-readelf" --file-header --notes "$work/code" >"$work/notes"
        result="$(sed -n 's/.*Flags: *0x[0-9a-f]*, //p' "$work/notes"), kernel with $(sed -n 's/.*wavefront_size: *//p' "$work/notes") lanes"
        result+=", answers $("$llvm/llvm-objdump" -d --no-show-raw-insn "$work/code" | sed -n 's/.*v_[a-z_]*mov_b32[a-z0-9_]* v1, \([0-9]*\).*/\1/p')"
    else
        result=$(grep -om1 'error: .*' "$work/message" | sed 's/: IDs have.*//')
    fi
    echo "$1, $2: exit code $code; $result"
}
{
    for driver in --no-offload-new-driver --offload-new-driver; do
        show $driver "both for 32 lanes" --offload-arch=gfx1100 --offload-arch=gfx1100
        show $driver "kernel for 64 lanes" "--offload-arch=gfx1100 -mwavefrontsize64" --offload-arch=gfx1100
        show $driver "function for 64 lanes" --offload-arch=gfx1100 "--offload-arch=gfx1100 -mwavefrontsize64"
        show $driver "kernel of version 5" "--offload-arch=gfx1100 -mcode-object-version=5" --offload-arch=gfx1100
    done
} >"$work/out"
compare "$work/out"
