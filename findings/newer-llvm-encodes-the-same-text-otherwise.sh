#!/usr/bin/env bash
# llvm-objdump and llvm-mc of LLVM 22.1.8 (Debian 12), and code objects in the library of vapoursynth-bm3dhip 2.17.5 (PyPI), which AMD's
# clang compiled.
# Expected: a disassembled kernel that is assembled again has the bytes from before. Where two code objects have one disassembly, their
# instructions are the same.
# Seen: six of a hundred instructions get other bytes, and that is the only difference. An instruction of the long form (VOP3) with two
# operands has room for a third, which is not used: AMD's clang writes the constant 0 there (0x80), and LLVM 22 the number 0, which is
# register s0. No disassembly shows it. So code by another release of LLVM differs in each larger kernel where a comparison of texts finds
# nothing. A tool that changes a kernel by way of its text changes instructions that it did not touch.
. "$(dirname "$0")/common.sh"
recorded <<'END'
gfx1030: 89669 instructions, 5159 with other bytes, 5159 by the third operand
gfx1100: 93607 instructions, 5164 with other bytes, 5164 by the third operand
gfx1201: 64741 instructions, 4796 with other bytes, 4796 by the third operand
END
hip_compiler
amd_runtime
cat >"$work/again.py" <<'END'
import re
import subprocess
import sys

import comgr

objdump, assembler, library, path = sys.argv[1:]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


for bundle in comgr.bundles(open(library, "rb").read()):
    for name, code in bundle:
        gpu = name.partition("--")[2]
        if name.startswith("host-") or gpu not in ("gfx1030", "gfx1100", "gfx1201"):
            continue
        open(path, "wb").write(code)
        lines = re.findall(r"^\t(.+?)\s*// [0-9A-F]{12}: ([0-9A-F ]+)", run(objdump, "-d", path), re.MULTILINE)
        open(path, "w").write("".join(f"{text}\n" for text, _ in lines))
        listing = run(assembler, "-triple", "amdgcn-amd-amdhsa", f"-mcpu={gpu}", "-show-encoding", path)
        found = []
        for encoding in re.findall(r"encoding: \[(.*?)\]", listing):
            code = bytes(int(byte, 16) for byte in encoding.split(","))
            found.append([int.from_bytes(code[at : at + 4], "little") for at in range(0, len(code), 4)])
        assert len(found) == len(lines)
        changed = third = 0
        for (_, text), again in zip(lines, found):
            before = [int(word, 16) for word in text.split()]
            changed += before != again
            # Bits 18 to 26 of the second word are the third operand.
            third += before != again and before == [again[0], again[1] | 0x80 << 18, *again[2:]]
        print(f"{gpu}: {len(lines)} instructions, {changed} with other bytes, {third} by the third operand")
END
python3 "$work/again.py" "$llvm/llvm-objdump" "$llvm/llvm-mc" "$fat" "$work/code" >"$work/out"
compare "$work/out"
