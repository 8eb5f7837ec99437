#!/usr/bin/env bash
# clang-tidy and clang 22.1.8 (Debian 12).
# Expected: a check of a HIP source looks at what its compilation compiles: the code for the host and that for each GPU. Warnings of clang do.
# Seen: of the compilations that a command of a HIP source stands for, clang-tidy takes that of the host. Kernels are seen as the host sees them, and
# code behind #if __HIP_DEVICE_COMPILE__ or #if __gfx942__ is never looked at, with exit code 0. --extra-arg=--offload-device-only takes
# one GPU in place of the host. In a database of clang -MJ, the entries for GPUs are errors. clang --analyze looks at all, and
# then ends with 1, also for one GPU, since the bundler does not know the files with the results.
. "$(dirname "$0")/common.sh"
recorded <<'END'
clang-tidy: exit code 0, looks at on_the_host
clang-tidy, --offload-device-only: exit code 0, looks at on_each_gpu on_gfx1100
clang-tidy, database of -MJ: exit code 1, looks at on_the_host; error: unsupported architecture 'amdgcn' for host compilation
clang --analyze: exit code 1, looks at on_each_gpu on_the_host on_gfx942 on_gfx1100; error: 'plist': invalid file type specified
clang --analyze, one GPU: exit code 1, looks at on_each_gpu on_the_host on_gfx942; error: 'plist': invalid file type specified
END
hip_compiler clang-tidy-22=1:22.1.8-1~deb12u1
mkdir "$work/source" "$work/fragments"
cat >"$work/source/source.hip" <<'END'
#if __HIP_DEVICE_COMPILE__
__attribute__((device)) int on_each_gpu(int *place) { return place == nullptr ? *place : 0; }
#else
int on_the_host(int *place) { return place == nullptr ? *place : 0; }
#endif
#if __gfx942__
__attribute__((device)) int on_gfx942(int *place) { return place == nullptr ? *place : 0; }
#elif __gfx1100__
__attribute__((device)) int on_gfx1100(int *place) { return place == nullptr ? *place : 0; }
#endif
END
cd "$work/source"
options=(-x hip -nogpulib -nogpuinc -fno-exceptions)
gpus=(--offload-arch=gfx942 --offload-arch=gfx1100)
python3 - "$llvm/clang" "${options[@]}" "${gpus[@]}" -c source.hip <<'END'
import json
import os
import sys

entry = {"directory": os.getcwd(), "file": "source.hip", "arguments": sys.argv[1:]}
json.dump([entry], open("compile_commands.json", "w"))
END
TMPDIR=$work "$llvm/clang" "${options[@]}" "${gpus[@]}" -c source.hip -o "$work/source.o" -MJ "$work/entries"
echo "[$(sed '$s/,$//' "$work/entries")]" >"$work/fragments/compile_commands.json"
show() { # NAME COMMAND…: the functions of which it says something, and its first error
    local code=0
    TMPDIR=$work "${@:2}" >"$work/message" 2>&1 || code=$?
    local found
    found=$(sed -n 's/^[^:]*source.hip:\([0-9]*\):.*Dereference of null.*/\1/p' "$work/message" | sort -un | while read -r line; do
        sed -n "${line}s/.*int \(on_[a-z0-9_]*\)(.*/\1/p" source.hip
    done | paste -sd' ')
    echo "$1: exit code $code, looks at $found$(grep -om1 "error: .*unsupported.*\|error: 'plist.*" "$work/message" | sed 's/^/; /; s/ \[clang.*//')"
}
tidy=("$llvm/clang-tidy" --checks='-*,clang-analyzer-core.*' source.hip)
{
    show clang-tidy "${tidy[@]}" -p .
    show "clang-tidy, --offload-device-only" "${tidy[@]}" -p . --extra-arg=--offload-device-only
    show "clang-tidy, database of -MJ" "${tidy[@]}" -p "$work/fragments"
    show "clang --analyze" "$llvm/clang" "${options[@]}" "${gpus[@]}" --analyze source.hip
    show "clang --analyze, one GPU" "$llvm/clang" "${options[@]}" --offload-arch=gfx942 --analyze source.hip
} >"$work/out"
compare "$work/out"
