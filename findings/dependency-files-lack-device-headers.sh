#!/usr/bin/env bash
# clang 22.1.8 and ccache 4.7.5 (Debian 12), ninja 1.13.0 (PyPI).
# Expected: the dependency file of a HIP source (-MD) names all files that its compilation reads, so a build that has it compiles again when
# one of them changes.
# Seen: clang compiles the source once for the host and once for each GPU, and writes only what the host includes. A header that is included
# behind #if __gfx942__ or #if __HIP_DEVICE_COMPILE__ is in no dependency file. After a change of it, ninja says that there is nothing to do, and
# the library keeps the kernel of before. With --offload-device-only, no dependency file is written at all, with exit code 0. ccache
# reads the output of the preprocessor, which is for all of them, and compiles again; in its depend mode it trusts the dependency file.
# A header that the host includes as well (#include outside of such conditions) is named.
. "$(dirname "$0")/common.sh"
recorded <<'END'
clang -MD: k.o: k.hip everywhere.h
clang -MD --offload-new-driver: k.o: k.hip everywhere.h
clang -MD -fgpu-rdc: k.o: k.hip everywhere.h
clang -MD --offload-device-only: exit code 0, no dependency file
ninja: kernel with 11; other header: kernel with 11 (ninja: no work to do.)
ccache: kernel with 11; other header: kernel with 22
ccache, depend mode: kernel with 11; other header: kernel with 11
END
hip_compiler ccache=4.8+really4.7.5-1 libhiredis0.14=0.14.1-3
venv "$work/venv" ninja==1.13.0
mkdir "$work/source"
cd "$work/source"
{
    printf '#include "%s"\n' everywhere.h
    printf '#ifdef __gfx942__\n#include "only-gfx942.h"\n#else\n#define NUMBER 0\n#endif\n'
    sed 's/\*p = 1;/*p = NUMBER;/' "$PYTHONPATH/kernel.hip"
} >k.hip
header() { # NUMBER: the header, older than all that is made afterwards
    echo "#define NUMBER $1" >only-gfx942.h
    touch -d '1 minute ago' only-gfx942.h k.hip everywhere.h
}
command=("$llvm/clang" -x hip -nogpulib -nogpuinc -fPIC -fno-exceptions -O2 -DKERNEL=one --offload-arch=gfx942 --offload-arch=gfx1100 -MD -c k.hip -o k.o)
export TMPDIR=$work
dependencies() { # OPTION…
    local code=0
    rm -f k.d
    "${command[@]}" "$@" || code=$?
    if [ -e k.d ]; then tr -d '\\\n' <k.d | tr -s ' '; else echo "exit code $code, no dependency file"; fi
}
kernel() { # the number in the kernel for gfx942
    python3 - k.o code <<'END'
import sys

import comgr

for name, code in next(comgr.bundles(open(sys.argv[1], "rb").read())):
    if name.endswith("gfx942"):
        open(sys.argv[2], "wb").write(code)
END
    printf 'kernel with %s' "$("$llvm/llvm-objdump" -d code | sed -n 's/.*v_mov_b32_e32 v[0-9]*, \([1-9][0-9]\) .*/\1/p')"
}
show() { # NAME COMMAND…
    header 11
    "${@:2}" >&2
    printf '%s: %s' "$1" "$(kernel)"
    header 22
    touch only-gfx942.h
    "${@:2}" >"$work/message"
    printf '; other header: %s%s\n' "$(kernel)" "$(sed 's/.*/ (&)/' "$work/message")"
}
cat >build.ninja <<END
rule hip
  command = ${command[*]}
  depfile = k.d
  deps = gcc
build k.o: hip k.hip
END
header 0
{
    echo "clang -MD: $(dependencies)"
    echo "clang -MD --offload-new-driver: $(dependencies --offload-new-driver)"
    echo "clang -MD -fgpu-rdc: $(dependencies -fgpu-rdc)"
    echo "clang -MD --offload-device-only: $(dependencies --offload-device-only)"
    rm -f k.o
    show ninja "$work/venv/bin/ninja"
    CCACHE_DIR=$work/ccache show ccache "$work/root/usr/bin/ccache" "${command[@]}"
    CCACHE_DEPEND=1 CCACHE_DIR=$work/ccache-2 show "ccache, depend mode" "$work/root/usr/bin/ccache" "${command[@]}"
} >"$work/out"
compare "$work/out"
