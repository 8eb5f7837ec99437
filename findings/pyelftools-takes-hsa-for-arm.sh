#!/usr/bin/env bash
# pyelftools 0.33 and lief 1.0.0 (PyPI), on a code object by COMGR 3.3 in vapoursynth-bm3dhip 2.17.5 (PyPI).
# Expected: they know AMD's code objects, since both name the machine EM_AMDGPU: the OS ABI is AMDGPU_HSA, and flags name the GPU.
# Seen: OS ABI 64 means AMDGPU_HSA on this machine and ARM_AEABI on another. pyelftools says ARM_AEABI. lief names the OS ABI, but has no
# name for a flag: its list is empty for each GPU. So a script that filters by these names finds no code object.
. "$(dirname "$0")/common.sh"
recorded <<'END'
pyelftools: machine EM_AMDGPU, OS ABI ELFOSABI_ARM_AEABI
lief: machine AMDGPU, OS ABI AMDGPU_HSA
gfx942: flags 0x54c, lief names none
gfx1100: flags 0x41, lief names none
gfx11-generic: flags 0x1000054, lief names none
END
venv "$work/venv" pyelftools==0.33 lief==1.0.0
amd_runtime
"$work/venv/bin/python" - "$comgr" >"$work/out" <<'END'
import io
import sys

import comgr
import lief
from elftools.elf.elffile import ELFFile

library = comgr.Comgr(sys.argv[1])
codes = {target: library.compile(target) for target in ["gfx942", "gfx1100", "gfx11-generic"]}
file = ELFFile(io.BytesIO(codes["gfx942"]))
print(f"pyelftools: machine {file['e_machine']}, OS ABI {file['e_ident']['EI_OSABI']}")
header = lief.ELF.parse(codes["gfx942"]).header
print(f"lief: machine {header.machine_type.name}, OS ABI {header.identity_os_abi.name}")
for target, code in codes.items():
    header = lief.ELF.parse(code).header
    names = ", ".join(str(flag) for flag in header.flags_list) or "none"
    print(f"{target}: flags {header.processor_flag:#x}, lief names {names}")
END
compare "$work/out"
