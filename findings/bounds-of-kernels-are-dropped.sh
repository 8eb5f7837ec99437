#!/usr/bin/env bash
# clang 22.1.8 (Debian 12): kernels for HIP that state how many threads a workgroup has at most.
# Expected: launch_bounds, which is the attribute of CUDA and is accepted, states it in the metadata, as the number by which the
# compiler divides registers. A number that no GPU has is an error.
# Seen: launch_bounds has no effect on the metadata, which say 1024 threads, without a word. Only the attribute of AMD counts, and 2048 threads are
# 1024 there, without a word as well. (The macro __launch_bounds__ of HIP's headers is the attribute of AMD; one of a header for CUDA is not.)
. "$(dirname "$0")/common.sh"
recorded <<'END'
launch_bounds(64), gfx942: 1024 threads, 0 lines of warnings
launch_bounds(64), gfx1100: 1024 threads, 0 lines of warnings
launch_bounds(2048), gfx942: 1024 threads, 0 lines of warnings
launch_bounds(2048), gfx1100: 1024 threads, 0 lines of warnings
amdgpu_flat_work_group_size(1, 64), gfx942: 64 threads, 0 lines of warnings
amdgpu_flat_work_group_size(1, 64), gfx1100: 64 threads, 0 lines of warnings
amdgpu_flat_work_group_size(1, 2048), gfx942: 1024 threads, 0 lines of warnings
amdgpu_flat_work_group_size(1, 2048), gfx1100: 1024 threads, 0 lines of warnings
END
hip_compiler
options=(-nogpulib -nogpuinc -fuse-cuid=none -O2)
for attribute in 'launch_bounds(64)' 'launch_bounds(2048)' 'amdgpu_flat_work_group_size(1, 64)' 'amdgpu_flat_work_group_size(1, 2048)'; do
    echo "__attribute__((global, $attribute)) void kernel(int *p) { *p = 1; }" >"$work/kernel.hip"
    for gpu in gfx942 gfx1100; do
        kernel_code code --offload-arch=$gpu 2>"$work/message"
        echo "$attribute, $gpu: $(kernel_metadata "$work/code" max_flat_workgroup_size | sed 's/.* //') threads, $(wc -l <"$work/message") lines of warnings"
    done
done >"$work/out"
compare "$work/out"
