#!/usr/bin/env bash
# iree-base-compiler 3.13.0 (PyPI).
# Expected: iree-compile writes a FlatBuffer for one GPU, in which the device code is data that only IREE can find.
# Seen: the module is a zip file with one stored member for the host and one for each executable. A code object lies in its member as a
# plain ELF file, at an offset that is a multiple of 4 only. So tools that look for zip files take a module for a wheel or an archive, and
# code that wants ELF files aligned misses its code objects.
. "$(dirname "$0")/common.sh"
recorded <<'END'
module.fb: stored, no ELF file
add_dispatch_0_rocm_hsaco_fb.fb: stored, an ELF file at a multiple of 4, not of 8, machine 224, flags 0x54c
END
venv "$work/venv" iree-base-compiler==3.13.0
(cd "$work" && venv/bin/iree-compile --iree-hal-target-device=hip --iree-rocm-target=gfx942 "$PYTHONPATH/add.mlir" -o add.vmfb >&2)
python3 - "$work/add.vmfb" >"$work/out" <<'END'
import struct
import sys
import zipfile

with open(sys.argv[1], "rb") as file:
    module = file.read()
archive = zipfile.ZipFile(sys.argv[1])
for member in archive.infolist():
    content = archive.read(member)
    found = content.find(b"\x7fELF")
    what = "no ELF file"
    if found >= 0:
        place = module.find(content) + found
        multiple = place & -place
        machine, flags = struct.unpack_from("<H", content, found + 18)[0], struct.unpack_from("<I", content, found + 48)[0]
        what = f"an ELF file at a multiple of {multiple}, not of {2 * multiple}, machine {machine}, flags {flags:#x}"
    print(f"{member.filename}: {'stored' if member.compress_type == zipfile.ZIP_STORED else 'compressed'}, {what}")
END
compare "$work/out"
