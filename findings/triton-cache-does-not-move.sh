#!/usr/bin/env bash
# triton 3.9.0 (PyPI), for gfx942 without a GPU.
# Expected: Triton's cache is a directory of files by key, so it works where it lies: copied into an image, to another home directory or on another mount.
# Seen: each entry has a list of its files by absolute path. Moved, nothing of a cache is found, and all kernels are compiled again, without a
# word. Copied, the kernels come from the original as long as it is there: what replaces a file there is taken, and the copy is not looked at.
# So a cache that a build fills for an image has to be filled at the path where the image has it. With a relative path
# (TRITON_CACHE_DIR=cache) the lists are relative, and it works where it lies.
. "$(dirname "$0")/common.sh"
recorded <<'END'
first run: compiled to cache, code object
second run: taken from cache, code object
copied: taken from cache, code object
copied, the original has changed: taken from cache, other content
the original is gone: compiled to copy, code object
relative path, first run: compiled to cache, code object
relative path, moved: taken from cache, code object
END
venv "$work/venv" triton==3.9.0
cat >"$work/kernels.py" <<'END'
import triton
import triton.language as tl


@triton.jit
def kernel(place):
    tl.store(place, tl.load(place) * 2)
END
cat >"$work/compile.py" <<'END'
import os
import pathlib
import sys

import triton
from kernels import kernel
from triton.backends.amd.compiler import HIPBackend
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

make, calls = HIPBackend.make_hsaco, []


def make_hsaco(*arguments, **options):
    calls.append(arguments)
    return make(*arguments, **options)


HIPBackend.make_hsaco = staticmethod(make_hsaco)
source = ASTSource(fn=kernel, signature={"place": "*fp32"})
compiled = triton.compile(source, target=GPUTarget("hip", "gfx942", 64))
directory = pathlib.Path(compiled.metadata_group["kernel.hsaco"]).parents[1]
content = "code object" if compiled.asm["hsaco"].startswith(b"\x7fELF") else "other content"
print(f"{sys.argv[1]}: {'compiled to' if calls else 'taken from'} {os.path.relpath(directory)}, {content}")
END
show() { # NAME CACHE: compiles the kernel, with this cache
    PYTHONPATH=$work TRITON_CACHE_DIR=$2 TRITON_DEFAULT_FP_FUSION=1 "$work/venv/bin/python" "$work/compile.py" "$1"
}
cd "$work"
{
    show "first run" "$work/cache"
    show "second run" "$work/cache"
    cp -r cache copy
    show "copied" "$work/copy"
    for code in cache/*/kernel.hsaco; do echo -n "other" >"$code"; done
    show "copied, the original has changed" "$work/copy"
    mv cache elsewhere
    show "the original is gone" "$work/copy"
    mkdir one two
    cd one
    show "relative path, first run" cache
    mv cache ../two
    cd ../two
    show "relative path, moved" cache
} >"$work/out"
compare "$work/out"
