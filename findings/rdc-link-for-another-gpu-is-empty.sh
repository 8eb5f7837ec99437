#!/usr/bin/env bash
# clang 22.1.8 (Debian 12).
# Expected: the link of device code (-fgpu-rdc --hip-link) takes the targets from the objects, or fails for a GPU that no object was compiled for.
# Seen: clang's default driver makes a code object for each --offload-arch of the link command, of as many objects as have that target, and
# of none as well, with exit code 0 and no word. Without the option it links for gfx906. So the library names GPUs for which it has a valid
# code object without a kernel, and targets of the objects that the link does not name are lost. --offload-new-driver, which LLVM 23 has
# as default, takes the targets from the objects.
. "$(dirname "$0")/common.sh"
recorded <<'END'
--no-offload-new-driver --offload-arch=gfx942 --offload-arch=gfx1100: exit code 0; gfx1100 with two, gfx942 with one and two
--no-offload-new-driver --offload-arch=gfx942: exit code 0; gfx942 with one and two
--no-offload-new-driver --offload-arch=gfx90a: exit code 0; gfx90a with no kernel
--no-offload-new-driver without a target: exit code 0; gfx906 with no kernel
--offload-new-driver --offload-arch=gfx942 --offload-arch=gfx1100: exit code 0; gfx942 with one and two, gfx1100 with two
--offload-new-driver --offload-arch=gfx942: exit code 0; gfx942 with one and two, gfx1100 with two
--offload-new-driver --offload-arch=gfx90a: exit code 0; gfx942 with one and two, gfx1100 with two
--offload-new-driver without a target: exit code 0; gfx942 with one and two, gfx1100 with two
END
hip_compiler
for driver in no-offload-new-driver offload-new-driver; do
    hip_compile one.o one --offload-arch=gfx942 -fgpu-rdc --$driver
    hip_compile two.o two --offload-arch=gfx942 --offload-arch=gfx1100 -fgpu-rdc --$driver
    for targets in "--offload-arch=gfx942 --offload-arch=gfx1100" "--offload-arch=gfx942" "--offload-arch=gfx90a" ""; do
        code=0
        # shellcheck disable=SC2086 # several options
        hip --hip-link -fgpu-rdc --$driver $targets -shared "$work/one.o" "$work/two.o" -o "$work/libx.so" || code=$?
        echo "--$driver ${targets:-without a target}: exit code $code; $(hip_code "$work/libx.so")"
    done
done >"$work/out"
compare "$work/out"
