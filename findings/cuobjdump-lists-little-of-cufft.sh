#!/usr/bin/env bash
# nvidia-cufft 12.4.0.43 and cuobjdump 13.4.92 (PyPI).
# Expected: cuobjdump lists the device code of a library of NVIDIA: it lies in .nv_fatbin, which is constant, and most of it is cubins.
# Seen: nine cubins of 0.6 MB are listed, and no PTX. The library has 213 MB of device code, in 17,860 fat binaries: all but two of them in writable data
# (.data, .ldata), where cuobjdump does not look, with exit code 0. Half of it is PTX, and a quarter the intermediate representation for linking (LTO), both
# for a GPU of 2018. So what goes by these sections, or asks cuobjdump for the GPUs and for PTX, knows next to nothing of the library.
. "$(dirname "$0")/common.sh"
recorded <<'END'
cuobjdump -lelf: exit code 0, for sm_75 sm_80 sm_86 sm_87 sm_89 sm_90 sm_100 sm_110 sm_120
cuobjdump -lptx: exit code 0, for nothing
in __nv_relfatbin: 1 fat binaries, 0.1 MB
in .nv_fatbin: 1 fat binaries, 0.1 MB
in .data: 17846 fat binaries, 212.2 MB
in .ldata: 12 fat binaries, 0.9 MB
LTO: 57.6 MB, for 75
PTX: 123.0 MB, for 75 80 86 90
cubins: 32.4 MB, for 75 80 86 87 89 90 100 110 120
END
venv "$work/venv" nvidia-cuda-cuobjdump==13.4.92
wheel "$work/cufft" --python-version 3.12 --platform manylinux2014_x86_64 nvidia-cufft==12.4.0.43
library=$work/cufft/nvidia/cu13/lib/libcufft.so.12
cat >"$work/count.py" <<'END'
import collections
import re
import struct
import sys

content = open(sys.argv[1], "rb").read()
place, (size, count, names) = struct.unpack_from("<Q", content, 40)[0], struct.unpack_from("<HHH", content, 58)
headers = [struct.unpack_from("<IIQQQQ", content, place + size * index) for index in range(count)]
sections = {content[headers[names][4] + header[0] :].split(b"\0")[0].decode(): range(header[4], header[4] + header[5]) for header in headers if header[1] != 8}
bytes_of, gpus_of, found, end = collections.Counter(), collections.defaultdict(set), collections.defaultdict(list), 0
for match in re.finditer(re.escape(struct.pack("<IHH", 0xBA55ED50, 1, 16)), content):
    if match.start() < end:
        continue
    entry, end = match.end() + 8, match.end() + 8 + struct.unpack_from("<Q", content, match.end())[0]
    section = next(name for name, places in sections.items() if match.start() in places)
    found[section].append(end - match.start())
    while entry < end:
        kind, _, header, size = struct.unpack_from("<HHIQ", content, entry)
        kind = {1: "PTX", 2: "cubins", 8: "LTO"}[kind]
        bytes_of[kind] += header + size
        gpus_of[kind].add(struct.unpack_from("<I", content, entry + 28)[0])
        entry += header + size
for section, sizes in found.items():
    print(f"in {section}: {len(sizes)} fat binaries, {sum(sizes) / 1e6:.1f} MB")
for kind, total in sorted(bytes_of.items()):
    print(f"{kind}: {total / 1e6:.1f} MB, for {' '.join(map(str, sorted(gpus_of[kind])))}")
END
{
    for kind in elf ptx; do
        "$work/venv"/lib/python3*/site-packages/nvidia/cu13/bin/cuobjdump -l$kind "$library" >"$work/listed" 2>/dev/null
        echo "cuobjdump -l$kind: exit code $?, for $(grep -o 'sm_[0-9]*' "$work/listed" | sort -uV | paste -sd' ' | grep . || echo nothing)"
    done
    python3 "$work/count.py" "$library"
} >"$work/out"
compare "$work/out"
