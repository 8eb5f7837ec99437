#!/usr/bin/env bash
# hipify-perl 6.0.2 (Debian 13), which makes HIP of CUDA: one source with a line for each case.
# Expected: what HIP does not have is named, with an exit code that stops a build: PTX, masks of 32 lanes, libraries without a counterpart. Words in
# strings and comments stay.
# Seen: PTX, calls with masks of 32 lanes, the width of 32 and a call of cuBLASLt stay, without a word; AMD's GPUs of data centres have 64 lanes, so some
# of them compile and mean something else. Of the shuffles it warns, and of cudaLaunchKernel, which it translates, that CUDA removed it. Words in
# strings are translated, so messages and names of symbols change. The exit code is 0 in each case.
. "$(dirname "$0")/common.sh"
recorded <<'END'
asm("mov.u32 %0, %%laneid;" : "=r"(lane)); -> the same, exit code 0
votes = __ballot_sync(0xffffffff, vote); -> the same, exit code 0
sum += __shfl_down_sync(0xffffffff, sum, 16); -> the same, exit code 0, unsupported device function "__shfl_down_sync"
lane = threadIdx.x & 31; -> the same, exit code 0
cublasLtMatmul(handle, operation, alpha, a, b); -> the same, exit code 0
cudaLaunchKernel(kernel, blocks, threads, arguments, 0, stream); -> hipLaunchKernel(kernel, blocks, threads, arguments, 0, stream);, exit code 0, removed identifier "cudaLaunch" since CUDA 10.1
function = dlsym(library, "cudaMalloc"); -> function = dlsym(library, "hipMalloc");, exit code 0
cudaGraphInstantiateWithParams(&graph, source, &parameters); -> the same, exit code 0, unsupported identifier "cudaGraphInstantiateWithParams"
END
debs --suite trixie hipify-perl=6.0.2+dfsg-1
while IFS= read -r line; do
    echo "$line" >"$work/one.cu"
    code=0
    env -u LD_LIBRARY_PATH perl "$work/root/usr/bin/hipify-perl" "$work/one.cu" >"$work/one.hip" 2>"$work/message" || code=$?
    result=$(grep -vx '#include.*runtime.h"' "$work/one.hip")
    [ "$result" != "$line" ] || result='the same'
    echo "$line -> $result, exit code $code$(sed -n 's/.*warning: [^:]*:[0-9]*: \([^:]*\).*/, \1/p' "$work/message" | head -1)"
done >"$work/out" <<'END'
asm("mov.u32 %0, %%laneid;" : "=r"(lane));
votes = __ballot_sync(0xffffffff, vote);
sum += __shfl_down_sync(0xffffffff, sum, 16);
lane = threadIdx.x & 31;
cublasLtMatmul(handle, operation, alpha, a, b);
cudaLaunchKernel(kernel, blocks, threads, arguments, 0, stream);
function = dlsym(library, "cudaMalloc");
cudaGraphInstantiateWithParams(&graph, source, &parameters);
END
compare "$work/out"
