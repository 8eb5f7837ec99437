"""An independent reader of fat binaries: wrappers, and the bundles that they lead to."""
import ctypes
import hashlib
import mmap
import re
import struct
import zlib

RAW, CCOB = b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"


class Broken(Exception):
    pass


def unzstd(data, size):
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_findFrameCompressedSize.restype = ctypes.c_size_t
    pointers = [ctypes.c_void_p, ctypes.c_size_t]
    library.ZSTD_findFrameCompressedSize.argtypes = pointers
    library.ZSTD_decompress.argtypes = pointers * 2
    out = ctypes.create_string_buffer(size)
    length = library.ZSTD_findFrameCompressedSize(data, len(data))
    if library.ZSTD_isError(ctypes.c_size_t(length)) or library.ZSTD_decompress(out, size, data, length) != size:
        raise Broken("zstd cannot decompress it")
    return out.raw


class Binary:
    """An ELF or PE file: where its wrappers are, and where they lead."""

    def __init__(self, path):
        self.data = b""
        self.wrappers = []
        with open(path, "rb") as file:
            magic = file.read(4)
            if magic[:2] != b"MZ" and magic != b"\x7fELF":
                return
            self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.segments = []  # address, offset, bytes in the file, bytes in memory
        self.code = None
        try:
            self.elf() if magic == b"\x7fELF" else self.pe()
        except struct.error as error:
            raise Broken(f"headers: {error}") from error

    def elf(self):
        data = self.data
        if data[4:6] != b"\x02\x01":
            return
        programs, table = struct.unpack_from("<QQ", data, 32)
        size, number, each, sections, names = struct.unpack_from("<HHHHH", data, 54)
        for at in range(programs, programs + size * number, size):
            kind, _, offset, address, _, in_file, in_memory = struct.unpack_from("<IIQQQQQ", data, at)
            if kind == 1:
                self.segments.append((address, offset, in_file, in_memory))
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + each * number) for number in range(sections)]
        named = lambda header: self.text(headers[names][4] + header[0])
        relocated = {}
        for header in headers:
            if header[1] == 4:  # SHT_RELA
                for at in range(header[4], header[4] + header[5], 24):
                    address, info, addend = struct.unpack_from("<QQq", data, at)
                    if info & 0xFFFFFFFF in (8, 1027):  # R_X86_64_RELATIVE, R_AARCH64_RELATIVE
                        relocated[address] = addend
        by_name = {named(header): header for header in headers if header[1] != 8}
        if b".hip_fatbin" in by_name:
            self.code = by_name[b".hip_fatbin"][4:6]
        wrappers = by_name.get(b".hipFatBinSegment")
        for at in range(0, wrappers[5] - 23 if wrappers else 0, 24):
            magic, version, pointer, unused = struct.unpack_from("<4sIQQ", data, wrappers[4] + at)
            self.wrappers.append((magic, version, unused, self.offset(relocated.get(wrappers[3] + at + 8, pointer))))

    def pe(self):
        data = self.data
        at, = struct.unpack_from("<I", data, 60)
        if data[at:at + 4] != b"PE\0\0" or struct.unpack_from("<H", data, at + 24)[0] != 0x20B:
            return
        number, optional = struct.unpack_from("<H12xH", data, at + 6)
        base, = struct.unpack_from("<Q", data, at + 48)
        wrappers = None
        for header in range(at + 24 + optional, at + 24 + optional + 40 * number, 40):
            name, memory, address, size, offset = struct.unpack_from("<8sIIII", data, header)
            self.segments.append((base + address, offset, size, memory))
            if name == b".hipFatB":
                wrappers = offset, min(memory, size)
            elif name == b".hip_fat":
                self.code = offset, size
        for at in range(0, wrappers[1] - 23 if wrappers else 0, 24):
            magic, version, pointer, unused = struct.unpack_from("<4sIQQ", data, wrappers[0] + at)
            if magic in (b"FPIH", b"HIPK"):
                self.wrappers.append((magic, version, unused, self.offset(pointer)))

    def text(self, at):
        return self.data[at:self.data.find(b"\0", at)]

    def offset(self, address):
        for start, offset, size, _ in self.segments:
            if start <= address < start + size:
                return offset + address - start
        return None

    def readable(self, at):
        """Number of bytes that can be read in memory from a file offset on."""
        for _, offset, size, memory in self.segments:
            if offset <= at < offset + size:
                end = offset + max(size, memory)
                return -(-end // 4096) * 4096 - at
        return 0


class Bundle:
    """A bundle: entries as (ID, offset, code), in their order."""

    def __init__(self, binary, at):
        data = binary.data
        self.packed = None
        if data[at:at + 4] == CCOB:
            self.version, method = struct.unpack_from("<HH", data, at + 4)
            form, ahead = {1: ("<IQ", 0), 2: ("<IIQ", 1), 3: ("<QQQ", 1)}[self.version]
            fields = struct.unpack_from(form, data, at + 8)
            body = at + 8 + struct.calcsize(form)
            end = at + fields[0] if ahead else len(data)
            self.packed = data[at:end] if ahead else None
            self.kind = CCOB, self.version, method
            self.whole = unzstd(data[body:end], fields[ahead]) if method == 1 else zlib.decompressobj().decompress(data[body:end])
            self.hash_is_right = hashlib.md5(self.whole).digest()[:8] == struct.pack("<Q", fields[-1])
            start = 0
        elif data[at:at + len(RAW)] == RAW:
            self.kind, self.whole, start = (RAW,), data, at
        else:
            raise Broken(f"no bundle at {at:#x}")
        number, = struct.unpack_from("<Q", self.whole, start + 24)
        self.entries, self.header = [], start + 32
        for _ in range(number):
            offset, size, length = struct.unpack_from("<QQQ", self.whole, self.header)
            name = bytes(self.whole[self.header + 24:self.header + 24 + length]).decode()
            self.header += 24 + length
            if start + offset + size > len(self.whole):
                raise Broken(f"{name} is not all there")
            self.entries.append((name, offset, size, hashlib.sha256(self.whole[start + offset:start + offset + size]).digest()))
        self.header -= start
        self.start = start

    def code(self):
        """Digests of code objects by target, the first of each."""
        found = {}
        for name, _, size, digest in self.entries:
            target = re.search(r"(gfx[^-]\S*|amdgcnspirv)$", name)
            if size and target and not name.startswith("host"):
                found.setdefault(target[1], digest)
        return found
