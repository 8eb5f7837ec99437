#!/usr/bin/env bash
# slangc 2026.14.1 in slangtorch 1.3.22, warp-lang 1.19.0, mlx 0.32.4 with mlx-cpu, tinygrad 0.14.0 (PyPI), on a CPU: derivatives that these make of a
# remainder of floats, 7 % 3.3 = 0.4, by its divisor.
# Expected: -2, as 7 % x is 7 - 2 * x around 3.3, or an error: what has no derivative is refused, as by Slang for floor.
# Seen: it is 0 for fmod of Slang, for % of Warp and for the second result of divmod of MLX, without a word. tinygrad and the remainder of MLX have it, as
# Taichi 1.7.4 and JAX 0.10.2 had.
# So a period, a wavelength or the size of a cell that is fitted by gradients stays where it was, and the loss goes down by the others. The fraction of
# Warp (frac), which its manual lists as not differentiable, is 0 as well, and x % 1, the same number, has 1.
. "$(dirname "$0")/common.sh"
recorded <<'END'
Slang, fmod: 0.4, by the divisor 0
Warp, %: 0.4, by the divisor 0
MLX, divmod: 0.4, by the divisor 0
MLX, remainder: 0.4, by the divisor -2
tinygrad, %: 0.4, by the divisor -2
Warp, frac(2.4): 0.4, by its argument 0; 2.4 % 1: 0.4, by its argument 1
END
command -v g++ >/dev/null || unavailable "no g++"
wheel "$work/slang" --platform manylinux_2_27_x86_64 slangtorch==1.3.22
chmod +x "$work/slang/slangtorch/bin/slangc"
venv "$work/venv" warp-lang==1.19.0 mlx==0.32.4 mlx-cpu==0.32.4 tinygrad==0.14.0 numpy==2.4.6
cat >"$work/remainder.slang" <<'END'
RWStructuredBuffer<float> values;
[Differentiable] float remainder(float x) { return fmod(7.0, x); }
[shader("compute")] [numthreads(1, 1, 1)]
void kernel() {
    values[1] = remainder(values[0]);
    values[2] = fwd_diff(remainder)(diffPair(values[0], 1.0)).d;
}
END
"$work/slang/slangtorch/bin/slangc" "$work/remainder.slang" -entry kernel -stage compute -line-directive-mode none -target cpp -o "$work/run.cpp"
cat >>"$work/run.cpp" <<'END'
#include <stdio.h>
int main() {
    float values[3] = {3.3f, 0, 0};
    GlobalParams_0 parameters{};
    parameters.values_0.data = values; parameters.values_0.count = 3;
    ComputeVaryingInput threads{}; threads.endGroupID.x = threads.endGroupID.y = threads.endGroupID.z = 1;
    kernel(&threads, nullptr, &parameters);
    printf("Slang, fmod: %.3g, by the divisor %g\n", values[1], values[2]);
}
END
g++ -w -std=c++17 "$work/run.cpp" -o "$work/run"
cat >"$work/others.py" <<'END'
import mlx.core as mx
import tinygrad
import warp as wp

wp.config.quiet = True
mx.set_default_device(mx.cpu)


@wp.kernel
def remainder(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[0] = 7.0 % x[0]


@wp.kernel
def fraction(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[0] = wp.frac(x[0])


@wp.kernel
def modulo_one(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[0] = x[0] % 1.0


def by_warp(kernel, number):
    x, y = (wp.array([value], dtype=float, device="cpu", requires_grad=True) for value in (number, 0.0))
    with wp.Tape() as tape:
        wp.launch(kernel, 1, inputs=[x], outputs=[y], device="cpu")
    tape.backward(grads={y: wp.array([1.0], dtype=float, device="cpu")})
    return y.numpy()[0], x.grad.numpy()[0]


def show(name, value, derivative, of="the divisor", end="\n"):
    print(f"{name}: {float(value):.3g}, by {of} {float(derivative):g}", end=end)


show("Warp, %", *by_warp(remainder, 3.3))
x = mx.array(3.3)
show("MLX, divmod", *mx.value_and_grad(lambda x: mx.divmod(mx.array(7.0), x)[1])(x))
show("MLX, remainder", *mx.value_and_grad(lambda x: mx.remainder(mx.array(7.0), x))(x))
x = tinygrad.Tensor([3.3])
x.requires_grad = True
y = 7.0 % x
y.sum().backward()
show("tinygrad, %", y.item(), x.grad.item())
show("Warp, frac(2.4)", *by_warp(fraction, 2.4), "its argument", "; ")
show("2.4 % 1", *by_warp(modulo_one, 2.4), "its argument")
END
"$work/run" >"$work/out"
DEV=PYTHON "$work/venv/bin/python" -W ignore "$work/others.py" >"$work/others"
grep -a ', by ' "$work/others" >>"$work/out"
compare "$work/out"
