#!/usr/bin/env bash
# MLIR 22.1.8 (mlir-22-tools of Debian 12).
# Expected: a module for two GPUs becomes a program with code for both, of which the runtime takes one, or an error says that it cannot.
# Seen: gpu-module-to-binary compiles for each target, and the binary in the module has an object for each. The translation to LLVM IR takes
# the first in the list, with exit code 0: the program has code for that GPU alone, whose order in the source decides. #gpu.select_object
# takes another, but no attribute keeps two.
. "$(dirname "$0")/common.sh"
recorded <<'END'
gfx942, gfx1100: the module has amdhsa--gfx942 amdhsa--gfx1100; exit code 0, LLVM IR has amdhsa--gfx942
gfx1100, gfx942: the module has amdhsa--gfx1100 amdhsa--gfx942; exit code 0, LLVM IR has amdhsa--gfx1100
gfx942, gfx1100, #gpu.select_object<1>: the module has amdhsa--gfx942 amdhsa--gfx1100; exit code 0, LLVM IR has amdhsa--gfx1100
END
mlir_tools
targets_in() { # FILE: those that the metadata of its code objects state
    grep -o 'amdhsa--gfx[0-9a-z]*' "$1" | paste -sd' '
}
show() { # FIRST SECOND [ATTRIBUTE]
    local code=0
    cat >"$work/source.mlir" <<END
module attributes {gpu.container_module} {
  gpu.module @kernels ${3:+<$3>} [#rocdl.target<chip = "$1">, #rocdl.target<chip = "$2">] {
    llvm.func @kernel(%place: !llvm.ptr, %value: f32) attributes {gpu.kernel, rocdl.kernel} {
      llvm.store %value, %place : f32, !llvm.ptr
      llvm.return
    }
  }
}
END
    TMPDIR=$work "$llvm/mlir-opt" --gpu-module-to-binary="toolkit=$toolkit format=bin" "$work/source.mlir" -o "$work/module.mlir"
    "$llvm/mlir-translate" --mlir-to-llvmir "$work/module.mlir" -o "$work/module.ll" || code=$?
    echo "$1, $2${3:+, $3}: the module has $(targets_in "$work/module.mlir"); exit code $code, LLVM IR has $(targets_in "$work/module.ll")"
}
{
    show gfx942 gfx1100
    show gfx1100 gfx942
    show gfx942 gfx1100 '#gpu.select_object<1>'
} >"$work/out"
compare "$work/out"
