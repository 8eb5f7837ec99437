#!/usr/bin/env bash
# slangc 2026.14.1 in slangtorch 1.3.22 (PyPI): derivatives that Slang makes of functions (fwd_diff), as the text for C++, which runs here.
# Expected: the derivative of the mathematics: 3 x^2 for pow(x, 3), y / x of a length by each coordinate, also for small numbers.
# Seen: the derivative of pow is 0 wherever its base is below 1e-6, so also for each negative one: of pow(-3, 2), whose value is 9, and of
# pow(1e-7, 0.5), where 1581 is right and sqrt has it. That of sqrt has a floor of 1e-7, which is in length, distance and normalize by the
# square: of a vector shorter than 0.0003 the derivative of the length is too small, and that of its direction, (3536, -3536) at 0.0001, is
# not across it. A scene in metres is optimized otherwise than one in millimetres. The texts for CUDA, GLSL, HLSL and Metal have the same
# numbers, and bwd_diff gives the same.
. "$(dirname "$0")/common.sh"
recorded <<'END'
pow(x, 0.5): at 0.01: 5, at 1e-05: 158, at 1e-07: 0, at -3: 0
sqrt(x): at 0.01: 5, at 1e-05: 158, at 1e-07: 1.58e+03, at 1e-09: 1.58e+03
pow(x, 2): at 3: 6, at -3: 0, value at -3: 9
length of (x, x), by x: at 1: 0.707, at 0.001: 0.707, at 0.0001: 0.316, at 1e-05: 0.0316
direction of (x, x), by the first x: at 0.001: (354, -354), at 0.0001: (5.49e+03, -1.58e+03)
the floor in the text for cuda: yes; glsl: yes; hlsl: yes; metal: yes
END
command -v g++ >/dev/null || unavailable "no g++"
wheel "$work/slang" --platform manylinux_2_27_x86_64 slangtorch==1.3.22
chmod +x "$work/slang/slangtorch/bin/slangc"
cat >"$work/derivatives.slang" <<'END'
RWStructuredBuffer<float> values;
[Differentiable] float root(float x) { return pow(x, 0.5); }
[Differentiable] float square(float x) { return pow(x, 2.0); }
[Differentiable] float plain_root(float x) { return sqrt(x); }
[Differentiable] float size(float x, float y) { return length(float2(x, y)); }
[Differentiable] float2 direction(float x, float y) { return normalize(float2(x, y)); }
[shader("compute")] [numthreads(1, 1, 1)]
void kernel() {
    float x = values[0];
    values[1] = fwd_diff(root)(diffPair(x, 1.0)).d;
    values[2] = fwd_diff(plain_root)(diffPair(x, 1.0)).d;
    values[3] = fwd_diff(square)(diffPair(x, 1.0)).d;
    values[4] = square(x);
    values[5] = fwd_diff(size)(diffPair(x, 1.0), diffPair(x, 0.0)).d;
    float2 turned = fwd_diff(direction)(diffPair(x, 1.0), diffPair(x, 0.0)).d;
    values[6] = turned.x;
    values[7] = turned.y;
}
END
for target in cpp cuda glsl hlsl metal; do
    "$work/slang/slangtorch/bin/slangc" "$work/derivatives.slang" -entry kernel -stage compute -line-directive-mode none \
        -target $target -o "$work/derivatives.$target"
done
{
    cat "$work/derivatives.cpp"
    cat <<'END'
#include <stdio.h>
float values[8];
static float at(float x, int place) {
    values[0] = x;
    GlobalParams_0 parameters{};
    parameters.values_0.data = values; parameters.values_0.count = 8;
    ComputeVaryingInput threads{}; threads.endGroupID.x = threads.endGroupID.y = threads.endGroupID.z = 1;
    kernel(&threads, nullptr, &parameters);
    return values[place];
}
static void print(const char *name, int place, const float (&numbers)[4]) {
    printf("%s:", name);
    for (float x : numbers) printf("%s at %g: %.3g", x == numbers[0] ? "" : ",", x, at(x, place));
    puts("");
}
int main() {
    print("pow(x, 0.5)", 1, {0.01, 1e-5, 1e-7, -3});
    print("sqrt(x)", 2, {0.01, 1e-5, 1e-7, 1e-9});
    printf("pow(x, 2): at 3: %g, at -3: %g, value at -3: %g\n", at(3, 3), at(-3, 3), at(-3, 4));
    print("length of (x, x), by x", 5, {1, 0.001, 1e-4, 1e-5});
    printf("direction of (x, x), by the first x: at 0.001: (%.3g, %.3g)", at(1e-3, 6), at(1e-3, 7));
    printf(", at 0.0001: (%.3g, %.3g)\n", at(1e-4, 6), at(1e-4, 7));
}
END
} >"$work/run.cpp"
g++ -w -std=c++17 "$work/run.cpp" -o "$work/run"
floor() { grep -q 'max(.*1\.00000001168609742e-07f\?' "$work/derivatives.$1" && echo yes || echo no; }
{
    "$work/run"
    echo "the floor in the text for cuda: $(floor cuda); glsl: $(floor glsl); hlsl: $(floor hlsl); metal: $(floor metal)"
} >"$work/out"
compare "$work/out"
