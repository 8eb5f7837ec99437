#!/usr/bin/env bash
# ncnn 1.0.20261020 (PyPI) on a CPU (x86-64 with F16C), by default options: layers with equal weights on their diagonal, and one as input.
# Expected: a model of floats computes in floats on x86-64; halves are for ARM, or on request.
# Seen: the weights of fully connected layers (InnerProduct) become float16, and those of other layers stay floats. What float16 has no number for is
# infinity if the layer has 6 outputs, and 65504 if it has 8; small weights become 0 or are truncated in place of rounded, without a word. The layer
# as a convolution or a product of matrices (Gemm) gives the floats. With use_fp16_storage off it does so too.
. "$(dirname "$0")/common.sh"
recorded <<'END'
InnerProduct, 6 outputs: inf 0.333252 2048 1.00136e-05 0
InnerProduct, 8 outputs: 65504 0.333252 2048 9.95398e-06 0
InnerProduct, 8 outputs, use_fp16_storage off: 70000 0.333333 2049 1e-05 1e-09
Convolution, 8 outputs: 70000 0.333333 2049 1e-05 1e-09
Gemm, 8 outputs: 70000 0.333333 2049 1e-05 1e-09
END
venv "$work/venv" ncnn==1.0.20261020 numpy==2.4.6
cat >"$work/layers.py" <<'END'
import ncnn
import numpy

values = [70000, 1 / 3, 2049, 1e-5, 1e-9]


def run(count, layer, shape, **options):
    """What a layer gives whose weights are a matrix with the values on its diagonal."""
    with open("model.param", "w") as file:
        file.write(f"7767517\n2 2\nInput input 0 1 x\n{layer.format(count=count, size=count * count)}\n")
    weights = numpy.diag(numpy.resize(numpy.float32(values), count))
    with open("model.bin", "wb") as file:
        file.write(bytes(4) + weights.tobytes())
    net = ncnn.Net()
    for name, value in options.items():
        setattr(net.opt, name, value)
    net.load_param("model.param")
    net.load_model("model.bin")
    extractor = net.create_extractor()
    source = ncnn.Mat(numpy.ones(shape, numpy.float32))
    extractor.input("x", source)
    return " ".join(f"{value:g}" for value in numpy.array(extractor.extract("y")[1]).reshape(count, -1)[: len(values), 0])


connected = "InnerProduct layer 1 1 x y 0={count} 1=0 2={size}"
print("InnerProduct, 6 outputs:", run(6, connected, (6,)))
print("InnerProduct, 8 outputs:", run(8, connected, (8,)))
print("InnerProduct, 8 outputs, use_fp16_storage off:", run(8, connected, (8,), use_fp16_storage=False))
print("Convolution, 8 outputs:", run(8, "Convolution layer 1 1 x y 0={count} 1=1 6={size}", (8, 1, 1)))
print("Gemm, 8 outputs:", run(8, "Gemm layer 1 1 x y 0=1 1=1 2=0 3=1 5=1 6=1 7=0 8={count} 9={count} 10=-1", (1, 8)).strip())
END
(cd "$work" && venv/bin/python layers.py) >"$work/out"
compare "$work/out"
