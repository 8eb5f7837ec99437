#!/usr/bin/env bash
# slangc 2026.14.1 in slangtorch 1.3.22 (PyPI): one function of Slang for several targets. The text for C++ runs here; of the text for
# CUDA, the kernel and the functions that it calls are compiled for the CPU.
# Expected: rint rounds halves to even and round as in HLSL, whose functions these are: to even as well. Each target has an instruction for
# it.
# Seen: for CUDA and C++ rint(0.5) is 1, as round(0.5): it calls round and takes one away if the result is odd, and asks for that by r / 2
# * 2 == r, which is true of every float. So halves are never rounded to even. GLSL and Metal have their own functions for rint. round is
# away from zero for CUDA, C++ and Metal, to even for HLSL, and left to the driver for GLSL. So numbers that are quantized by a shader have
# other values on each device, and those of a training that runs by CUDA (slangtorch) are not those of the renderer.
. "$(dirname "$0")/common.sh"
recorded <<'END'
C++: round 1 2 3, rint 1 2 3
CUDA: round 1 2 3, rint 1 2 3
GLSL: round by round, rint by roundEven
Metal: round by round, rint by rint
HLSL: round by round, rint by round and r / 2.0f * 2.0f == r
END
command -v g++ >/dev/null || unavailable "no g++"
wheel "$work/slang" --platform manylinux_2_27_x86_64 slangtorch==1.3.22
chmod +x "$work/slang/slangtorch/bin/slangc"
cat >"$work/halves.slang" <<'END'
RWStructuredBuffer<float> values;
[shader("compute")] [numthreads(1, 1, 1)]
void kernel() {
    values[1] = round(values[0]);
    values[2] = rint(values[0]);
}
END
for target in cpp cuda glsl metal hlsl; do
    "$work/slang/slangtorch/bin/slangc" "$work/halves.slang" -entry kernel -stage compute -line-directive-mode none \
        -target $target -o "$work/halves.$target"
done
cat >"$work/run.cpp" <<'END'
#include <stdio.h>
int main() {
    float seen[2][3];
    for (int i = 0; i < 3; i++) {
        float values[3] = {i + 0.5f};
        run(values);
        seen[0][i] = values[1];
        seen[1][i] = values[2];
    }
    printf("round %g %g %g, rint %g %g %g\n", seen[0][0], seen[0][1], seen[0][2], seen[1][0], seen[1][1], seen[1][2]);
}
END
{
    cat "$work/halves.cpp"
    echo 'static void run(float *values) {'
    echo '    GlobalParams_0 parameters{};'
    echo '    parameters.values_0.data = values; parameters.values_0.count = 3;'
    echo '    ComputeVaryingInput threads{}; threads.endGroupID.x = threads.endGroupID.y = threads.endGroupID.z = 1;'
    echo '    kernel(&threads, nullptr, &parameters);'
    echo '}'
    cat "$work/run.cpp"
} >"$work/cpp.cpp"
{
    printf '#include <math.h>\n#define SLANG_FORCE_INLINE static inline\n#define SLANG_CUDA_CALL\n#define __global__\n'
    echo 'static struct { float *values_0; } parameters, *globalParams_0 = &parameters;'
    sed -n '/^SLANG_FORCE_INLINE SLANG_CUDA_CALL float F32_\(round\|abs\)(float/,/^}/p' "$work/halves.cuda"
    sed -n '/^extern "C" __global__ void kernel/,/^}/p' "$work/halves.cuda"
    echo 'static void run(float *values) { parameters.values_0 = values; kernel(); }'
    cat "$work/run.cpp"
} >"$work/cuda.cpp"
calls() { # TARGET: what it calls to round, and how it asks for odd numbers
    grep -oE '\b(roundEven|round|rint)\(|/ 2\.0f \* 2\.0f' "$work/halves.$1" | tr -d '(' | sed 's|/ 2.0f.*|r / 2.0f * 2.0f == r|' | uniq
}
{
    for target in cpp cuda; do
        g++ -w -std=c++17 "$work/$target.cpp" -o "$work/$target"
        echo "$(sed 's/cpp/C++/; s/cuda/CUDA/' <<<$target): $("$work/$target")"
    done
    echo "GLSL: round by $(calls glsl | paste -sd, | sed 's/,/, rint by /')"
    echo "Metal: round by $(calls metal | paste -sd, | sed 's/,/, rint by /')"
    echo "HLSL: round by $(calls hlsl | paste -sd, | sed 's/\(.*\),/\1, rint by \1 and /')"
} >"$work/out"
compare "$work/out"
