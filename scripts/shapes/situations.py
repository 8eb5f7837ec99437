"""Installations that are damaged or unusual, and what librocm_kpack answers there (called by scripts/check-amd-runtime)."""
import shutil
import struct
import subprocess
from pathlib import Path

from bundles import Binary
from oracles import Oracle

FIXTURES = Path(__file__).resolve().parent.parent.parent / "tests/fixtures"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1234\n"


class Installation:
    """A split library with the archives of two GPUs, and what is asked about it."""

    def __init__(self, source, place):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(source, place)
        self.place, self.library = place, place / "lib/x.so"
        host = Binary(self.library)
        _, _, self.index, at = host.wrappers[0]
        self.marker = host.data[at:at + 4096]
        self.targets, self.variables = ["gfx90a:sramecc+:xnack-", "gfx9-generic:xnack-"], {}

    def archive(self, target="gfx90a"):
        return self.place / f".kpack/rocm_{target}.kpack"

    def change(self, edit):
        self.archive().write_bytes(edit(self.archive().read_bytes()))

    def replace(self, old, new):
        content = self.archive().read_bytes()
        assert old in content and len(old) == len(new)
        self.archive().write_bytes(content.replace(old, new))

    def set(self, name, *paths):
        self.variables[name] = ":".join(map(str, paths))


def remove(it):
    it.archive().unlink()


def directory(it):
    remove(it)
    it.archive().mkdir()


def text(value):
    return struct.pack("BB", 0xd9, len(value)) + value.encode()


def marker(*paths):
    """A marker of the library with these search paths, as MessagePack."""
    names = struct.pack("B", 0x90 | len(paths)) + b"".join(map(text, paths))
    return b"\x82" + text("kpack_search_paths") + names + text("kernel_name") + text("lib/x.so")


def first_lacks_it(it):
    """Of two archives for the GPU, the first one is of another library."""
    other = it.archive("of_another_library")
    other.write_bytes(it.archive().read_bytes().replace(b"lib/x.so#", b"lib/y.so#"))
    it.marker = marker(f"../.kpack/{other.name}", f"../.kpack/{it.archive().name}")


def mode_lacks_it(it):
    """An archive for the mode that lists it, and has the kernel of another library only."""
    content = it.archive().read_bytes().replace(b"lib/x.so#", b"lib/y.so#")
    # The table of contents is at the end of the file, so its texts may get longer. They have at most 31 bytes.
    for old, new in [(b"\xa6gfx90a", b"\xadgfx90a:xnack-")]:
        content = content.replace(old, new)
    it.archive("gfx90a:xnack-").write_bytes(content)


def flip(content):
    middle = len(content) // 3
    return content[:middle] + bytes([content[middle] ^ 0x55]) + content[middle + 1:]


def asked(*targets, index=None):
    def change(it):
        it.targets = list(targets)
        it.index = it.index if index is None else index
    return change


def named(variable, *names):
    return lambda it: it.set(variable, *(it.place / name for name in names))


SITUATIONS = [
    ("whole", lambda it: None),
    ("no archive", remove),
    ("empty archive", lambda it: it.change(lambda _: b"")),
    ("pointer file of Git LFS", lambda it: it.change(lambda _: POINTER)),
    ("first half of the archive", lambda it: it.change(lambda content: content[:len(content) // 2])),
    ("archive without its last byte", lambda it: it.change(lambda content: content[:-1])),
    ("archive with bytes behind it", lambda it: it.change(lambda content: content + b"\0")),
    ("header of a later version", lambda it: it.change(lambda content: content[:4] + struct.pack("<I", 2) + content[8:])),
    ("directory in place of the archive", directory),
    ("the first of two archives lacks the kernel", first_lacks_it),
    ("the archive of the mode lacks the kernel", mode_lacks_it),
    ("damaged frame", lambda it: it.change(flip)),
    ("scheme that is not known", lambda it: it.replace(b"zstd-per-kernel", b"zstd-per-object")),
    *((f"no {key} in the table of contents", lambda it, key=key.encode(): it.replace(key, key[:-1] + b"_"))
      for key in ("gfx_arches", "compression_scheme", "format_version", "group_name", "gfx_arch_family", "zstd_offset", "zstd_size", "original_size")),
    ("no toc in the table of contents", lambda it: it.replace(b"\xa3toc", b"\xa3to_")),
    ("archive of another GPU", lambda it: shutil.copy(it.archive("gfx1030"), it.archive())),
    ("archive of another library", lambda it: it.replace(b"lib/x.so#", b"lib/y.so#")),
    ("another GPU", asked("gfx1201")),
    ("no such wrapper", asked("gfx90a", index=77)),
    ("ISA with its triple", asked("amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-")),
    ("features in another order", asked("gfx90a:xnack-:sramecc+")),
    ("second target of a list", asked("gfx1201", "gfx90a")),
    ("empty target", asked("")),
    ("no target", asked()),
    ("library by a name that is not there", lambda it: setattr(it, "library", it.place / "lib/none.so")),
    ("library in another directory", lambda it: setattr(it, "library", it.place / "a/b/x.so")),
    ("marker that is no MessagePack", lambda it: setattr(it, "marker", b"\xc1" * 64)),
    ("marker that is an empty map", lambda it: setattr(it, "marker", b"\x80" * 64)),
    ("marker of zeros", lambda it: setattr(it, "marker", bytes(64))),
    ("ROCM_KPACK_PATH names the archive", named("ROCM_KPACK_PATH", ".kpack/rocm_gfx90a.kpack")),
    ("ROCM_KPACK_PATH names a directory", named("ROCM_KPACK_PATH", ".kpack")),
    ("ROCM_KPACK_PATH names another GPU's archive", named("ROCM_KPACK_PATH", ".kpack/rocm_gfx1030.kpack")),
    ("ROCM_KPACK_PATH names nothing, then the archive", named("ROCM_KPACK_PATH", "none.kpack", ".kpack/rocm_gfx90a.kpack")),
    ("ROCM_KPACK_PATH has empty parts", lambda it: it.set("ROCM_KPACK_PATH", "", it.archive(), "")),
    ("ROCM_KPACK_PATH has a placeholder", named("ROCM_KPACK_PATH", ".kpack/rocm_@GFXARCH@.kpack")),
    ("ROCM_KPACK_PATH is empty", lambda it: it.set("ROCM_KPACK_PATH")),
    ("ROCM_KPACK_PATH_PREFIX names the archive, which is elsewhere", lambda it: (it.archive().rename(it.place / "z.kpack"), named("ROCM_KPACK_PATH_PREFIX", "z.kpack")(it))),
    ("ROCM_KPACK_PATH_PREFIX names a directory", named("ROCM_KPACK_PATH_PREFIX", ".kpack")),
    ("ROCM_KPACK_DISABLE=1", lambda it: it.set("ROCM_KPACK_DISABLE", "1")),
    ("ROCM_KPACK_DISABLE=0", lambda it: it.set("ROCM_KPACK_DISABLE", "0")),
    ("ROCM_KPACK_DISABLE=no", lambda it: it.set("ROCM_KPACK_DISABLE", "no")),
    ("ROCM_KPACK_DISABLE is empty", lambda it: it.set("ROCM_KPACK_DISABLE")),
]

# Answers that differ: that of kpackfs, and that of AMD's library. docs/runtime.md has a row for each.
DIFFERENT = {
    "the first of two archives lacks the kernel": ("code, open 0", "error 5, open 0"),
    "the archive of the mode lacks the kernel": ("code, open 0", "error 5, open 0"),
    "scheme that is not known": ("error 13, open 3", "error 5, open 0"),
    "no compression_scheme in the table of contents": ("error 3, open 0", "error 5, open 0"),
    "no original_size in the table of contents": ("error 10, open 0", "error 6, open 0"),
    "no zstd_offset in the table of contents": ("error 3, open 0", "error 13, open 3"),
    "no zstd_size in the table of contents": ("error 3, open 0", "error 13, open 3"),
}


def ask(kpackfs, work, libraries):
    """For each situation its name, and the answer of each library, which is asked in a process of its own."""
    tree = work / "tree/lib"
    tree.mkdir(parents=True)
    shutil.copy(FIXTURES / "plain.so", tree / "x.so")
    subprocess.run([kpackfs, "split", work / "tree", "-o", work / "out"], check=True, capture_output=True)
    for part in sorted((work / "out").iterdir()):
        if part.name != ".kpackfs":
            shutil.copytree(part, work / "whole", dirs_exist_ok=True)
    for name, change in SITUATIONS:
        answers = []
        for path in libraries:
            it = Installation(work / "whole", work / "installed")
            change(it)
            loading = Oracle("kpack", "", str(path), it.variables)
            opening = Oracle("open", "", str(path), it.variables)
            loaded = loading.digest(it.library, it.marker, it.index, it.targets)
            opened = opening.ask(str(it.archive()))
            answers.append(f"{'code' if isinstance(loaded, str) else f'error {loaded}'}, open {opened}")
            loading.close()
            opening.close()
        yield name, tuple(answers)
