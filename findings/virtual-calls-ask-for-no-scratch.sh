#!/usr/bin/env bash
# clang 22.1.8 (Debian 12).
# Expected: a code object states how much scratch memory a kernel needs. For a kernel that calls a virtual function it is what the functions of
# the same source need, all of which the compiler knows.
# Seen: in code objects of version 5, the default since LLVM 18, and of version 6, it is 0 for such a kernel, though the one function that can be
# meant has 4000 bytes of local variables; the metadata say "dynamic stack", and how much that is, is left to a setting of the program. In
# version 4 it is 16 KiB, whatever is called: more than it needs, for each lane. A recursive function counts once. So a kernel that
# worked in code objects of ROCm 5 can run out of its stack in those of ROCm 6, by nothing but the version.
. "$(dirname "$0")/common.sh"
recorded <<'END'
version 4, by_name: 4016 bytes
version 4, by_pointer: 16384 bytes
version 4, recursive: 20416 bytes
version 5, by_name: 4016 bytes
version 5, by_pointer: 0 bytes, dynamic stack
version 5, recursive: 4032 bytes, dynamic stack
version 6, by_name: 4016 bytes
version 6, by_pointer: 0 bytes, dynamic stack
version 6, recursive: 4032 bytes, dynamic stack
END
hip_compiler
cat >"$work/kernels.hip" <<'END'
struct table {
    __attribute__((device)) virtual int look(int *p);
};
__attribute__((device)) int table::look(int *p) {
    int values[1000], sum = 0;
    for (int i = 0; i < 1000; ++i) values[i] = p[i];
    for (int i = 0; i < 1000; ++i) sum += values[p[i]];
    return sum;
}
__attribute__((device)) table instance;
__attribute__((device, noinline)) int named(int *p) { return table().table::look(p); }
__attribute__((device, noinline)) int again(int *p, int depth) {
    int values[1000];
    for (int i = 0; i < 1000; ++i) values[i] = p[i];
    return depth ? again(values, depth - 1) + values[p[depth]] : 1;
}
extern "C" __attribute__((global)) void by_name(int *p) { *p = named(p); }
extern "C" __attribute__((global)) void recursive(int *p) { *p = again(p, *p); }
extern "C" __attribute__((global)) void by_pointer(table *one, int *p) { *p = one->look(p); }
END
show() { # VERSION
    hip_source -fno-rtti --offload-arch=gfx942 -O3 -mcode-object-version="$1" \
        --offload-device-only --no-gpu-bundle-output -c "$work/kernels.hip" -o "$work/code"
    kernel_metadata "$work/code" private_segment_fixed_size uses_dynamic_stack | while read -r name size dynamic; do
        echo "version $1, $name: $size bytes$([ "$dynamic" != true ] || echo ', dynamic stack')"
    done
}
{
    for version in 4 5 6; do show $version; done
} >"$work/out"
compare "$work/out"
