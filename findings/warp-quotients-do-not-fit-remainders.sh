#!/usr/bin/env bash
# warp-lang 1.19.0 and numpy 2.4.6 (PyPI): a kernel of Warp on a CPU.
# Expected: quotients and remainders go together, by the rule of Python, whose syntax kernels have, or of C: (x // n) * n + x % n is x.
# Seen: // goes down, as in Python, and % has the sign of the dividend, as in C. (x // 3) * 3 + x % 3 is -10 for -7, for integers and floats. A cell of a
# grid that is split by // and % lies elsewhere left of the origin. 1 << 40 is 0 without a word, also for int64, since a literal has 32 bits,
# and a literal above 2^31 has more: 1099511627776 is right. The sign of 0 is 1.
. "$(dirname "$0")/common.sh"
recorded <<'END'
x: -7 -6 0 7
x // 3: -3 -2 0 2
x % 3: -1 0 0 1
(x // 3) * 3 + x % 3: -10 -6 0 7
the same of floats: -10 -6 0 7
sign of floats: -1 -1 1 1
1 << 40: 0, 1099511627776: 1099511627776
END
venv "$work/venv" warp-lang==1.19.0 numpy==2.4.6
cat >"$work/kernel.py" <<'END'
import warp as wp

wp.config.quiet = True


@wp.kernel
def split(x: wp.array(dtype=wp.int32), n: wp.int32, f: wp.array(dtype=wp.float32), m: wp.float32, out: wp.array2d(dtype=wp.float64)):
    i = wp.tid()
    out[0, i] = wp.float64(x[i] // n)
    out[1, i] = wp.float64(x[i] % n)
    out[2, i] = wp.float64((x[i] // n) * n + x[i] % n)
    out[3, i] = wp.float64((f[i] // m) * m + f[i] % m)
    out[4, i] = wp.float64(wp.sign(f[i]))


@wp.kernel
def literals(out: wp.array(dtype=wp.int64)):
    out[0] = wp.int64(1 << 40)
    out[1] = wp.int64(1099511627776)


numbers = [-7, -6, 0, 7]
with wp.ScopedDevice("cpu"):
    out = wp.zeros((5, 4), dtype=wp.float64)
    wp.launch(split, 4, [wp.array(numbers, dtype=wp.int32), 3, wp.array(numbers, dtype=wp.float32), 3.0, out])
    print("x:", *numbers)
    for name, row in zip(("x // 3", "x % 3", "(x // 3) * 3 + x % 3", "the same of floats", "sign of floats"), out.numpy()):
        print(f"{name}:", *(f"{value:g}" for value in row))
    out = wp.zeros(2, dtype=wp.int64)
    wp.launch(literals, 1, [out])
    print(f"1 << 40: {out.numpy()[0]}, 1099511627776: {out.numpy()[1]}")
END
"$work/venv/bin/python" -W ignore "$work/kernel.py" 2>/dev/null | grep -E '^[x(ts1]' >"$work/out"
compare "$work/out"
