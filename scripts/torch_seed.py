"""The wheel of scripts/make-torch-wheel --size seed: the counts and the sizes of the wheel that rocm-systems#3855 splits.

Two of its ten fat libraries are linked here out of real code objects, since no library that can be fetched has as many bundles. The
others are real ones. Kernel databases have names that their handlers know and the sizes of the report. All code is real. Images of
AOTriton are code as well, which real ones hold compressed. Members are deflated on all cores.
"""

import base64
import hashlib
import itertools
import math
import os
import random
import struct
import subprocess
import tempfile
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Database: number of files, MB of 10^6 bytes.
DATABASES = {"hipblaslt": (2990, 3786), "aotriton": (9334, 870), "miopen": (62, 744), "rocblas": (1738, 645), "hipsparselt": (198, 138)}
MEMBERS = 16_835
# Library that is linked: bundles, targets of each, and the largest code objects in bytes.
LINKED = {"torch/lib/libtorch_hip.so": (900, 18, 240_000), "torch/lib/librocfft.so": (233, 5, 14_000_000)}
# A bundle has the code of a processor either for all modes or for each.
TARGETS = [
    "gfx1100", "gfx1201", "gfx950", "gfx900", "gfx906", "gfx908", "gfx942-xnack-", "gfx942-xnack+", "gfx90a-xnack-", "gfx90a-xnack+",
    "gfx1030", "gfx1101", "gfx1102", "gfx1150", "gfx1151", "gfx1200", "gfx1010", "gfx1250",
]  # fmt: skip
# Directory of images, and the target of the code in it.
IMAGES = {
    "gfx90a": "gfx90a", "gfx942": "gfx942", "gfx950": "gfx950", "gfx11xx": "gfx1100", "gfx110x": "gfx1101", "gfx115x": "gfx1151",
    "gfx120x": "gfx1201",
}  # fmt: skip
PIECE = 1 << 20


def sizes(name, count, total):
    """`count` sizes that vary as those of real files do, and sum up to `total`."""
    source = random.Random(name)
    weights = [source.lognormvariate(0, 1) for _ in range(count)]
    scale = (total - 256 * count) / sum(weights)
    each = [256 + int(weight * scale) for weight in weights]
    each[0] += total - sum(each)
    return each


class Seed:
    """Paths in the wheel, each with a function that yields its content in pieces."""

    def __init__(self, make, corpus, work):
        self.make, self.corpus, self.work = make, corpus, work
        self.bundles = make.Bundles(corpus / make.ROCSPARSE)
        # The whole library, from which files of any size are filled.
        self.code = (corpus / make.ROCSPARSE).read_bytes()
        self.files = {}

    def content(self, path, target, size):
        """Real code, of which the first object says that it is for `target`."""
        source = random.Random(path)
        offset, length = source.choice(self.bundles.bundles[source.randrange(12)][1])
        first = self.make.retarget(self.code[offset : offset + length], target, path)[:size]
        start = source.randrange(len(self.code) - size)
        yield first
        yield self.code[start : start + size - len(first)]

    def text(self, path, size):
        lines = self.make.text_lines(path, 20_000)
        yield (lines * (size // len(lines) + 1))[:size]

    def databases(self):
        targets = itertools.cycle(self.make.ROCBLAS_TARGETS)
        for kind, (count, megabytes) in DATABASES.items():
            for number, size in enumerate(sizes(kind, count, megabytes * 1_000_000)):
                if kind == "aotriton":
                    images = list(IMAGES)[number % len(IMAGES)]
                    path = f"torch/lib/aotriton.images/amd-{images}/flash/attn_fwd/FONLY__^fp16@16_{number}_F_F___{images}.aks2"
                    target = IMAGES[images]
                    self.files[path] = (self.content, path, target, size)
                elif kind == "miopen":
                    device = self.make.MIOPEN_DEVICES[number % len(self.make.MIOPEN_DEVICES)]
                    suffix = ("HIP.fdb.txt", "db.txt", "OpenCL.fdb.txt", "udb.txt")[number // len(self.make.MIOPEN_DEVICES)]
                    path = f"torch/share/miopen/db/{device}.{suffix}"
                    self.files[path] = (self.text, path, size)
                else:
                    target = ("gfx942", "gfx950")[number % 2] if kind == "hipsparselt" else next(targets).split("-")[0]
                    suffix = ("co", "hsaco", "dat")[number // 2 % 3]
                    path = f"torch/lib/{kind}/library/TensileLibrary_Type_HH_Contraction_{number}_{target}.{suffix}"
                    self.files[path] = (self.content, path, target, size)

    def linked(self, name):
        """A library with as many wrappers as bundles. The bundles have real code objects, each for another target."""
        count, of_each, largest = LINKED[name]
        entries = [entry for _, entries, _ in self.bundles.bundles for entry in entries if entry[1] <= largest]
        objects = itertools.cycle(entries)
        stem = self.work / Path(name).stem
        offsets = []
        with open(f"{stem}.fatbin", "wb") as out:
            for number in range(count):
                codes = []
                for target in TARGETS[:of_each]:
                    offset, length = next(objects)
                    codes.append(self.make.retarget(self.code[offset : offset + length], target, f"{name} {number} {target}"))
                offsets.append(out.tell())
                out.write(bundle(TARGETS[:of_each], codes))
        wrappers = "".join(f".long 0x48495046, 1\n.quad code + {offset}, 0\n" for offset in offsets)
        Path(f"{stem}.s").write_text(
            '.section .hip_fatbin, "a", @progbits\n.balign 4096\ncode:\n'
            f'.incbin "{stem}.fatbin"\n.section .hipFatBinSegment, "aw", @progbits\n.balign 8\n{wrappers}'
            # A library without this name is not looked into.
            ".data\n.quad __hipRegisterFatBinary\n"
            '.section .note.GNU-stack, "", @progbits\n'
        )
        for command in (["as", f"{stem}.s", "-o", f"{stem}.o"], ["ld", "-shared", "--build-id=none", f"{stem}.o", "-o", f"{stem}.so"]):
            subprocess.run(command, check=True)
        for suffix in ("fatbin", "s", "o"):
            os.unlink(f"{stem}.{suffix}")
        return Path(f"{stem}.so")

    def libraries(self, libraries):
        for name, source in libraries.items():
            self.files[name] = (self.library, *source)
        for name in LINKED:
            self.files[name] = (self.library, None, self.linked(name))

    def library(self, container, member):
        if container:
            with zipfile.ZipFile(self.corpus / container) as archive, archive.open(member) as stream:
                yield from iter(lambda: stream.read(PIECE), b"")
        else:
            with open(self.corpus / member, "rb") as stream:
                yield from iter(lambda: stream.read(PIECE), b"")

    def sources(self, count):
        """Real sources of other packages, until the wheel has `count` members."""
        for container in (self.make.CUPY, self.make.ONNXRUNTIME):
            archive = zipfile.ZipFile(self.corpus / container)
            for member in archive.infolist():
                is_source = ".so" not in member.filename and "dist-info" not in member.filename and not member.is_dir()
                if is_source and len(self.files) < count:
                    self.files[f"torch/_vendor/{member.filename}"] = (iter, [archive.read(member)])


def bundle(targets, codes):
    """An uncompressed offload bundle (clang's documentation, "Clang Offload Bundler"), as long as whole pages."""
    names = ["host-x86_64-unknown-linux-gnu-"]
    names += [f"hipv4-amdgcn-amd-amdhsa--{target.replace('-xnack', ':xnack')}" for target in targets]
    at = 4096 * math.ceil((32 + sum(24 + len(name) for name in names)) / 4096)
    table, content = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(names)), bytearray()
    for name, code in zip(names, [b"", *codes]):
        content.extend(bytes(-len(content) % 4096))
        table += struct.pack("<QQQ", at + len(content), len(code), len(name)) + name.encode()
        content.extend(code)
    whole = table.ljust(at, b"\0") + content
    return whole + bytes(-len(whole) % 4096)


class Writer:
    """A zip file whose members are deflated on all cores and written in order."""

    def __init__(self, path, time):
        self.file, self.directory, self.rows, self.unpacked = open(path, "wb"), [], [], 0
        # DOS time and date (APPNOTE.TXT 4.4.6).
        self.stamp = struct.pack("<HH", 0, time[0] - 1980 << 9 | time[1] << 5 | time[2])

    @staticmethod
    def deflated(name, pieces):
        sha256, crc, size, encoder, packed = hashlib.sha256(), 0, 0, zlib.compressobj(6, zlib.DEFLATED, -15), []
        for piece in pieces:
            sha256.update(piece)
            crc, size = zlib.crc32(piece, crc), size + len(piece)
            packed.append(encoder.compress(piece))
        packed.append(encoder.flush())
        return name, b"".join(packed), crc, size, sha256.digest()

    def add(self, name, packed, crc, size, digest):
        path = name.encode()
        fields = struct.pack("<HHH", 20, 0x800, 8) + self.stamp + struct.pack("<IIIHH", crc, len(packed), size, len(path), 0)
        mode = 0o100755 if ".so" in name else 0o100644
        end = struct.pack("<HHHII", 0, 0, 0, mode << 16, self.file.tell()) + path
        self.directory.append(b"PK\1\2" + struct.pack("<H", 3 << 8 | 20) + fields + end)
        self.file.write(b"PK\3\4" + fields + path + packed)
        self.rows.append(f"{name},sha256={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()},{size}\n")
        self.unpacked += size

    def all(self, files):
        """Of a few members more than there are processors, the content is in memory."""
        waiting, names = [], iter(files)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for name in itertools.chain(names, [None] * 2 * (os.cpu_count() or 1)):
                if name is not None:
                    make, *arguments = files[name]
                    waiting.append(pool.submit(self.deflated, name, make(*arguments)))
                if waiting and (name is None or len(waiting) > 2 * (os.cpu_count() or 1)):
                    self.add(*waiting.pop(0).result())

    def close(self, record):
        text = "".join([*self.rows, f"{record},,\n"]).encode()
        self.add(*self.deflated(record, [text]))
        start, directory = self.file.tell(), b"".join(self.directory)
        count = len(self.directory)
        self.file.write(directory + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), start, 0))
        self.file.close()


def write(make, libraries, texts, corpus, out):
    """Writes the wheel. Returns the number of its members and their bytes."""
    with tempfile.TemporaryDirectory(dir=out.parent) as work:
        seed = Seed(make, corpus, Path(work))
        seed.libraries(libraries)
        seed.databases()
        dist_info = {f"{make.DIST_INFO}/{name}": text for name, text in texts.items()}
        seed.sources(MEMBERS - 1 - len(dist_info))
        files = {name: seed.files[name] for name in sorted(seed.files)}
        files.update({name: (iter, [text]) for name, text in dist_info.items()})
        writer = Writer(out, make.TIME)
        writer.all(files)
        writer.close(f"{make.DIST_INFO}/RECORD")
    return len(writer.rows), writer.unpacked
