#!/usr/bin/env bash
# MLIR 22.1.8 (mlir-22-tools of Debian 12).
# Expected: a kernel runs in workgroups of up to 1024 threads, which AMD's GPUs have and which is the limit of a HIP kernel that states none, or
# MLIR says what it assumes.
# Seen: the limit is 256, in the metadata and in the registers that are given to the kernel, without a word. gpu.launch of 1024 threads makes a
# kernel with the right limit if the number is a constant, and one for 256 if it is computed, so that launch fails when it is run. The attribute
# rocdl.flat_work_group_size states the limit.
. "$(dirname "$0")/common.sh"
recorded <<'END'
gpu.func: at most 256 threads
gpu.func with rocdl.flat_work_group_size = "1,1024": at most 1024 threads
gpu.launch of 1024 threads, a constant: at most 1024 threads
gpu.launch of a number of threads that is computed: at most 256 threads
END
mlir_tools
kernel() { # ATTRIBUTES: a module with a kernel
    cat <<END
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%place: !llvm.ptr, %value: f32) kernel $1 {
      llvm.store %value, %place : f32, !llvm.ptr
      gpu.return
    }
  }
}
END
}
launch() { # OPERATION: a function that launches the number of threads which this operation gives
    cat <<END
func.func @f(%place: !llvm.ptr, %number: index, %value: f32) {
  %one = arith.constant 1 : index
  %threads = $1 : index
  gpu.launch blocks(%a, %b, %c) in (%ga = %one, %gb = %one, %gc = %one) threads(%i, %j, %k) in (%ta = %threads, %tb = %one, %tc = %one) {
    llvm.store %value, %place : f32, !llvm.ptr
    gpu.terminator
  }
  return
}
END
}
show() { # NAME: compiles the source on standard input
    local passes="gpu-kernel-outlining,rocdl-attach-target{chip=gfx942},gpu.module(convert-gpu-to-rocdl{chipset=gfx942})"
    passes="builtin.module($passes,gpu-module-to-binary{format=fatbin toolkit=$toolkit})"
    TMPDIR=$work "$llvm/mlir-opt" --pass-pipeline="$passes" >"$work/compiled"
    echo "$1: at most $(grep -o 'max_flat_workgroup_size = [0-9]*' "$work/compiled" | cut -d' ' -f3) threads"
}
{
    kernel '' | show gpu.func
    kernel 'attributes {rocdl.flat_work_group_size = "1,1024"}' | show 'gpu.func with rocdl.flat_work_group_size = "1,1024"'
    launch 'arith.constant 1024' | show "gpu.launch of 1024 threads, a constant"
    launch 'arith.addi %number, %one' | show "gpu.launch of a number of threads that is computed"
} >"$work/out"
compare "$work/out"
