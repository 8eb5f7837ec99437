#!/usr/bin/env bash
# clang 22.1.8 (Debian 12).
# Expected: one source file gives the same device code in each directory, at any rate with -ffile-prefix-map, which build systems of distributions
# set so that the directory of a build does not matter.
# Seen: clang gives each translation unit of HIP an ID, a hash of the path of the source and of all options, and device code has a variable of
# that name, also without -fgpu-rdc. The option that hides the directory names it, so it makes the code objects differ, where a plain
# call with a relative path makes equal ones. The name of the output is in the hash, too. -fuse-cuid=none leaves the ID out.
. "$(dirname "$0")/common.sh"
recorded <<'END'
another directory: the same code object
another directory and name of the output: another code object
another directory, with -ffile-prefix-map=DIRECTORY=.: another code object
another directory, with -ffile-prefix-map=DIRECTORY=. -fuse-cuid=none: the same code object
another directory, by its whole path: another code object
END
hip_compiler
for directory in first second; do
    mkdir "$work/$directory"
    cp "$PYTHONPATH/kernel.hip" "$work/$directory"
done
build() { # DIRECTORY SOURCE OUTPUT OPTION…
    (cd "$work/$1" && hip -x hip -nogpuinc -fno-exceptions -DKERNEL=one --offload-arch=gfx942 --offload-device-only --no-gpu-bundle-output \
        "${@:4}" -c "$2" -o "$3")
}
show() { # NAME OUTPUT: compares the code objects of both directories
    if cmp -s "$work/first/k.co" "$work/second/$2"; then echo "$1: the same code object"; else echo "$1: another code object"; fi
}
{
    for directory in first second; do build $directory kernel.hip k.co; done
    show "another directory" k.co
    build second kernel.hip l.co
    show "another directory and name of the output" l.co
    for options in "" -fuse-cuid=none; do
        for directory in first second; do
            # shellcheck disable=SC2086 # none or one option
            build $directory kernel.hip k.co -ffile-prefix-map="$work/$directory"=. $options
        done
        show "another directory, with -ffile-prefix-map=DIRECTORY=.${options:+ $options}" k.co
    done
    for directory in first second; do build $directory "$work/$directory/kernel.hip" k.co; done
    show "another directory, by its whole path" k.co
} >"$work/out"
compare "$work/out"
