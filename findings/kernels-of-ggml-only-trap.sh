#!/usr/bin/env bash
# libggml-hip (llama.cpp) of cyllama-rocm 0.7.0 (PyPI), and llvm-objdump 22.1.8 (Debian 12), which disassembles.
# Expected: a kernel that is in the code object for a GPU works on that GPU. What does not work there is left out, or is empty.
# Seen: a third of the kernels do nothing but call a function that ends in a trap, no_device_code, so a launch of one ends the program. By names and
# metadata they are kernels as the others, and the list of kernels is the same for each GPU.
. "$(dirname "$0")/common.sh"
recorded <<'END'
gfx942: 7184 kernels, 2032 have a call and no end; functions with a trap: no_device_code
gfx1100: 7184 kernels, 2362 have a call and no end; functions with a trap: no_device_code
the same names for each: yes
END
debs llvm-22=1:22.1.8-1~deb12u1 libllvm22=1:22.1.8-1~deb12u1
wheel "$work/wheel" --python-version 3.12 --platform manylinux_2_31_x86_64 cyllama-rocm==0.7.0
cat >"$work/count.py" <<'END'
import collections
import pathlib
import re
import subprocess
import sys

import comgr

disassembler, library, *targets = sys.argv[1:]
codes = [code for bundle in comgr.bundles(pathlib.Path(library).read_bytes()) for code in bundle]
named = collections.defaultdict(list)
for target in targets:
    count, traps, others = 0, 0, set()
    for name, code in codes:
        if not name.endswith(f"--{target}"):
            continue
        kernels = set(re.findall(rb"\0(\w+)\.kd(?=\0)", code))
        named[target] += kernels
        pathlib.Path("code.co").write_bytes(code)
        text = subprocess.run([disassembler, "-d", "--no-show-raw-insn", "--no-leading-addr", "code.co"], capture_output=True, check=True).stdout
        for part in text.split(b"\n\n"):
            symbol, _, body = part.strip().partition(b":\n")
            instructions = re.findall(rb"^\t([a-z]\w+)", body, re.MULTILINE)
            if symbol.strip(b"<>") in kernels:
                count += 1
                traps += b"s_swappc_b64" in instructions and b"s_endpgm" not in instructions
            elif b"s_trap" in instructions:
                others.add(re.sub(rb"^_ZL?\d+(\w*?)P.*", rb"\1", symbol.strip(b"<>")).decode())
    print(f"{target}: {count} kernels, {traps} have a call and no end; functions with a trap: {', '.join(sorted(others))}")
print(f"the same names for each: {'yes' if len({tuple(sorted(names)) for names in named.values()}) == 1 else 'no'}")
END
(cd "$work" && python3 count.py "$work/root/usr/lib/llvm-22/bin/llvm-objdump" "$(find "$work/wheel" -name 'libggml-hip*')" gfx942 gfx1100) >"$work/out"
compare "$work/out"
