"""Checks wheels with Python's standard library only. Prints what is wrong, one finding on a line.

usage: wheel_oracle.py pack DIRECTORY OUT.whl    makes a wheel of an unpacked one
       wheel_oracle.py check WHEEL...            checks wheels
"""

import base64
import csv
import email.parser
import hashlib
import io
import itertools
import stat
import sys
import zipfile
from pathlib import Path


def pack(directory, out):
    root = Path(directory)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path in sorted(path for path in root.rglob("*") if path.is_file()):
            info = zipfile.ZipInfo(path.relative_to(root).as_posix(), (2020, 1, 1, 0, 0, 0))
            info.external_attr = path.stat().st_mode << 16
            info.compress_type = zipfile.ZIP_STORED if path.suffix == ".bin" else zipfile.ZIP_DEFLATED
            wheel.writestr(info, path.read_bytes())


def check(path):
    def complain(text):
        print(f"{path.name}: {text}")

    name = path.name.removesuffix(".whl").split("-")
    stem = "-".join(name[:2])
    build = name.pop(2) if name[2][0].isdigit() else None
    python, abi, platform = name[2:5]
    wheel = zipfile.ZipFile(path)
    if bad := wheel.testzip():
        complain(f"{bad} is damaged")
    names = wheel.namelist()
    dist_info = f"{stem}.dist-info/"
    if names[-1] != dist_info + "RECORD":
        complain(f"the last member is {names[-1]}")
    inside = [name.startswith(dist_info) for name in names]
    if inside != sorted(inside):
        complain("dist-info is not at the end")
    if len(set(names)) != len(names):
        complain("a name is there twice")
    end = 0
    for info in wheel.infolist():
        if info.header_offset != end:
            complain(f"a gap before {info.filename}")
        with open(path, "rb") as file:
            file.seek(info.header_offset + 26)
            lengths = file.read(4)
        header = 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
        end = info.header_offset + header + info.compress_size
        mode = info.external_attr >> 16
        if not stat.S_ISREG(mode) or stat.S_IMODE(mode) not in (0o644, 0o755) or info.create_system != 3:
            complain(f"{info.filename}: mode {mode:o}")
        if info.flag_bits & ~0x800 or bool(info.flag_bits) == info.filename.isascii() or info.extra or info.comment:
            complain(f"{info.filename}: flags {info.flag_bits:x}")
        if info.date_time != (1980, 1, 1, 0, 0, 0):
            complain(f"{info.filename}: time {info.date_time}")
    rows = list(csv.reader(io.StringIO(wheel.read(dist_info + "RECORD").decode(), newline="")))
    if rows.pop() != [dist_info + "RECORD", "", ""]:
        complain("RECORD does not end with its own line")
    if [row[0] for row in rows] != sorted(set(names) - {dist_info + "RECORD"}):
        complain("RECORD lists other files")
    for member, digest, size in rows:
        content = wheel.read(member)
        expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        if (digest, size) != (f"sha256={expected}", str(len(content))):
            complain(f"{member}: RECORD says {digest}, {size}")
    headers = email.parser.BytesParser().parsebytes(wheel.read(dist_info + "WHEEL"))
    tags = itertools.product(python.split("."), abi.split("."), platform.split("."))
    if headers.get_all("Tag") != ["-".join(tag) for tag in tags] or headers["Build"] != build:
        complain(f"WHEEL says {headers.items()}")
    metadata = email.parser.BytesParser().parsebytes(wheel.read(dist_info + "METADATA"))
    if metadata.defects or not metadata["Name"] or f"-{metadata['Version']}" not in f"-{name[1]}":
        complain(f"METADATA says {metadata.items()}")
    for licence in metadata.get_all("License-File", []):
        if metadata["Metadata-Version"] == "2.4" and f"{dist_info}licenses/{licence}" not in names:
            complain(f"no licence {licence}")


if sys.argv[1] == "pack":
    pack(*sys.argv[2:])
else:
    for argument in sys.argv[2:]:
        check(Path(argument))
