#!/usr/bin/env bash
# iree-base-compiler and iree-base-runtime 3.13.0 (PyPI). The function takes floats, adds them up in doubles, and gives a float, as programs
# do that know how sums of floats lose digits: 2^24, 4094 times 1, and -2^24.
# Expected: the sum is 4094. An MLIR compiler computes in the types that the program names; a device that lacks one is an error.
# Seen: by default IREE makes floats of all doubles, for the CPU and for GPUs that have doubles. Where a double is an argument or a result,
# a warning says so, and callers have to pass floats; inside of a function there is no word, and the sum is 0. Integers of 64 bits stay. By
# --iree-input-demote-f64-to-f32=false the doubles stay, and this sum compiles for the CPU and gfx942, and not for CUDA.
. "$(dirname "$0")/common.sh"
recorded <<'END'
by default, CPU: compiles, 0 warnings; the sum is 0
by default, gfx942: compiles, 0 warnings; v_add_f32
by default, CUDA: compiles, 0 warnings; add.rn.f32
by default, thirds of doubles: compiles, 1 warning; f32
by default, products of integers of 64 bits: compiles, 0 warnings; i64
with doubles, CPU: compiles, 0 warnings; the sum is 4094
with doubles, gfx942: compiles, 0 warnings; v_add_f64
with doubles, CUDA: fails, failed to distribute
with doubles, thirds of doubles: compiles, 0 warnings; f64
with doubles, products of integers of 64 bits: compiles, 0 warnings; i64
END
venv "$work/venv" iree-base-compiler==3.13.0 iree-base-runtime==3.13.0
cat >"$work/sum.mlir" <<'END'
func.func @f(%values: tensor<4096xf32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f64
  %empty = tensor.empty() : tensor<f64>
  %start = linalg.fill ins(%zero : f64) outs(%empty : tensor<f64>) -> tensor<f64>
  %sum = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
      ins(%values : tensor<4096xf32>) outs(%start : tensor<f64>) {
  ^bb0(%value: f32, %partial: f64):
    %wide = arith.extf %value : f32 to f64
    %next = arith.addf %partial, %wide : f64
    linalg.yield %next : f64
  } -> tensor<f64>
  %narrow = arith.truncf %sum : tensor<f64> to tensor<f32>
  return %narrow : tensor<f32>
}
END
cat >"$work/double.mlir" <<'END'
func.func @f(%values: tensor<4xf64>) -> tensor<4xf64> {
  %three = arith.constant dense<3.0> : tensor<4xf64>
  %third = arith.divf %values, %three : tensor<4xf64>
  return %third : tensor<4xf64>
}
END
cat >"$work/integer.mlir" <<'END'
func.func @f(%values: tensor<4xi64>) -> tensor<4xi64> {
  %large = arith.constant dense<3000000000> : tensor<4xi64>
  %product = arith.muli %values, %large : tensor<4xi64>
  return %product : tensor<4xi64>
}
END
python3 -c 'import struct, sys; sys.stdout.buffer.write(struct.pack("<4096f", 2**24, *[1] * 4094, -2**24))' >"$work/values"
bin=$work/venv/bin
cpu=(--iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu --iree-llvmcpu-target-cpu=generic)
show() { # NAME SOURCE WORDS OPTION…: compiles, and looks for instructions or types in what IREE makes on the way
    rm -rf "$work/steps" "$work/module"
    if ! "$bin/iree-compile" "${mode[@]}" "$work/$2" -o "$work/module" --iree-hal-dump-executable-files-to="$work/steps" "${@:4}" 2>"$work/messages"; then
        echo "$title, $1: fails, $(grep -om1 'failed to distribute' "$work/messages")"
        return
    fi
    local warnings
    warnings=$(grep -c WARNING "$work/messages" || true)
    echo "$title, $1: compiles, $warnings warning$([ "$warnings" = 1 ] || echo s); $(
        if [ -n "$3" ]; then
            cat "$work"/steps/*.{rocmasm,ptx,ll} 2>/dev/null | grep -Eo "$3" | sort -u | paste -sd ' '
        else
            echo "the sum is $("$bin/iree-run-module" --device=local-sync --module="$work/module" --function=f --input="4096xf32=@$work/values" |
                sed -n 's/^f32=//p')"
        fi
    )"
}
show_all() { # TITLE OPTION…
    title=$1 mode=("${@:2}")
    show CPU sum.mlir "" "${cpu[@]}"
    show gfx942 sum.mlir "v_add_f(32|64)" --iree-hal-target-device=hip --iree-rocm-target=gfx942
    show CUDA sum.mlir "add\.rn\.f(32|64)" --iree-hal-target-device=cuda
    for file in double integer; do
        # The public function has the types that a caller has to pass.
        "$bin/iree-compile" "${mode[@]}" "${cpu[@]}" --compile-to=input "$work/$file.mlir" -o "$work/input" 2>"$work/messages"
        warnings=$(grep -c WARNING "$work/messages" || true)
        name="thirds of doubles"
        [ "$file" = double ] || name="products of integers of 64 bits"
        echo "$title, $name: compiles, $warnings warning$([ "$warnings" = 1 ] || echo s); $(grep -Eo '4x[fi](32|64)' "$work/input" | sed 's/4x//' | sort -u | paste -sd ' ')"
    done
}
{
    show_all "by default"
    show_all "with doubles" --iree-input-demote-f64-to-f32=false
} >"$work/out"
compare "$work/out"
