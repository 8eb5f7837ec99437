#!/usr/bin/env bash
# clang and lld 22.1.8 and abidiff 2.2 (Debian 12), and the library of vapoursynth-bm3dhip 2.17.5 (PyPI).
# Expected: a library with kernels that is built again, in another directory or for another GPU, has the same interface. With -fvisibility=hidden it
# exports what it marks.
# Seen: each object with device code exports a symbol that is named after a hash of its path and of all options (__hip_cuid_…), also with
# -fvisibility=hidden, and the handle of each kernel. So abidiff, which builds of distributions use to guard interfaces, finds a removed symbol, an
# incompatible change, in each build. The symbol is there in real libraries. A version script that keeps it local helps, and -cuid=NAME makes it the same.
. "$(dirname "$0")/common.sh"
recorded <<'END'
another directory: exports __hip_cuid_… kernel run; abidiff: exit code 12, [D] __hip_cuid_…
another GPU: exports __hip_cuid_… kernel run; abidiff: exit code 12, [D] __hip_cuid_…
another directory, -cuid=kernel: exports __hip_cuid_… kernel run; abidiff: exit code 0
another GPU, version script: exports run; abidiff: exit code 0
bm3dhip: exports 1 __hip_cuid_…
END
hip_compiler abigail-tools=2.2-2 libabigail0=2.2-2 libxml2=2.9.14+dfsg-1.3~deb12u6 libdw1=0.188-2.1 libelf1=0.188-2.1 libicu72=72.1-3+deb12u1
amd_runtime
mkdir "$work/first" "$work/second"
cat >"$work/version" <<'END'
{ global: run; local: *; };
END
build() { # DIRECTORY GPU OPTION…: the library, of an equal source in this directory
    grep -v KERNEL "$PYTHONPATH/kernel.hip" >"$work/$1/kernel.hip"
    cat >>"$work/$1/kernel.hip" <<'END'
extern "C" __attribute__((global)) void kernel(int *place) { *place = 1; }
extern "C" __attribute__((visibility("default"))) int run() { return 1; }
END
    hip -x hip -nogpuinc -fno-exceptions --offload-arch="$2" "${@:3}" -c "$work/$1/kernel.hip" -o "$work/$1/kernel.o"
    hip -shared -Wl,-soname,libkernel.so.1 ${script:+-Wl,--version-script="$script"} "$work/$1/kernel.o" -o "$work/$1/libkernel.so.1"
}
exports() { # LIBRARY
    "$llvm/llvm-nm" --dynamic --defined-only --format=just-symbols "$1" | sed 's/^\(__hip_cuid_\).*/\1…/' | sort
}
show() { # NAME SECOND-GPU OPTION…
    local code=0
    build first gfx942 "${@:3}"
    build second "$2" "${@:3}"
    "$work/root/usr/bin/abidiff" "$work/first/libkernel.so.1" "$work/second/libkernel.so.1" >"$work/changes" || code=$?
    echo "$1: exports $(exports "$work/first/libkernel.so.1" | paste -sd' '); abidiff: exit code $code$(grep -o '\[D\] __hip_cuid_' "$work/changes" | sed 's/.*/, &…/')"
}
{
    show "another directory" gfx942 -fvisibility=hidden
    show "another GPU" gfx1100 -fvisibility=hidden
    show "another directory, -cuid=kernel" gfx942 -fvisibility=hidden -cuid=kernel
    script=$work/version show "another GPU, version script" gfx1100 -fvisibility=hidden
    echo "bm3dhip: exports $(exports "$fat" | grep -c __hip_cuid_) __hip_cuid_…"
} >"$work/out"
compare "$work/out"
