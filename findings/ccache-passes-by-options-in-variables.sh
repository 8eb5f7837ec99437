#!/usr/bin/env bash
# ccache 4.7.5, clang 22.1.8 and hipcc 5.2.3 (Debian 12), nvcc 13.5.37 and cuobjdump 13.4.92 (PyPI), and the g++ that nvcc finds.
# Expected: a compiler cache knows the variables that give a compiler options, as it knows CPATH: those of nvcc (NVCC_APPEND_FLAGS, NVCC_PREPEND_FLAGS), of
# hipcc (HIPCC_COMPILE_FLAGS_APPEND) and of clang (CCC_OVERRIDE_OPTIONS).
# Seen: it looks at none of them, so a build for another GPU, without fused additions or with another macro gets the object of the build before, with exit
# code 0. These variables are how a GPU is added to a build whose files nobody wants to change. Without the mode that trusts the digests of headers
# (CCACHE_NODIRECT) a macro is noticed, and a GPU or -fmad=false is not.
. "$(dirname "$0")/common.sh"
recorded <<'END'
nvcc, no cache: 11, fused, sm_90; -DVALUE=22: 22, fused, sm_90; -fmad=false: 11, sm_90; another GPU: 11, fused, sm_80 sm_90
nvcc, ccache: 11, fused, sm_90; -DVALUE=22: 11, fused, sm_90; -fmad=false: 11, fused, sm_90; another GPU: 11, fused, sm_90
nvcc, ccache, CCACHE_NODIRECT: 11, fused, sm_90; -DVALUE=22: 22, fused, sm_90; -fmad=false: 11, fused, sm_90; another GPU: 11, fused, sm_90
hipcc, no cache: 11, gfx942; -DVALUE=22: 22, gfx942; another GPU: 11, gfx1100 gfx942
hipcc, ccache: 11, gfx942; -DVALUE=22: 11, gfx942; another GPU: 11, gfx942
clang, no cache: 11, gfx942; -DVALUE=22: 22, gfx942; another GPU: 11, gfx1100 gfx942
clang, ccache: 11, gfx942; -DVALUE=22: 11, gfx942; another GPU: 11, gfx942
END
command -v g++ >/dev/null || unavailable "no g++"
hip_compiler ccache=4.8+really4.7.5-1 libhiredis0.14=0.14.1-3 hipcc=5.2.3-8
venv "$work/venv" nvidia-cuda-nvcc==13.5.37 nvidia-nvvm==13.5.37 nvidia-cuda-crt==13.5.37 nvidia-cuda-runtime==13.5.37 \
    nvidia-cuda-cuobjdump==13.4.92 nvidia-cuda-nvdisasm==13.5.37
cuda=$(echo "$work"/venv/lib/python3*/site-packages/nvidia/cu13/bin)
mkdir "$work/bin"
ln -s "$llvm/clang" "$work/bin/clang-15"
ln -s "$llvm/clang++" "$work/bin/clang++-15"
export TMPDIR=$work ROCM_PATH=$work HIP_PATH=$work HSA_PATH=$work DEVICE_LIB_PATH=$work
export HIP_CLANG_PATH=$work/bin HIP_CLANG_INCLUDE_PATH=$work HIP_PLATFORM=amd HIP_COMPILER=clang HIP_RUNTIME=rocclr
cd "$work"
echo '__global__ void kernel(float *p, float x, float y) { *p = x * y + VALUE; }' >kernel.cu
sed 's/\*p = 1;/*p = VALUE;/; s/KERNEL/kernel/' "$PYTHONPATH/kernel.hip" >kernel.hip
sed -i '1i #ifndef VALUE\n#define VALUE 11\n#endif' kernel.cu kernel.hip
hip=(-nogpuinc -nogpulib -fPIC -fno-exceptions -O2 --offload-arch=gfx942 -c kernel.hip -o kernel.o)
commands() { # COMPILER: sets $command and $variable
    case $1 in
    nvcc) command=("$cuda/nvcc" -arch=sm_90 -c kernel.cu -o kernel.o) variable=NVCC_APPEND_FLAGS another='NVCC_PREPEND_FLAGS=-gencode=arch=compute_80,code=sm_80' ;;
    hipcc) command=("$work/root/usr/bin/hipcc" "${hip[@]}") variable=HIPCC_COMPILE_FLAGS_APPEND another="$variable=--offload-arch=gfx1100" ;;
    clang) command=("$llvm/clang" -x hip "${hip[@]}") variable=CCC_OVERRIDE_OPTIONS another="$variable=+--offload-arch=gfx1100" ;;
    esac
}
compiled() { # [VARIABLE=VALUE]: compiles by $cache and $command, and prints what the kernel does and for which GPUs it is
    rm -f kernel.o
    env "$@" "${cache[@]}" "${command[@]}" >&2
    if [[ ${command[0]} = */nvcc ]]; then
        "$cuda/cuobjdump" -sass kernel.o >code
        grep -Eo 'F(FMA|ADD) .*, (11|22) ' code | grep -Eo '(11|22) $' | sort -u | tr -d ' \n'
        ! grep -q FFMA code || printf ', fused'
        printf ', %s' "$(grep -Eo 'sm_[0-9]+$' code | sort -u | paste -sd' ')"
    else
        first_code kernel.o
        printf '%s, %s' "$("$llvm/llvm-objdump" -d code | sed -n 's/.*mov_b32[_e32]* v[0-9]*, \(11\|22\) .*/\1/p')" \
            "$(hip_code kernel.o | grep -Eo 'gfx[0-9]+' | sort -u | paste -sd' ')"
    fi
}
show() { # COMPILER NAME [COMMAND…]
    local cache=("${@:3}") command variable another plus=
    commands "$1"
    [ "$1" != clang ] || plus=+
    export CCACHE_DIR="$work/$1 $2"
    printf '%s, %s: %s' "$1" "$2" "$(compiled)"
    printf '; -DVALUE=22: %s' "$(compiled "$variable=$plus-DVALUE=22")"
    [ "$1" != nvcc ] || printf '; -fmad=false: %s' "$(compiled "$variable=-fmad=false")"
    printf '; another GPU: %s\n' "$(compiled "$another")"
}
ccache=$work/root/usr/bin/ccache
{
    for compiler in nvcc hipcc clang; do
        show $compiler "no cache"
        show $compiler ccache "$ccache"
        [ $compiler != nvcc ] || CCACHE_NODIRECT=1 show $compiler "ccache, CCACHE_NODIRECT" "$ccache"
    done
} >"$work/out"
compare "$work/out"
