#!/usr/bin/env bash
# amd-aiter 0.1.7.post2.dev18 (PyPI): 2501 code objects that were written in assembler.
# Expected: the metadata of a code object states its target (amdhsa.target, since version 4 of code objects), and the version of the metadata
# fits the one in the ELF header. A target and the name of a kernel identify a kernel.
# Seen: nearly all have metadata of version 1.0, which is that of code objects of version 3 and knows no target, in ELF files of versions 4 to 6.
# So only e_flags of the header says which GPU they are for. Some names of kernels are in several files for one target: variants by type, and
# those for two models of gfx942, which have directories of their own (MI300, MI308). No target tells these apart.
. "$(dirname "$0")/common.sh"
recorded <<'END'
gfx942: e_flags gfx942, version 4, metadata 1.0, no target: 2
gfx942: e_flags gfx942, version 4, metadata 1.1, no target: 9
gfx942: e_flags gfx942, version 5, metadata 1.0, no target: 1184
gfx942: e_flags gfx942, version 5, metadata 1.2, amdgcn-amd-amdhsa--gfx942: 1
gfx942: e_flags gfx942, version 6, metadata 1.0, no target: 85
gfx950: e_flags gfx950, version 5, metadata 1.0, no target: 5
gfx950: e_flags gfx950, version 6, metadata 1.0, no target: 1215
2476 names of kernels, 21 of them in several files for one target, 16 for two models
END
venv "$work/venv" msgpack==1.1.2
wheel "$work/aiter" amd-aiter==0.1.7.post2.dev18
"$work/venv/bin/python" - "$work/aiter/aiter_meta/hsa" >"$work/out" <<'END'
import struct
import sys
from collections import Counter, defaultdict
from pathlib import Path

import msgpack

# Of llvm/BinaryFormat/ELF.h: EF_AMDGPU_MACH_AMDGCN_GFX942 and …_GFX950, and NT_AMDGPU_METADATA.
GPUS, METADATA, NOTES = {0x4C: "gfx942", 0x4F: "gfx950"}, 32, 7


def metadata(code):
    start, count = struct.unpack_from("<Q", code, 40)[0], struct.unpack_from("<H", code, 60)[0]
    for index in range(count):
        _, kind, _, _, place, size = struct.unpack_from("<IIQQQQ", code, start + 64 * index)
        if kind == NOTES:
            name, length, kind = struct.unpack_from("<III", code, place)
            if kind == METADATA:
                place += 12 + (name + 3) // 4 * 4
                return msgpack.unpackb(code[place : place + length])


kinds, files = Counter(), defaultdict(list)
root = Path(sys.argv[1])
for path in sorted(root.rglob("*.co")):
    code, folder = path.read_bytes(), path.relative_to(root).parts[0]
    found = metadata(code)
    gpu = GPUS[struct.unpack_from("<I", code, 48)[0] & 0xFF]
    # ELFABIVERSION_AMDGPU_HSA_V4 is 2.
    version = f"version {code[8] + 2}, metadata {'.'.join(map(str, found['amdhsa.version']))}"
    kinds[f"{folder}: e_flags {gpu}, {version}, {found.get('amdhsa.target', 'no target')}"] += 1
    for kernel in found["amdhsa.kernels"]:
        files[gpu, kernel[".name"]].append(path.relative_to(root / folder).parent)
for kind, count in sorted(kinds.items()):
    print(f"{kind}: {count}")
several = [folders for folders in files.values() if len(folders) > 1]
models = [folders for folders in several if any(folder.name == "MI300" for folder in folders)]
print(f"{len(files)} names of kernels, {len(several)} of them in several files for one target, {len(models)} for two models")
END
compare "$work/out"
