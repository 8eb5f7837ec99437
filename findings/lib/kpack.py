"""Writes .kpack archives, and calls AMD's librocm_kpack. The format: docs/artifacts.md names its source."""

import ctypes
import os
import struct

import msgpack
import zstandard

ERRORS = {0: "success", 5: "KERNEL_NOT_FOUND (5)", 13: "ARCHIVE_NOT_FOUND (13)", 14: "ARCH_NOT_FOUND (14)"}


def archive(path, code, targets=None, change=None):
    """Writes an archive that holds code objects by (binary#index, target). `targets` replaces the list of its targets, `change` may edit
    the table of contents."""
    frames, table = b"", {}
    for ordinal, ((key, target), content) in enumerate(code.items()):
        frame = zstandard.compress(content)
        frames += struct.pack("<I", len(frame)) + frame
        table.setdefault(key, {})[target] = {"type": "hsaco", "ordinal": ordinal, "original_size": len(content)}
    body = struct.pack("<I", len(code)) + frames
    listed = list(dict.fromkeys(target for _, target in code))
    contents = {
        "format_version": 1,
        "group_name": "group",
        "gfx_arch_family": listed[0],
        "gfx_arches": listed if targets is None else targets,
        "toc": table,
        "compression_scheme": "zstd-per-kernel",
        "zstd_offset": 64,
        "zstd_size": len(body),
    }
    if change:
        change(contents)
    header = b"KPAK" + struct.pack("<IQ", 1, 64 + len(body))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(header.ljust(64, b"\0") + body + msgpack.packb(contents))


def marker(paths, kernel_name="lib/x"):
    """What the section .rocm_kpack_ref holds."""
    return msgpack.packb({"kpack_search_paths": paths, "kernel_name": kernel_name})


class Library:
    """librocm_kpack, by its C interface."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.kpack_load_code_object.argtypes = [
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_char_p,
            ctypes.c_uint32,
            ctypes.POINTER(ctypes.c_char_p),
            ctypes.c_size_t,
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.POINTER(ctypes.c_size_t),
        ]
        self.c.kpack_cache_create.argtypes = [ctypes.POINTER(ctypes.c_void_p)]
        self.c.kpack_open.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]
        self.c.kpack_get_architecture_count.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)]
        self.c.kpack_get_binary_count.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)]

    def load(self, paths, binary, targets, index=0):
        """The code object, or the name of the error, that a HIP runtime gets for wrapper `index` of the library `binary`."""
        cache, data, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        assert self.c.kpack_cache_create(ctypes.byref(cache)) == 0
        names = (ctypes.c_char_p * len(targets))(*[target.encode() for target in targets])
        error = self.c.kpack_load_code_object(
            cache, marker(paths), binary.encode(), index, names, len(targets), ctypes.byref(data), ctypes.byref(size)
        )
        return ctypes.string_at(data, size.value).decode() if error == 0 else ERRORS.get(error, f"error {error}")

    def open(self, path):
        """The error of kpack_open, and the numbers of targets and binaries that the archive has."""
        opened, count = ctypes.c_void_p(), ctypes.c_size_t()
        error = self.c.kpack_open(path.encode(), ctypes.byref(opened))
        if error:
            return f"error {error}"
        self.c.kpack_get_architecture_count(opened, ctypes.byref(count))
        targets = count.value
        self.c.kpack_get_binary_count(opened, ctypes.byref(count))
        return f"success, {targets} targets, {count.value} binaries"
