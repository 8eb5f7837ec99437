#!/usr/bin/env bash
# triton 3.9.0 (PyPI), for gfx942 without a GPU.
# Expected: the code object of a kernel depends on the kernel. A comment above it, or the directory of its source, changes neither it nor the key of
# Triton's cache.
# Seen: code objects have debug data by default, with the directory and the line of the source. So kernels that are compiled in advance and
# shipped name a directory of the build, and are other bytes in each. The key has the line and not the directory: a comment above a kernel
# compiles it again on each machine, and a cache that two checkouts share gives one the code that names the other.
# TRITON_DISABLE_LINE_INFO=1 leaves the directory out, and the key has the line still.
. "$(dirname "$0")/common.sh"
recorded <<'END'
first directory: code that names the directory first; code: the first, key: the first
second directory: code that names the directory second; code: another, key: the first
second directory, cache of the first: code that names the directory first; code: the first, key: the first
third directory, with a comment: code that names the directory third; code: another, key: another
without lines: first directory: code that names the directory of none; code: the first, key: the first
without lines: second directory: code that names the directory of none; code: the first, key: the first
without lines: third directory, with a comment: code that names the directory of none; code: the first, key: another
END
venv "$work/venv" triton==3.9.0
mkdir "$work/first" "$work/second" "$work/third"
cat >"$work/first/kernel.py" <<'END'
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def copy(x, y):
    tl.store(y, tl.load(x))


source = ASTSource(fn=copy, signature={"x": "*i32", "y": "*i32"})
kernel = triton.compile(source, target=GPUTarget("hip", "gfx942", 64))
code = kernel.asm["hsaco"]
named = [name for name in ("first", "second", "third") if f"/{name}\0".encode() in code]
open(sys.argv[1], "wb").write(code)
open(sys.argv[2], "w").write(kernel.hash)
print("code that names the directory", *named or ["of none"])
END
cp "$work/first/kernel.py" "$work/second"
{
    echo '# A comment.'
    cat "$work/first/kernel.py"
} >"$work/third/kernel.py"
show() { # TITLE DIRECTORY CACHE [VARIABLE=VALUE]: compiles, and compares code and key with the first
    echo "$1: $(env "${@:4}" TRITON_CACHE_DIR="$work/$3" "$work/venv/bin/python" -W ignore "$work/$2/kernel.py" "$work/code" "$work/key")$(
        [ -e "$work/first.code" ] || cp "$work/code" "$work/first.code"
        [ -e "$work/first.key" ] || cp "$work/key" "$work/first.key"
        if cmp -s "$work/code" "$work/first.code"; then code=the\ first; else code=another; fi
        if cmp -s "$work/key" "$work/first.key"; then key=the\ first; else key=another; fi
        echo "; code: $code, key: $key"
    )"
}
{
    show "first directory" first one
    show "second directory" second two
    show "second directory, cache of the first" second one
    show "third directory, with a comment" third three
    rm "$work"/first.{code,key}
    show "without lines: first directory" first four TRITON_DISABLE_LINE_INFO=1
    show "without lines: second directory" second five TRITON_DISABLE_LINE_INFO=1
    show "without lines: third directory, with a comment" third six TRITON_DISABLE_LINE_INFO=1
} >"$work/out"
compare "$work/out"
