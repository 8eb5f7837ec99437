"""Inflates raw deflate streams with every available inflater, and compares the results.

usage: splice_inflaters.py SCRATCH-DIRECTORY (STREAM EXPECTED)...
Prints the names of the inflaters that agreed. Fails with the first that does not.
"""

import shutil
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

try:
    import deflate
except ImportError:
    deflate = None


def inflated(stream, expected, scratch):
    """The names of the inflaters that agree. Fails with the first that does not."""
    crc, size, packed = zlib.crc32(expected), len(expected), len(stream)

    decoder = zlib.decompressobj(-15)
    assert decoder.decompress(stream) == expected, "zlib"
    assert decoder.eof and not decoder.unused_data, "zlib: the end"
    agreed = ["zlib " + zlib.ZLIB_RUNTIME_VERSION]

    # APPNOTE.TXT 4.3.7, 4.3.12, 4.3.16
    common = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0x5821, crc, packed, size, 1, 0)
    local = b"PK\3\4" + common + b"x"
    central = b"PK\1\2" + struct.pack("<H", 20) + common + struct.pack("<HHHII", 0, 0, 0, 0, 0) + b"x"
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local) + packed, 0)
    archive = scratch / "spliced.zip"
    archive.write_bytes(local + stream + central + end)
    with zipfile.ZipFile(archive) as opened:
        assert opened.read("x") == expected, "zipfile"
    agreed.append("zipfile")

    gzipped = scratch / "spliced.gz"
    gzipped.write_bytes(b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + stream + struct.pack("<II", crc, size & 0xFFFFFFFF))

    for name, *command in [
        ("unzip", "-p", archive, "x"),
        ("bsdtar", "-xOf", archive, "x"),
        ("7z", "e", "-so", archive),
        ("busybox", "unzip", "-p", archive, "x"),
        ("gzip", "-dc", gzipped),
        ("libdeflate-gzip", "-dc", gzipped),
        ("pigz", "-dc", gzipped),
        ("igzip", "-dc", gzipped),
    ]:
        if shutil.which(name):
            result = subprocess.run([name, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            assert result.returncode == 0, f"{name}: {result.stderr.decode(errors='replace')}"
            assert result.stdout == expected, name
            agreed.append(name)

    if deflate:
        assert bytes(deflate.deflate_decompress(stream, size)) == expected, "libdeflate"
        agreed.append("libdeflate")
    return agreed


scratch, *pairs = map(Path, sys.argv[1:])
for stream, expected in zip(pairs[::2], pairs[1::2]):
    agreed = inflated(stream.read_bytes(), expected.read_bytes(), scratch)
print(", ".join(agreed))
