#!/usr/bin/env bash
# librocblas0 5.5.1 (Debian 13).
# Expected: each GPU that rocBLAS supports has a file TensileLibrary_<GPU>.co and a row in the catalogue. A GPU without them is not supported,
# or its files were lost.
# Seen: librocblas has code for gfx1010, and the catalogue has no row for it and no .co. The last row of the catalogue asks for no
# processor; its kernels, without a processor in their names, are in Kernels.so-000-gfx1010.hsaco. So GEMM works there, by general
# kernels only, and nothing distinguishes this from a lost file but the catalogue.
. "$(dirname "$0")/common.sh"
recorded <<'END'
librocblas.so: gfx1010 gfx1030 gfx1100 gfx1101 gfx1102 gfx803 gfx900 gfx906 gfx908 gfx90a
TensileLibrary_*.co: gfx1030 gfx1100 gfx1101 gfx1102 gfx803 gfx900 gfx906 gfx908 gfx90a
rows of TensileLibrary.dat: gfx90a gfx1030 gfx1100 gfx1101 gfx1102 gfx803 gfx900 gfx906 gfx908 gfx90a any
kernels by the processor in their names: gfx1030 4629, gfx1010 0, any 2321
kernels for any processor in Kernels.so-000-gfx1010.hsaco: 2321 of 2321
END
venv "$work/venv" msgpack==1.1.2
keep_packed=yes debs --suite trixie librocblas0=5.5.1+dfsg-7
cat >"$work/read.py" <<'END'
import re
import sys
import tarfile
from collections import Counter

import msgpack

WANTED = {"TensileLibrary.dat": -1, "Kernels.so-000-gfx1010.hsaco": -1, "librocblas.so.0.1": 64 << 20}
files, code_objects = {}, []
with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as package:
    for member in package:
        name = member.name.rpartition("/")[2]
        match = re.fullmatch(r"TensileLibrary_(gfx\w+)\.co", name)
        if match:
            code_objects.append(match.group(1))
        elif name in WANTED:
            # The first bundle of the library, in its first 64 MiB, names all targets.
            files[name] = package.extractfile(member).read(WANTED[name])
targets = set(re.findall(rb"amdgcn-amd-amdhsa--(gfx[0-9a-f]+)", files["librocblas.so.0.1"]))
print("librocblas.so:", *sorted(target.decode() for target in targets))
print("TensileLibrary_*.co:", *sorted(code_objects))
catalogue = msgpack.unpackb(files["TensileLibrary.dat"])
processors = re.compile(r"'Processor', 'value': '(gfx\w+)'")
rows = [processors.search(str(row["predicate"])) for row in catalogue["library"]["rows"]]
print("rows of TensileLibrary.dat:", *[row.group(1) if row else "any" for row in rows])
names = [solution["name"] for solution in catalogue["solutions"]]
kinds = Counter((re.search(r"_ISA([0-9a-f]+)_", name) or ["", "?"])[1] for name in names)
print(f"kernels by the processor in their names: gfx1030 {kinds['1030']}, gfx1010 {kinds['1010']}, any {kinds['000']}")
symbols = set(re.findall(rb"\0(Cijk_\w+)\.kd(?=\0)", files["Kernels.so-000-gfx1010.hsaco"]))
general = [name for name in names if "_ISA000_" in name]
found = sum(name.encode() in symbols for name in general)
print(f"kernels for any processor in Kernels.so-000-gfx1010.hsaco: {found} of {len(general)}")
END
dpkg-deb --fsys-tarfile "$work"/debs/librocblas0_*.deb | "$work/venv/bin/python" "$work/read.py" >"$work/out"
compare "$work/out"
