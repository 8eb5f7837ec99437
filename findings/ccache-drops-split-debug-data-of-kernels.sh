#!/usr/bin/env bash
# clang 22.1.8, ccache 4.7.5 and llvm-dwp 22.1.8 (Debian 12).
# Expected: -gsplit-dwarf is for the host, or a file of debug data (.dwo) that a compilation writes is known to the tools that handle such files.
# Seen: clang writes one for each GPU (k_gfx942.dwo), next to that of the host, and the code object in the library names it. ccache gives back
# the object with the file of the host alone, so a debugger of kernels has lines but neither variables nor types of them. llvm-dwp, which
# collects the files of a library before the directory of the build goes, collects that of the host alone, with exit code 0. A name that
# a target's mode is in has a colon (k_gfx90a:xnack+.dwo).
. "$(dirname "$0")/common.sh"
recorded <<'END'
clang: k.dwo k_gfx90a:xnack+.dwo k_gfx942.dwo
ccache, first: k.dwo k_gfx90a:xnack+.dwo k_gfx942.dwo
ccache, again: k.dwo
libx.so refers to k.dwo
gfx942.co refers to k_gfx942.dwo
gfx90a:xnack+.co refers to k_gfx90a:xnack+.dwo
llvm-dwp: exit code 0, debug data of k.dwo
END
hip_compiler ccache=4.8+really4.7.5-1 libhiredis0.14=0.14.1-3
mkdir "$work/source"
cd "$work/source"
{
    cat "$PYTHONPATH/kernel.hip"
    echo 'struct pair { int first, second; }; int on_the_host(pair *p) { return p->first + p->second; }'
} >k.hip
compile() { # LAUNCHER…: compiles, and prints which files it has made
    rm -f -- *.dwo k.o
    TMPDIR=$work "$@" "$llvm/clang" -nogpulib -no-hip-rt -fPIC -Wno-unused-command-line-argument -x hip -nogpuinc -fno-exceptions -DKERNEL=one \
        --offload-arch=gfx942 --offload-arch=gfx90a:xnack+ -O2 -g -gsplit-dwarf -c k.hip -o k.o
    echo "$(echo *.dwo)"
}
units() { # PATH: the sources whose debug data the file has
    "$llvm/llvm-dwarfdump" --debug-info "$1" 2>"$work/message" | sed -n 's/.*DW_AT_dwo_name.*("\(.*\)")/\1/p' | sort -u | paste -sd ' '
}
{
    echo "clang: $(compile)"
    export CCACHE_DIR=$work/ccache
    echo "ccache, first: $(compile "$work/root/usr/bin/ccache")"
    echo "ccache, again: $(compile "$work/root/usr/bin/ccache")"
    compile >"$work/message"
    hip -shared k.o -o libx.so
    python3 - libx.so <<'END'
import sys

import comgr

for name, code in next(comgr.bundles(open(sys.argv[1], "rb").read())):
    if code:
        open(name.rpartition("--")[2] + ".co", "wb").write(code)
END
    for file in libx.so gfx942.co gfx90a:xnack+.co; do echo "$file refers to $(units $file)"; done
    code=0
    "$llvm/llvm-dwp" -e libx.so -o libx.dwp 2>"$work/message" || code=$?
    echo "llvm-dwp: exit code $code, debug data of $(units libx.dwp)"
} >"$work/out"
compare "$work/out"
