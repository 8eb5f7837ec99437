#!/usr/bin/env bash
# llc, clang and lld 22.1.8 (Debian 12), on bitcode of a kernel that clang compiled for gfx942: code for another GPU is asked for.
# Expected: -mcpu selects the GPU whose instructions are written, or the bitcode is refused; the instructions are those of the GPU in the header.
# Seen: functions carry the GPU that they were compiled for, and that one wins. -mcpu changes the header and the metadata alone, with exit code 0: a
# code object that states gfx1100 has a kernel for 64 lanes, whose instructions gfx1100 does not know. clang from bitcode and lld, as
# for optimization at the link, do the same. For gfx90a the disassembler shows nothing of it here. Without the two attributes, the
# instructions are those of gfx1100.
. "$(dirname "$0")/common.sh"
recorded <<'END'
source, for gfx942: header gfx942, 64 lanes, 0 of 9 instructions unknown
source, for gfx1100: header gfx1100, 32 lanes, 0 of 10 instructions unknown
llc -mcpu=gfx1100: header gfx1100, 64 lanes, 10 of 13 instructions unknown, the bytes of gfx942
llc -mcpu=gfx1201: header gfx1201, 64 lanes, 10 of 13 instructions unknown, the bytes of gfx942
llc -mcpu=gfx90a: header gfx90a, 64 lanes, 0 of 9 instructions unknown, the bytes of gfx942
clang -x ir -mcpu=gfx1100: header gfx1100, 64 lanes, 10 of 13 instructions unknown, the bytes of gfx942
lld with mcpu=gfx1100: header gfx1100, 64 lanes, 10 of 13 instructions unknown, the bytes of gfx942
llc -mcpu=gfx1100, without the attributes: header gfx1100, 32 lanes, 0 of 10 instructions unknown
END
hip_compiler
cat >"$work/scale.hip" <<'END'
extern "C" __attribute__((global)) void scale(float *x, float factor) { x[__builtin_amdgcn_workitem_id_x()] *= factor; }
END
compile() { # GPU OUTPUT OPTION…: compiles the kernel
    hip -x hip -nogpuinc --offload-arch="$1" --offload-device-only --no-gpu-bundle-output -O2 "${@:3}" -c "$work/scale.hip" -o "$work/$2"
}
describe() { # NAME: the GPU that $work/code states, its lanes, and how many instructions the disassembler does not know
    local header lanes
    header=$("$llvm/llvm-readelf" -h "$work/code" | sed -nE 's/.*Flags: .*, (gfx[0-9a-z]+).*/\1/p')
    lanes=$("$llvm/llvm-readelf" --notes "$work/code" | sed -n 's/.*\.wavefront_size: *//p')
    # The last instruction of a kernel is s_endpgm, which has one of these two encodings.
    "$llvm/llvm-objdump" -d "$work/code" | sed -n '/<scale>:/,/ BF810000\| BFB00000/{/\/\/ 0/p}' >"$work/text"
    "$llvm/llvm-objdump" -d --mcpu=gfx942 "$work/code" | sed -n '/<scale>:/,/ BF810000\| BFB00000/{s/.*\/\/ [0-9A-F]*: //p}' >"$work/bytes"
    cmp -s "$work/bytes" "$work/bytes.gfx942" && same=", the bytes of gfx942" || same=
    echo "$1: header $header, $lanes lanes, $(grep -cE '\.long|v_illegal' "$work/text" || true) of $(wc -l <"$work/text") instructions unknown$same"
}
compile gfx942 code
describe "source, for gfx942" >"$work/first"
mv "$work/bytes" "$work/bytes.gfx942"
compile gfx1100 code
{
    cat "$work/first"
    describe "source, for gfx1100"
    compile gfx942 gfx942.bc -emit-llvm
    for gpu in gfx1100 gfx1201 gfx90a; do
        "$llvm/llc" -mcpu=$gpu -filetype=obj "$work/gfx942.bc" -o "$work/object"
        "$llvm/ld.lld" -shared "$work/object" -o "$work/code"
        describe "llc -mcpu=$gpu"
    done
    "$llvm/clang" --target=amdgcn-amd-amdhsa -mcpu=gfx1100 -nogpulib -O2 -x ir "$work/gfx942.bc" -o "$work/code"
    describe "clang -x ir -mcpu=gfx1100"
    "$llvm/ld.lld" -shared -plugin-opt=mcpu=gfx1100 "$work/gfx942.bc" -o "$work/code"
    describe "lld with mcpu=gfx1100"
    "$llvm/llvm-dis" "$work/gfx942.bc" -o - | sed -E 's/"target-(cpu|features)"="[^"]*"//g' |
        "$llvm/llc" -mcpu=gfx1100 -filetype=obj -o "$work/object"
    "$llvm/ld.lld" -shared "$work/object" -o "$work/code"
    describe "llc -mcpu=gfx1100, without the attributes"
} >"$work/out"
compare "$work/out"
