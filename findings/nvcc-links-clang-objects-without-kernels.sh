#!/usr/bin/env bash
# clang 22.1.8 (Debian 12), nvcc 13.5.37 and cuobjdump 13.4.92 (PyPI), and the g++ that nvcc finds.
# Expected: nvcc links objects with device code (-fgpu-rdc) that clang compiled for CUDA, as it links their host code; or says that it finds no device code.
# Seen: the new offload driver, which is the default of clang 22 for CUDA, puts device code into a section of LLVM (.llvm.offloading), which the linker for
# the device passes by. The library has the stub of the kernel and no kernel, with exit code 0, also where nvcc links nothing else, and cuobjdump says
# that such an object has no device code. With --no-offload-new-driver both find it, as they do in objects without -fgpu-rdc.
. "$(dirname "$0")/common.sh"
recorded <<'END'
-fgpu-rdc: object: does not contain device code
    clang.o: exit code 0, kernels: does not contain device code, stub: 1
    nvcc.o clang.o: exit code 0, kernels: of_nvcc, stub: 1
-fgpu-rdc --no-offload-new-driver: object: of_clang
    clang.o: exit code 0, kernels: of_clang, stub: 1
    nvcc.o clang.o: exit code 0, kernels: of_clang of_nvcc, stub: 1
END
hip_compiler
venv "$work/venv" nvidia-cuda-nvcc==13.5.37 nvidia-cuda-runtime==13.5.37 nvidia-nvvm==13.5.37 nvidia-cuda-crt==13.5.37 nvidia-cuda-cuobjdump==13.4.92
toolkit=$(echo "$work"/venv/lib/python3*/site-packages/nvidia/cu13)
cat >"$work/clang.cu" <<'END'
typedef __SIZE_TYPE__ size_t;
typedef int cudaError_t;
typedef struct cudaStream *cudaStream_t;
struct dim3 {
    unsigned x, y, z;
};
extern "C" cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t);
extern "C" __attribute__((global)) void of_clang(int *place) { *place = 1; }
END
echo 'extern "C" __global__ void of_nvcc(int *place) { *place = 2; }' >"$work/nvcc.cu"
nvidia() { # PROGRAM ARGUMENT…: a program of CUDA, with the libraries of the system
    (cd "$work" && env -u LD_LIBRARY_PATH TMPDIR="$work" "$toolkit/bin/$1" "${@:2}")
}
kernels() { # FILE
    nvidia cuobjdump -res-usage "$1" 2>"$work/message" | sed -n 's/^ *Function \(\w*\):.*/\1/p' | sort | paste -sd' ' | grep . ||
        sed -n "s/.*\(does not contain device code\).*/\1/p" "$work/message"
}
nvidia nvcc -arch=sm_90 -dc -Xcompiler -fPIC nvcc.cu -o nvcc.o
show() { # OPTION…
    TMPDIR=$work "$llvm/clang" -x cuda -nocudainc -nocudalib --cuda-path="$toolkit" --cuda-gpu-arch=sm_90 -Wno-unknown-cuda-version -fPIC "$@" \
        -c "$work/clang.cu" -o "$work/clang.o"
    echo "$*: object: $(kernels clang.o)"
    local objects code
    for objects in clang.o "nvcc.o clang.o"; do
        code=0
        # shellcheck disable=SC2086 # one object or two
        nvidia nvcc -arch=sm_90 -shared -cudart=none $objects -o library.so 2>"$work/message" || code=$?
        echo "    $objects: exit code $code, kernels: $(kernels library.so || true), stub: $(nm "$work/library.so" | grep -c ' T __device_stub__of_clang')"
    done
}
{
    show -fgpu-rdc
    show -fgpu-rdc --no-offload-new-driver
} >"$work/out"
compare "$work/out"
