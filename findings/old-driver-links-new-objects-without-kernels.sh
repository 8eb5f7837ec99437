#!/usr/bin/env bash
# clang 22.1.8 (Debian 12).
# Expected: objects of one compiler and version link, or the link says that they were compiled with another option.
# Seen: objects for linked device code (-fgpu-rdc) have two forms, by --offload-new-driver. With that option at compile time only, the link
# ends with exit code 0, and the library lacks the kernels: the old driver, the default, passes by the section of the new form. The other
# way round, the host's link fails at a hidden symbol. LLVM 23 has the new driver as default.
. "$(dirname "$0")/common.sh"
recorded <<'END'
the old driver links old.o: exit code 0; gfx942 with kernel_of_old
the old driver links new.o: exit code 0; no fat binary
the old driver links old.o new.o: exit code 0; gfx942 with kernel_of_old
the new driver links new.o: exit code 0; gfx942 with kernel_of_new
the new driver links new.o old.o: exit code 1; undefined hidden symbol: __hip_gpubin_handle
END
hip_compiler
declare -A option=([old]=--no-offload-new-driver [new]=--offload-new-driver)
for driver in old new; do hip_compile $driver.o kernel_of_$driver --offload-arch=gfx942 -fgpu-rdc "${option[$driver]}"; done
show() { # DRIVER OBJECT…
    local code=0 found=
    rm -f "$work/libx.so"
    (cd "$work" && hip --hip-link -fgpu-rdc --offload-arch=gfx942 "${option[$1]}" -shared "${@:2}" -o libx.so 2>messages) || code=$?
    if [ -e "$work/libx.so" ]; then
        found=$(hip_code "$work/libx.so")
    else
        found=$(grep -o -m1 'undefined hidden symbol: __hip_gpubin_handle' "$work/messages")
    fi
    echo "the $1 driver links ${*:2}: exit code $code; $found"
}
{
    show old old.o
    show old new.o
    show old old.o new.o
    show new new.o
    show new new.o old.o
} >"$work/out"
compare "$work/out"
