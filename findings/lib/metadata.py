"""Prints a line for each kernel of the code object whose notes llvm-readelf prints on standard input: its name, and the fields that are named."""

import re
import sys

kernels = []
for start, field, value in re.findall(r"^(  - |    )\.(\w+): *(\S*)$", sys.stdin.read(), re.MULTILINE):
    if start == "  - ":
        kernels.append({})
    kernels[-1][field] = value
for kernel in sorted(kernels, key=lambda kernel: kernel["name"]):
    print(kernel["name"], *[kernel.get(field, "-") for field in sys.argv[1:]])
