"""Makes and reads offload bundles, and calls AMD's COMGR. The constants are those of amd_comgr.h."""

import ctypes
import hashlib
import struct

SOURCE, LOG, RELOCATABLE, EXECUTABLE, FATBIN, OBJECT_BUNDLE, SPIRV = 1, 5, 7, 8, 0x10, 0x14, 0x15
COMPILE_TO_EXECUTABLE, UNBUNDLE, SPIRV_TO_RELOCATABLE, SOURCE_TO_SPIRV = 14, 15, 16, 20
OPENCL_2_0, HIP = 2, 3
ID = "hipv4-amdgcn-amd-amdhsa--"
ISA = "amdgcn-amd-amdhsa--"
MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
HOST = "host-x86_64-unknown-linux-gnu-"


def bundle(entries, host_offset=4096):
    """An offload bundle as clang lays it out: the host entry, and code objects at multiples of 4096."""
    table, body = struct.pack("<QQQ", host_offset, 0, len(HOST)) + HOST.encode(), b""
    for target, content in entries:
        entry = (ID + target).encode()
        table += struct.pack("<QQQ", 4096 + len(body), len(content), len(entry)) + entry
        body += content.ljust(-(-len(content) // 4096) * 4096, b"\0")
    return (MAGIC + struct.pack("<Q", len(entries) + 1) + table).ljust(4096, b"\0") + body


def bundles(content):
    """The raw bundles in `content`, in their order; each is a list of (ID, code object)."""
    place = content.find(MAGIC)
    while place >= 0:
        entries, at = [], place + 32
        for _ in range(struct.unpack_from("<Q", content, place + 24)[0]):
            offset, size, length = struct.unpack_from("<QQQ", content, at)
            entries.append((content[at + 24 : at + 24 + length].decode(), content[place + offset : place + offset + size]))
            at += 24 + length
        yield entries
        place = content.find(MAGIC, at)


def decompressed(content):
    """The bundles that are compressed in `content` (version 3), decompressed, in their order."""
    import zstandard

    place = content.find(b"CCOB\3\0\1\0")
    while place >= 0:
        total, size = struct.unpack_from("<QQ", content, place + 8)
        yield zstandard.ZstdDecompressor().decompress(content[place + 32 : place + total], max_output_size=size)
        place = content.find(b"CCOB\3\0\1\0", place + total)


def compress(raw):
    """A compressed offload bundle of version 3."""
    import zstandard

    frame = zstandard.compress(raw)
    digest = struct.unpack("<Q", hashlib.md5(raw).digest()[:8])[0]
    return b"CCOB" + struct.pack("<HHQQQ", 3, 1, 32 + len(frame), len(raw), digest) + frame


class Handle(ctypes.Structure):
    _fields_ = [("handle", ctypes.c_uint64)]


class Answer(ctypes.Structure):
    _fields_ = [("isa", ctypes.c_char_p), ("size", ctypes.c_size_t), ("offset", ctypes.c_uint64)]


class Comgr:
    """COMGR, by its C interface."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        pointer, size = ctypes.POINTER, ctypes.c_size_t
        for name, arguments in {
            "create_data": [ctypes.c_int, pointer(Handle)],
            "set_data": [Handle, size, ctypes.c_char_p],
            "set_data_name": [Handle, ctypes.c_char_p],
            "get_data": [Handle, pointer(size), ctypes.c_void_p],
            "create_data_set": [pointer(Handle)],
            "create_action_info": [pointer(Handle)],
            "data_set_add": [Handle, Handle],
            "do_action": [ctypes.c_int, Handle, Handle, Handle],
            "action_data_count": [Handle, ctypes.c_int, pointer(size)],
            "action_data_get_data": [Handle, ctypes.c_int, size, pointer(Handle)],
            "action_info_set_isa_name": [Handle, ctypes.c_char_p],
            "action_info_set_language": [Handle, ctypes.c_int],
            "action_info_set_bundle_entry_ids": [Handle, ctypes.c_void_p, size],
            "action_info_set_option_list": [Handle, ctypes.c_void_p, size],
            "lookup_code_object": [Handle, ctypes.c_void_p, size],
        }.items():
            function = getattr(self.c, "amd_comgr_" + name, None)
            if function:
                function.argtypes = arguments

    def _call(self, name, *arguments):
        status = getattr(self.c, "amd_comgr_" + name)(*arguments)
        if status:
            raise RuntimeError(f"amd_comgr_{name}: status {status}")

    def _data(self, kind, content, name):
        data = Handle()
        self._call("create_data", kind, ctypes.byref(data))
        self._call("set_data", data, len(content), content)
        self._call("set_data_name", data, name.encode())
        return data

    def _act(self, action, data, prepare, result=EXECUTABLE):
        given, results, info = Handle(), Handle(), Handle()
        self._call("create_data_set", ctypes.byref(given))
        self._call("create_data_set", ctypes.byref(results))
        self._call("create_action_info", ctypes.byref(info))
        self._call("data_set_add", given, data)
        prepare(info)
        self._call("do_action", action, info, given, results)
        count, contents = ctypes.c_size_t(), []
        self._call("action_data_count", results, result, ctypes.byref(count))
        for index in range(count.value):
            data, size = Handle(), ctypes.c_size_t()
            self._call("action_data_get_data", results, result, index, ctypes.byref(data))
            self._call("get_data", data, ctypes.byref(size), None)
            content = ctypes.create_string_buffer(size.value + 1)
            self._call("get_data", data, ctypes.byref(size), content)
            contents.append(content.raw[: size.value])
        return contents

    def lookup(self, content, targets):
        """The code object for each target, as a HIP runtime finds it in a bundle that is not compressed; b"" where there is none."""
        answers = (Answer * len(targets))(*[Answer((ISA + target).encode(), 0, 0) for target in targets])
        self._call("lookup_code_object", self._data(FATBIN, content, "bundle"), answers, len(targets))
        return [content[answer.offset : answer.offset + answer.size] for answer in answers]

    def unbundle(self, content, targets):
        """The same by the action that HIP runtimes use for compressed bundles."""
        entries = (ctypes.c_char_p * len(targets))(*[(ID + target).encode() for target in targets])
        return self._act(
            UNBUNDLE,
            self._data(OBJECT_BUNDLE, content, "bundle.o"),
            lambda info: self._call("action_info_set_bundle_entry_ids", info, entries, len(targets)),
        )

    def compile(self, target, source="__kernel void k(__global int *p) { p[0] = 1; }", options=()):
        """A code object of an OpenCL kernel."""

        def prepare(info):
            self._call("action_info_set_isa_name", info, (ISA + target).encode())
            self._call("action_info_set_language", info, OPENCL_2_0)
            self._set_options(info, options)

        return self._act(COMPILE_TO_EXECUTABLE, self._data(SOURCE, source.encode(), "k.cl"), prepare)[0]

    def _set_options(self, info, options):
        self._call("action_info_set_option_list", info, (ctypes.c_char_p * len(options))(*map(str.encode, options)), len(options))

    def spirv(self, source, options):
        """SPIR-V of a HIP source."""

        def prepare(info):
            self._call("action_info_set_language", info, HIP)
            self._set_options(info, options)

        return self._act(SOURCE_TO_SPIRV, self._data(SOURCE, source, "k.hip"), prepare, SPIRV)[0]

    def compile_spirv(self, target, module):
        """An object file for the target, as a HIP runtime makes it of SPIR-V."""
        isa = (ISA + target).encode()
        return self._act(
            SPIRV_TO_RELOCATABLE, self._data(SPIRV, module, "k.spv"), lambda info: self._call("action_info_set_isa_name", info, isa), RELOCATABLE
        )[0]
