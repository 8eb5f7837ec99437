#!/usr/bin/env bash
# clang and lld 22.1.8 (Debian 12).
# Expected: -fuse-cuid=none, which makes device code independent of the directory of the build, is free of risk where no device code is linked:
# the ID tells translation units of -fgpu-rdc apart, and other objects do not need it.
# Seen: each object defines the global symbol __hip_cuid_ and the ID, for the host also without -fgpu-rdc. Without an ID all have one name, so
# a library of two sources does not link; one of a single source does. With the ID that is meant to be fixed, -cuid=NAME, another for each
# source, it links, and its device code is the same in another directory, with and without -fgpu-rdc.
. "$(dirname "$0")/common.sh"
recorded <<'END'
-ffile-prefix-map=…: exit code 0, in another directory: other device code
-fgpu-rdc -ffile-prefix-map=…: exit code 0, in another directory: other device code
-ffile-prefix-map=… -fuse-cuid=none: exit code 1, duplicate symbol: __hip_cuid_
-fgpu-rdc -ffile-prefix-map=… -fuse-cuid=none: exit code 1, duplicate symbol: __hip_cuid_
-ffile-prefix-map=… -cuid=NAME: exit code 0, in another directory: the same device code
-fgpu-rdc -ffile-prefix-map=… -cuid=NAME: exit code 0, in another directory: the same device code
END
hip_compiler
build() { # DIRECTORY OPTION…: a library of two sources, whose device code goes to the file `device`, or what the linker says
    local source place=$work/$1
    rm -rf "$place"
    mkdir "$place"
    for source in one two; do
        cp "$PYTHONPATH/kernel.hip" "$place/$source.hip"
        (cd "$place" && hip -x hip -nogpuinc -fno-exceptions -DKERNEL=$source --offload-arch=gfx942 -ffile-prefix-map="$place"=. \
            "${@:2}" ${id:+"${id/NAME/$source}"} -c $source.hip -o $source.o)
    done
    (cd "$place" && hip --hip-link "${@:2}" --offload-arch=gfx942 -shared one.o two.o -o libx.so 2>message) || return
    python3 - "$place/libx.so" "$place/device" <<'END'
import sys

import comgr

bundles = comgr.bundles(open(sys.argv[1], "rb").read())
codes = [code for bundle in bundles for name, code in bundle if not name.startswith("host-")]
open(sys.argv[2], "wb").write(b"".join(codes))
END
}
show() { # OPTION…
    local code=0 what="in another directory: other device code"
    build first "$@" || code=$?
    if [ $code = 0 ]; then
        build second "$@"
        ! cmp -s "$work/first/device" "$work/second/device" || what="in another directory: the same device code"
    else
        what=$(grep -om1 'duplicate symbol: [a-z_]*' "$work/first/message")
    fi
    echo "${*:+$* }-ffile-prefix-map=…${id:+ $id}: exit code $code, $what"
}
{
    for id in "" -fuse-cuid=none -cuid=NAME; do
        show
        show -fgpu-rdc
    done
} >"$work/out"
compare "$work/out"
