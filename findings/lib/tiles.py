"""A product of two tiles of 64 by 64 numbers (tl.dot), compiled by Triton for a GPU of AMD, without one."""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def product(x, y, z, precision: tl.constexpr):
    place = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    # None as an argument is not the default, but "ieee".
    if precision is None:
        tl.store(z + place, tl.dot(tl.load(x + place), tl.load(y + place)))
    else:
        tl.store(z + place, tl.dot(tl.load(x + place), tl.load(y + place), input_precision=precision))


def assembly(gpu, form, precision=None):
    """The text for numbers of a form, with a precision that is named or the default one."""
    signature = {"x": f"*{form}", "y": f"*{form}", "z": "*fp32", "precision": "constexpr"}
    source = ASTSource(fn=product, signature=signature, constexprs={"precision": precision})
    return triton.compile(source, target=GPUTarget("hip", gpu, 64 if gpu.startswith("gfx9") else 32)).asm["amdgcn"]
