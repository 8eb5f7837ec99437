#!/usr/bin/env bash
# slangc 2026.14.1 in slangtorch 1.3.22 (PyPI): firstbithigh of Slang, for numbers without and with a sign. The text for C++ runs here; of
# the text for CUDA, the function is compiled for the CPU, with __clz of gcc.
# Expected: firstbithigh of a number without a sign is the place of its highest bit, 31 for 0x80000000, on each target. Of a negative
# number with a sign it is the place of the highest zero, as HLSL has it.
# Seen: for CUDA one function serves both, and takes the highest bit for a sign: it gives 30 for 0x80000000, 29 for 0xc0000000, and "none"
# for 0xffffffff. Half of all numbers are concerned: masks of lanes, hashes and codes of Morton order, by which shaders build trees. For
# C++, each of the two has a function of its own.
. "$(dirname "$0")/common.sh"
recorded <<'END'
C++: 0x00000001: 0, 0x7fffffff: 30, 0x80000000: 31, 0xc0000000: 31, 0xffffffff: 31; with a sign: 0, 30, 30, 29, -1
CUDA: 0x00000001: 0, 0x7fffffff: 30, 0x80000000: 30, 0xc0000000: 29, 0xffffffff: -1; with a sign: 0, 30, 30, 29, -1
END
command -v g++ >/dev/null || unavailable "no g++"
wheel "$work/slang" --platform manylinux_2_27_x86_64 slangtorch==1.3.22
chmod +x "$work/slang/slangtorch/bin/slangc"
cat >"$work/bits.slang" <<'END'
RWStructuredBuffer<uint> values;
[shader("compute")] [numthreads(1, 1, 1)]
void kernel() {
    values[1] = firstbithigh(values[0]);
    values[2] = firstbithigh(int(values[0]));
}
END
highest() { # TARGET PREFIX: runs the functions that the text for a target has and calls
    local target=$1 prefix=${2:-} functions
    "$work/slang/slangtorch/bin/slangc" "$work/bits.slang" -entry kernel -stage compute -line-directive-mode none \
        -target "$target" -o "$work/bits.$target"
    functions=($(grep values_0 "$work/bits.$target" | grep -oE '\b[UI]32_firstbithigh'))
    {
        printf '#include <stdint.h>\n#include <stdio.h>\n#define SLANG_FORCE_INLINE static inline\n#define SLANG_CUDA_CALL\n'
        printf '#define SLANG_GCC_FAMILY 1\n#define __clz __builtin_clz\n'
        for function in U32_firstbithigh I32_firstbithigh; do sed -n "/^SLANG_FORCE_INLINE $prefix.* $function(/,/^}/p" "$work/bits.$target"; done
        echo 'int main() {'
        echo '    const uint32_t numbers[] = {1, 0x7fffffff, 0x80000000, 0xc0000000, 0xffffffff};'
        echo '    for (uint32_t n : numbers) printf("%s0x%08x: %d", n == 1 ? "" : ", ", n, int('"${functions[0]}"'(n)));'
        echo '    printf("; with a sign:");'
        echo '    for (uint32_t n : numbers) printf("%s %d", n == 1 ? "" : ",", int('"${functions[1]}"'(int32_t(n))));'
        echo '    puts("");'
        echo '}'
    } >"$work/$target.cpp"
    g++ -w -std=c++17 "$work/$target.cpp" -o "$work/$target"
    "$work/$target"
}
{
    echo "C++: $(highest cpp)"
    echo "CUDA: $(highest cuda SLANG_CUDA_CALL)"
} >"$work/out"
compare "$work/out"
