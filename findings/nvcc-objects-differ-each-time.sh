#!/usr/bin/env bash
# nvcc 13.5.37 (PyPI) and the g++ that it finds.
# Expected: two compilations by one command are the same bytes, as those of gcc and clang are, and the code for the GPU does not depend on where
# the source lies, which no option asked for.
# Seen: each object names a temporary file after the number of the process, until it is stripped. A kernel in an anonymous namespace is named after
# a hash of the directory, in the object and in the code for the GPU, so this differs in each directory, and no option maps directories.
. "$(dirname "$0")/common.sh"
recorded <<'END'
compiled twice: other bytes; after strip -g: the same bytes
code for the GPU, in two directories, static kernel: the same bytes
code for the GPU, in two directories, kernel in an anonymous namespace: other bytes
END
command -v g++ >/dev/null || unavailable "no g++"
venv "$work/venv" nvidia-cuda-nvcc==13.5.37 nvidia-nvvm==13.5.37 nvidia-cuda-crt==13.5.37 nvidia-cuda-runtime==13.5.37
nvcc() { # OPTION…
    TMPDIR=$work "$(echo "$work"/venv/lib/python3*/site-packages/nvidia/cu13/bin/nvcc)" -arch=sm_90 "$@"
}
same() { # FILE FILE
    cmp --silent "$1" "$2" && echo "the same bytes" || echo "other bytes"
}
in_directories() { # SOURCE: whether the code for the GPU is the same in two directories
    for directory in one two; do
        mkdir -p "$work/$directory"
        echo "$1" >"$work/$directory/kernel.cu"
        (cd "$work/$directory" && nvcc -cubin kernel.cu -o kernel.cubin)
    done
    same "$work/one/kernel.cubin" "$work/two/kernel.cubin"
}
launch='void run(int *p) { kernel<<<1, 1>>>(p); }'
{
    echo '__global__ void kernel(int *p) { *p = 1; }' >"$work/kernel.cu"
    for object in first second; do nvcc -c "$work/kernel.cu" -o "$work/$object.o"; done
    echo "compiled twice: $(same "$work/first.o" "$work/second.o"); after strip -g: $(strip -g "$work/first.o" "$work/second.o" && same "$work/first.o" "$work/second.o")"
    echo "code for the GPU, in two directories, static kernel: $(in_directories "static __global__ void kernel(int *p) { *p = 1; } $launch")"
    echo "code for the GPU, in two directories, kernel in an anonymous namespace:" \
        "$(in_directories "namespace { __global__ void kernel(int *p) { *p = 1; } } $launch")"
} >"$work/out"
compare "$work/out"
