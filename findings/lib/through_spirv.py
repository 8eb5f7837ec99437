"""Writes the code that COMGR makes for a GPU by way of SPIR-V: python3 -m through_spirv COMGR GPU llvm|amd SOURCE OUTPUT OPTION…

SOURCE is a bundle with SPIR-V by LLVM, or a HIP source, of which AMD's translator, which COMGR has, makes SPIR-V by these options.
"""

import pathlib
import sys

import comgr

library, gpu, compiler, source, output, *options = sys.argv[1:]
library, content = comgr.Comgr(library), pathlib.Path(source).read_bytes()
if compiler == "amd":
    content = library.spirv(content, options)
elif content.startswith(comgr.MAGIC):
    content = next(code for name, code in next(comgr.bundles(content)) if not name.startswith("host-"))
pathlib.Path(output).write_bytes(library.compile_spirv(gpu, content))
