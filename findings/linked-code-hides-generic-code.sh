#!/usr/bin/env bash
# clang 22.1.8 (Debian 12).
# Expected: a library of one object for gfx11-generic and one for gfx1100 has the kernels of both for gfx1100. So it is without -fgpu-rdc: each
# object has a fat binary of its own, and a runtime takes the generic code object where there is no exact one.
# Seen: when device code is linked, there is one fat binary for all, with a code object for each target. A runtime takes the exact entry for
# gfx1100, which lacks the kernels of generic objects, and does not look further. Objects for gfx90a and for a mode of it do not link at
# all: the two code objects may not be in one fat binary, or, where there are objects for both modes, both get into one link of the device.
. "$(dirname "$0")/common.sh"
recorded <<'END'
one for gfx11-generic, two for gfx1100: exit code 0; gfx11-generic with one | gfx1100 with two
one for gfx11-generic, two for gfx1100 (-fgpu-rdc): exit code 0; gfx1100 with two, gfx11-generic with one
one for gfx90a, two for gfx90a:xnack+ (-fgpu-rdc): exit code 1; conflicting targets
one for gfx90a, two for gfx90a:xnack+ gfx90a:xnack- (-fgpu-rdc): exit code 1; duplicate symbol: two
END
hip_compiler
compile() { # KERNEL TARGETS OPTION…
    local targets
    read -ra targets <<<"$2"
    hip_compile "$1.o" "$1" "${targets[@]/#/--offload-arch=}" "${@:3}"
}
show() { # TARGETS TARGETS [OPTION…]: compiles kernel `one` for the first, and `two` for the second, and links them
    local code=0 found
    compile one "$1" "${@:3}"
    compile two "$2" "${@:3}"
    rm -f "$work/libx.so"
    hip --hip-link "${@:3}" -shared "$work/one.o" "$work/two.o" -o "$work/libx.so" 2>"$work/messages" || code=$?
    if [ -e "$work/libx.so" ]; then
        found=$(hip_code "$work/libx.so")
    else
        found=$(grep -o -m1 -E 'duplicate symbol: two|conflicting targets' "$work/messages")
    fi
    echo "one for $1, two for $2${3:+ ($3)}: exit code $code; $found"
}
linked=(-fgpu-rdc --offload-new-driver)
{
    show gfx11-generic gfx1100
    show gfx11-generic gfx1100 "${linked[@]}"
    show gfx90a gfx90a:xnack+ "${linked[@]}"
    show gfx90a "gfx90a:xnack+ gfx90a:xnack-" "${linked[@]}"
} >"$work/out"
compare "$work/out"
