#!/usr/bin/env bash
# cuobjdump 13.4.92, nvdisasm and fatbinary 13.5 of CUDA 13, and ptxas 12.9.86 of CUDA 12 (PyPI).
# Expected: a library for an old GPU and a new one, as those that were built by CUDA 12 are, is listed by the tools of CUDA 13, which at the most
# leave the old code out, and say so: -lelf lists both.
# Seen: the first entry that nvdisasm does not know ends the output of -sass. What is behind it, for GPUs that it knows, is not printed, so
# the order in the file decides. -arch selects one GPU, and then it works; -elf and -res-usage print all.
. "$(dirname "$0")/common.sh"
recorded <<'END'
sm_70 first: -lelf lists sm_70 sm_90; -sass prints code for none, exit code 1, nvdisasm fatal : CUDA architecture "SM70" is deprecated. Please use CUDA toolkit 13.0 or earlier
sm_70 first: -sass -arch sm_90 prints code for sm_90, exit code 0
sm_70 first: -res-usage prints code for sm_70 sm_90, exit code 0
sm_90 first: -lelf lists sm_90 sm_70; -sass prints code for sm_90, exit code 1, nvdisasm fatal : CUDA architecture "SM70" is deprecated. Please use CUDA toolkit 13.0 or earlier
END
venv "$work/new" nvidia-cuda-nvcc==13.5.37 nvidia-cuda-cuobjdump==13.4.92 nvidia-cuda-nvdisasm==13.5.37
wheel "$work/old" nvidia-cuda-nvcc-cu12==12.9.86
cuda=$(echo "$work"/new/lib/python3*/site-packages/nvidia/cu13/bin)
ptxas=$work/old/nvidia/cuda_nvcc/bin/ptxas
chmod +x "$ptxas"
cat >"$work/kernel.ptx" <<'END'
.version 8.0
.target sm_70
.address_size 64
.visible .entry kernel(.param .u64 place) {
    .reg .b64 %place;
    .reg .b32 %value;
    ld.param.u64 %place, [place];
    mov.u32 %value, 1;
    st.global.u32 [%place], %value;
    ret;
}
END
image() { # NUMBER: an option for the code of this GPU, which it makes
    TMPDIR=$work "$ptxas" -arch="sm_$1" "$work/kernel.ptx" -o "$work/$1.cubin"
    echo "--image3=kind=elf,sm=$1,file=$work/$1.cubin"
}
list() { # FILE OPTION…: the GPUs whose instructions are printed, and how it ended
    local code=0
    TMPDIR=$work "$cuda/cuobjdump" "${@:2}" "$1" >"$work/listed" 2>"$work/message" || code=$?
    echo "${*:2} prints code for $(awk '/^\tFunction|^ Function|EXIT/ {if (gpu) print gpu; gpu = ""} /^arch = / {gpu = $3}' "$work/listed" |
        paste -sd' ' | grep . || echo none), exit code $code$(tr -s ' ' ' ' <"$work/message" | sed -n 's/^nvdisasm fatal/, &/p' | head -1)"
}
show() { # FIRST SECOND
    "$cuda/fatbinary" --create="$work/$1.fatbin" "$(image "$1")" "$(image "$2")"
    echo "sm_$1 first: -lelf lists $("$cuda/cuobjdump" -lelf "$work/$1.fatbin" | grep -o 'sm_[0-9]*' | paste -sd' '); $(list "$work/$1.fatbin" -sass)"
}
{
    show 70 90
    echo "sm_70 first: $(list "$work/70.fatbin" -sass -arch sm_90)"
    echo "sm_70 first: $(list "$work/70.fatbin" -res-usage)"
    show 90 70
} >"$work/out"
compare "$work/out"
