#!/usr/bin/env bash
# clang 22.1.8 (Debian 12).
# Expected: types have the size that they have on the host in kernels as well, so that structs can be passed: clang takes long, wchar_t, bit fields and
# alignment from the host. long double, which a GPU does not have, is an error there, or bytes that a kernel can pass on.
# Seen: in kernels long double is a double: 8 bytes, where x86-64 has 16. A struct with one is half as large, and the members behind it lie elsewhere, so
# a kernel reads padding for a number, and half of an 80-bit number for a double, without a warning, also by -Weverything. __float128 and
# __int128 are as on the host. -Xarch_host -mlong-double-64 makes the two agree.
. "$(dirname "$0")/common.sh"
recorded <<'END'
long double: 32 bytes on the host, 16 in the kernel; last at 16 and 8; 0 warnings
long double -Xarch_host -mlong-double-64: 16 bytes on the host, 16 in the kernel; last at 8 and 8; 0 warnings
_Complex long double: 48 bytes on the host, 24 in the kernel; last at 32 and 16; 0 warnings
__float128: 32 bytes on the host, 32 in the kernel; last at 16 and 16; 0 warnings
__int128: 32 bytes on the host, 32 in the kernel; last at 16 and 16; 0 warnings
wchar_t: 8 bytes on the host, 8 in the kernel; last at 4 and 4; 0 warnings
END
hip_compiler
show() { # TYPE OPTION…: a struct with a member of this type, on both sides
    cat >"$work/kernel.hip" <<END
struct argument {
    $1 value;
    int last;
};
static_assert(sizeof(argument) > 0, "");
extern const unsigned long on_the_host[2];
const unsigned long on_the_host[2] = {sizeof(argument), __builtin_offsetof(argument, last)};
extern "C" __attribute__((global)) void kernel(argument value, unsigned long *place) {
    place[0] = __builtin_offsetof(argument, last);
    place[1] = static_cast<unsigned long>(value.last);
}
END
    hip_source --offload-arch=gfx942 -O2 -Weverything -Wno-c++98-compat -Wno-missing-prototypes -Wno-padded \
        -Wno-unsafe-buffer-usage -Wno-c99-extensions "${@:2}" -c "$work/kernel.hip" -o "$work/kernel.o" 2>"$work/message"
    first_code "$work/kernel.o"
    "$llvm/llvm-objcopy" --dump-section .rodata="$work/constants" "$work/kernel.o"
    echo "$*: $(od -An -tu8 -N8 "$work/constants" | tr -d ' ') bytes on the host, $(
        "$llvm/llvm-readelf" --notes "$work/code" | sed -n '0,/\.size: */s/.*\.size: *//p'
    ) in the kernel; last at $(od -An -tu8 -j8 -N8 "$work/constants" | tr -d ' ') and $(
        "$llvm/llvm-objdump" -d --no-show-raw-insn "$work/code" | sed -n 's/.*v_mov_b64_e32 v\[[0-9:]*\], \([0-9]*\).*/\1/p; s/.*v_mov_b32_e32 v[0-9]*, \([1-9][0-9]*\).*/\1/p' | head -1
    ); $(grep -c 'warning: ' "$work/message" || true) warnings"
}
{
    show "long double"
    show "long double" -Xarch_host -mlong-double-64
    show "_Complex long double"
    show __float128
    show __int128
    show wchar_t
} >"$work/out"
compare "$work/out"
