#!/usr/bin/env bash
# clang and lld 22.1.8, GNU ld and gold of binutils 2.40 (Debian 12), with the new offload driver, which LLVM 23 has as default.
# Expected: --gc-sections, which many build systems set, keeps all kernels of linked device code (-fgpu-rdc): the code that registers them
# with the runtime refers to them.
# Seen: it refers to the start and the end of their section only, and lld drops sections which are referred to like that alone. Kernels whose entry
# is an exported symbol stay. So a program does not link, nor does a library with a version script that exports functions by name. If the
# script has a pattern that some names of kernels fit, the library links with exit code 0: it has the device code of all kernels, and
# does not register the others. GNU ld and gold keep all, as does lld with -z nostart-stop-gc. The old driver has no such section.
. "$(dirname "$0")/common.sh"
recorded <<'END'
lld, library: gfx942 with one and two; registers one two
lld, library --gc-sections: gfx942 with one and two; registers one two
lld, library { global: *one*; local: *; }: gfx942 with one and two; registers one two
lld, library { global: *one*; local: *; } --gc-sections: gfx942 with one and two; registers one
lld, library { global: *one*; local: *; } --gc-sections -z nostart-stop-gc: gfx942 with one and two; registers one two
lld, library { global: api; local: *; } --gc-sections: undefined hidden symbol: __stop_llvm_offload_entries
lld, program --gc-sections: undefined hidden symbol: __stop_llvm_offload_entries
ld.bfd, library { global: *one*; local: *; } --gc-sections: gfx942 with one and two; registers one two
ld.bfd, program --gc-sections: gfx942 with one and two; registers one two
ld.gold, library { global: *one*; local: *; } --gc-sections: gfx942 with one and two; registers one two
ld.gold, program --gc-sections: gfx942 with one and two; registers one two
END
hip_compiler binutils-x86-64-linux-gnu=2.40-2 libbinutils=2.40-2
for kernel in one two; do hip_compile $kernel.o $kernel --offload-arch=gfx942 -fgpu-rdc --offload-new-driver; done
cat >"$work/main.c" <<'END'
void __device_stub__one(int *), __device_stub__two(int *);
void api(void) { __device_stub__one(0); __device_stub__two(0); }
void _start(void) { api(); }
END
"$llvm/clang" -fPIC -c "$work/main.c" -o "$work/main.o"
# A stand-in for the runtime, so that the program has all that it needs.
for name in atexit hipLaunchKernel __hip{Register,Unregister}FatBinary __hipPopCallConfiguration __hipRegister{Function,Var,ManagedVar,Surface,Texture}; do
    echo "void $name(void) {}"
done >"$work/runtime.c"
"$llvm/clang" -fPIC -shared -nostdlib -fuse-ld=lld -fno-builtin -w "$work/runtime.c" -o "$work/runtime.so"
show() { # LINKER library|program VERSION-SCRIPT OPTION…
    local path=$work/root/usr/bin/x86_64-linux-gnu-$1 options=() result
    [ "$1" != lld ] || path=$llvm/ld.lld
    if [ "$2" = library ]; then options=(-shared); else options=("$work/runtime.so"); fi
    if [ -n "$3" ]; then
        echo "$3" >"$work/script"
        options+=("-Wl,--version-script=$work/script")
    fi
    rm -f "$work/x"
    if hip --hip-link -fgpu-rdc --offload-new-driver --ld-path="$path" "$work"/{one,two,main}.o "${options[@]}" "${@:4}" -o "$work/x" 2>"$work/message"; then
        result="$(hip_code "$work/x"); registers $("$llvm/llvm-nm" "$work/x" | sed -n 's/.* \.offloading\.entry\.//p' | sort | paste -sd ' ')"
    else
        result=$(grep -om1 'undefined hidden symbol: .*' "$work/message")
    fi
    echo "$1, $2${3:+ $3}${4:+ ${*:4}}: $result" | sed 's/-Wl,-z,/-z /g; s/-Wl,//g'
}
one='{ global: *one*; local: *; };'
{
    show lld library ''
    show lld library '' -Wl,--gc-sections
    show lld library "$one"
    show lld library "$one" -Wl,--gc-sections
    show lld library "$one" -Wl,--gc-sections -Wl,-z,nostart-stop-gc
    show lld library '{ global: api; local: *; };' -Wl,--gc-sections
    show lld program '' -Wl,--gc-sections
    for linker in ld.bfd ld.gold; do
        show $linker library "$one" -Wl,--gc-sections
        show $linker program '' -Wl,--gc-sections
    done
} | sed 's/};/}/' >"$work/out"
compare "$work/out"
