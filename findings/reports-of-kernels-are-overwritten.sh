#!/usr/bin/env bash
# clang 22.1.8 (Debian 12).
# Expected: options that write a report of a compilation to a file write one for the host and one for each GPU, as -gsplit-dwarf and -save-temps do.
# Seen: the compilations of a HIP source write to one name, one after the other, and that of the host is the last. So optimization records, sizes of
# stack frames of kernels are written and lost, and the file that is left looks complete. A time trace is made for the host
# only. With --offload-device-only, of two GPUs one is left, and no time trace is written, with exit code 0; the reports of a
# kernel are to be had from a call for one GPU each.
. "$(dirname "$0")/common.sh"
recorded <<'END'
--offload-arch=gfx942 --offload-arch=gfx1100: exit code 0, writes k.json k.o k.opt.yaml k.su
    optimization record: __device_stub__common
    stack usage: __device_stub__common
    time trace: __device_stub__common
--offload-arch=gfx942 --offload-arch=gfx1100 --offload-device-only: exit code 0, writes k.o k.opt.yaml k.su
    optimization record: for_gfx942
    stack usage: for_gfx942
    time trace: no file
--offload-arch=gfx942 --offload-device-only: exit code 0, writes k.o k.opt.yaml k.su
    optimization record: for_gfx942
    stack usage: for_gfx942
    time trace: no file
END
hip_compiler
{
    cat "$PYTHONPATH/kernel.hip"
    echo '#if __gfx942__'
    echo 'extern "C" __attribute__((global)) void for_gfx942(int *p) { *p = 2; }'
    echo '#elif __gfx1100__'
    echo 'extern "C" __attribute__((global)) void for_gfx1100(int *p) { *p = 3; }'
    echo '#endif'
} >"$work/source.hip"
functions() { # FILE: which of the kernels and stubs it names
    [ -f "$1" ] || { echo "no file"; return; }
    grep -o '__device_stub__common\|for_gfx[0-9]*' "$1" | sort -u | paste -sd, | sed 's/,/, /g; s/^$/no kernel/'
}
show() { # OPTION…
    local code=0
    rm -rf "$work/build"
    mkdir "$work/build"
    (cd "$work/build" && hip -x hip -nogpuinc -fno-exceptions -DKERNEL=common -O2 "$@" -fsave-optimization-record -fstack-usage -ftime-trace \
        -ftime-trace-granularity=0 -c ../source.hip -o k.o) || code=$?
    echo "$*: exit code $code, writes $(ls "$work/build" | paste -sd' ')"
    echo "    optimization record: $(functions "$work/build/k.opt.yaml")"
    echo "    stack usage: $(functions "$work/build/k.su")"
    echo "    time trace: $(functions "$work/build/k.json")"
}
{
    show --offload-arch=gfx942 --offload-arch=gfx1100
    show --offload-arch=gfx942 --offload-arch=gfx1100 --offload-device-only
    show --offload-arch=gfx942 --offload-device-only
} >"$work/out"
compare "$work/out"
