#!/usr/bin/env bash
# ptxas and fatbinary 13.5.37 and cuobjdump 13.4.92 of CUDA 13 (PyPI).
# Expected: code for sm_100f, which may have instructions that sm_100 does not promise, has that name in lists, as code for sm_100a has, and the cubin
# tells what it is.
# Seen: an instruction that ptxas refuses for sm_100 compiles for sm_100f, and -lelf lists the code as sm_100. The flags in its header are those of
# sm_100; the entry of the fat binary has the f, and loses it when the code is extracted. In the cubin, an attribute names the class of the instruction, and a
# note with the command line of ptxas of the target. -arch sm_100 selects code for sm_100f, and that for sm_100a too.
. "$(dirname "$0")/common.sh"
recorded <<'END'
sm_100 with redux.f32: Instruction 'redux.f32' not supported on .target 'sm_100'
sm_100 without it: flags 0x6006402, sm=100, ISA_CLASS 0x1, note: -arch sm_100
sm_100f without it: flags 0x6006402, sm=100, ISA_CLASS 0x1, note: -arch sm_100f
sm_100f with redux.f32: flags 0x6006402, sm=100, ISA_CLASS 0x2, note: -arch sm_100f
sm_100a with redux.f32: flags 0x6006402, sm=100a, ISA_CLASS 0x2, note: -arch sm_100a
-lelf lists sm_100 sm_100a; -sass -arch sm_100 prints sm_100f sm_100a
END
venv "$work/venv" nvidia-cuda-nvcc==13.5.37 nvidia-cuda-cuobjdump==13.4.92 nvidia-cuda-nvdisasm==13.5.37
cuda=$(echo "$work"/venv/lib/python3*/site-packages/nvidia/cu13/bin)
export TMPDIR=$work
compile() { # GPU OUTPUT [INSTRUCTION]
    cat >"$work/kernel.ptx" <<END
.version 9.0
.target $1
.address_size 64
.visible .entry kernel(.param .u64 place) {
    .reg .b64 %place;
    .reg .f32 %value;
    ld.param.u64 %place, [place];
    ld.global.f32 %value, [%place];
    ${3:-}
    st.global.f32 [%place], %value;
    ret;
}
END
    "$cuda/ptxas" -arch="$1" "$work/kernel.ptx" -o "$work/$2.cubin" 2>"$work/message"
}
show() { # NAME GPU [INSTRUCTION]: what cuobjdump says of the code
    compile "$2" "$2" "${3:-}"
    "$cuda/cuobjdump" -elf "$work/$2.cubin" >"$work/dump" 2>/dev/null
    echo "$1: flags $(sed -n 's/.*flags=//p' "$work/dump"), $(grep -o 'sm=[0-9a-z]*' "$work/dump")," \
        "ISA_CLASS $(grep -A2 EICOMPAT_ATTR_ISA_CLASS "$work/dump" | sed -n 's/.*Value:[[:space:]]*//p')," \
        "note: $(sed -n 's/.*Command Line Arguments: *\(.*[^ ]\) *$/\1/p' "$work/dump")"
}
reduction='redux.sync.min.f32 %value, %value, 0xffffffff;'
{
    if ! compile sm_100 refused "$reduction"; then echo "sm_100 with redux.f32: $(grep -o "Instruction '.*" "$work/message")"; fi
    show "sm_100 without it" sm_100
    show "sm_100f without it" sm_100f
    show "sm_100f with redux.f32" sm_100f "$reduction"
    show "sm_100a with redux.f32" sm_100a "$reduction"
    "$cuda/fatbinary" --create="$work/kernel.fatbin" --image3=kind=elf,sm=100f,file="$work/sm_100f.cubin" --image3=kind=elf,sm=100a,file="$work/sm_100a.cubin"
    listed=$("$cuda/cuobjdump" -lelf "$work/kernel.fatbin" | grep -o 'sm_[0-9a-z]*' | paste -sd' ')
    selected=$("$cuda/cuobjdump" -sass -arch sm_100 "$work/kernel.fatbin" 2>/dev/null | sed -n 's/^arch = //p' | paste -sd' ')
    echo "-lelf lists $listed; -sass -arch sm_100 prints $selected"
} >"$work/out"
compare "$work/out"
