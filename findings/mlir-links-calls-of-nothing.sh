#!/usr/bin/env bash
# MLIR 22.1.8 (mlir-22-tools and lld-22 of Debian 12).
# Expected: a kernel that calls a function which is nowhere does not link, as in HIP, where clang gives the linker --no-undefined; or the file
# that is to have the function is asked for.
# Seen: gpu-module-to-binary links code objects as shared libraries whose symbols something else may define, with exit code 0. But a code object
# is loaded alone, so nothing does. The kernel has the registers and the stack of an unknown function. Of a file with the function, the option
# l=FILE makes a whole kernel.
. "$(dirname "$0")/common.sh"
recorded <<'END'
without the function: exit code 0, R_AMDGPU_ABS64 of helper, 272 bytes of arguments
with the function: exit code 0, no relocation, 12 bytes of arguments
END
mlir_tools
cat >"$work/source.mlir" <<'END'
module attributes {gpu.container_module} {
  gpu.module @kernels [#rocdl.target<chip = "gfx942">] {
    llvm.func @helper(f32) -> f32
    llvm.func @kernel(%place: !llvm.ptr, %value: f32) attributes {gpu.kernel, rocdl.kernel} {
      %result = llvm.call @helper(%value) : (f32) -> f32
      llvm.store %result, %place : f32, !llvm.ptr
      llvm.return
    }
  }
}
END
cat >"$work/helper.ll" <<'END'
target triple = "amdgcn-amd-amdhsa"
define float @helper(float %value) {
  %double = fadd float %value, %value
  ret float %double
}
END
"$llvm/llvm-as" "$work/helper.ll" -o "$work/helper.bc"
show() { # NAME OPTION
    local code=0 relocations
    TMPDIR=$work "$llvm/mlir-opt" --gpu-module-to-binary="toolkit=$toolkit format=bin $2" "$work/source.mlir" -o "$work/module.mlir" || code=$?
    python3 - "$work/module.mlir" "$work/kernel.co" <<'END'
import re
import sys

# A string of MLIR has \XX for a byte, and \\ and \" for these two.
text = re.search(r'bin = "((?:[^"\\]|\\.)*)"', open(sys.argv[1]).read()).group(1)
code = re.sub(rb"\\([0-9A-F]{2}|.)", lambda byte: bytes.fromhex(byte[1].decode()) if len(byte[1]) == 2 else byte[1], text.encode())
open(sys.argv[2], "wb").write(code)
END
    relocations=$("$llvm/llvm-readelf" --relocations "$work/kernel.co" | awk '/R_AMDGPU_/ {print $3 " of " $5}')
    echo "$1: exit code $code, ${relocations:-no relocation}, $(kernel_metadata "$work/kernel.co" kernarg_segment_size | cut -d' ' -f2) bytes of arguments"
}
{
    show "without the function" ""
    show "with the function" "l=$work/helper.bc"
} >"$work/out"
compare "$work/out"
