"""Writes the SPIR-V of a bundle, or the code for gfx942 that COMGR makes of it: python3 -m spirv (take BUNDLE | compile MODULE COMGR) OUTPUT"""

import pathlib
import sys

import comgr

action, source, *library, output = sys.argv[1:]
content = pathlib.Path(source).read_bytes()
if action == "take":
    result = next(code for name, code in next(comgr.bundles(content)) if not name.startswith("host-"))
else:
    result = comgr.Comgr(*library).compile_spirv("gfx942", content)
pathlib.Path(output).write_bytes(result)
