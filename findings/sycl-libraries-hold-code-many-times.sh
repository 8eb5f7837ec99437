#!/usr/bin/env bash
# onemkl-sycl-rng 2026.2.0 (PyPI), Intel's random numbers for SYCL, with zstandard 0.25.0 (PyPI).
# Expected: a library for any GPU of Intel holds each kernel once, as SPIR-V, in as many modules as it has sources at most.
# Seen: each kernel is a module of its own, compressed on its own if it is large enough, and what several sources instantiate is there once for
# each: 5204 modules, of which 1963 differ. One is there 468 times. The copies are a third of the device code. All modules lie in one section, without a
# bundle; the table of them (.tgtimg) states the size before compression.
. "$(dirname "$0")/common.sh"
recorded <<'END'
5204 modules, 3690 compressed, with 1 to 1 kernels each
1963 differ, one is there 468 times
stored: 16.0 MB, without copies 11.2 MB
before compression: 38.6 MB, without copies 27.0 MB
END
venv "$work/venv" zstandard==0.25.0
wheel "$work/wheel" --python-version 3.12 --platform manylinux_2_28_x86_64 onemkl-sycl-rng==2026.2.0
cat >"$work/count.py" <<'END'
import collections
import struct
import sys

import zstandard

content = open(sys.argv[1], "rb").read()
place, (size, count, names) = struct.unpack_from("<Q", content, 40)[0], struct.unpack_from("<HHH", content, 58)
headers = [struct.unpack_from("<IIQQQQIIQQ", content, place + size * index) for index in range(count)]
sections = {content[headers[names][4] + header[0] :].split(b"\0")[0].decode(): header for header in headers}
table, table_place, table_size = sections[".tgtimg"][3:6]
code, code_place, code_size = sections["__CLANG_OFFLOAD_BUNDLE__sycl-spir64"][3:6]
relocations, relocations_size = sections[".rela.dyn"][4:6]
targets = {}
for offset, _, target in struct.iter_unpack("<QQq", content[relocations : relocations + relocations_size]):
    if table <= offset < table + table_size:
        targets[target] = struct.unpack_from("<Q", content, table_place + offset - table + 8)[0]
starts = sorted(targets) + [code + code_size]
modules, compressed, kernels = [], 0, collections.Counter()
for start, end in zip(starts, starts[1:]):
    stored = module = content[start - code + code_place : end - code + code_place]
    if stored.startswith(b"\x28\xb5\x2f\xfd"):
        module = zstandard.ZstdDecompressor().decompress(stored)
        compressed += 1
    module = module[: targets[start]]
    assert len(module) == targets[start] and module.startswith(b"\x03\x02\x23\x07")
    modules.append((module, len(stored)))
    place = 20
    while place < len(module):
        word = struct.unpack_from("<I", module, place)[0]
        kernels[len(modules)] += word & 0xFFFF == 15
        place += 4 * (word >> 16)
copies = collections.Counter(module for module, _ in modules)
first = {module: stored for module, stored in modules}
print(f"{len(modules)} modules, {compressed} compressed, with {min(kernels.values())} to {max(kernels.values())} kernels each")
print(f"{len(copies)} differ, one is there {max(copies.values())} times")
for name, sizes in ("stored", first), ("before compression", {module: len(module) for module in copies}):
    print(f"{name}: {sum(sizes[module] * copies[module] for module in copies) / 1e6:.1f} MB, without copies {sum(sizes.values()) / 1e6:.1f} MB")
END
"$work/venv/bin/python" "$work/count.py" "$(find "$work/wheel" -name 'libmkl_sycl_rng.so*')" >"$work/out"
compare "$work/out"
