"""The inputs of scenarios: real ones from the corpus, or fixtures. Generated inputs are in the work directory."""

import itertools
import random
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .bench import Missing
from .programs import ROOT

FIXTURES = ROOT / "tests" / "fixtures"
LIBRARY = "usr/lib/x86_64-linux-gnu/librocsparse.so.0.1"
# Directories of kernel databases, and the targets that they are for.
PLACES = ("rocblas", "hipblaslt", "hipsparselt")
TARGETS = ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1101", "gfx1200", "gfx1201", "gfx1151")


@dataclass
class Tree:
    """An install tree, and the path of a fat library in it."""

    name: str
    path: Path
    library: str


@dataclass
class Wheel:
    """A wheel, its fat members, the largest first, and its dist-info."""

    name: str
    path: Path
    fat: list
    dist_info: str

    @property
    def big(self):
        return self.fat[0]


@dataclass
class Package:
    """A wheel with many small Python files, the directory of those, and a large library."""

    path: Path
    modules: str
    library: str


class Inputs:
    """Base class of Corpus and Fixtures."""

    # Files, directories and mean size in bytes of the tree of databases.
    databases = (14_000, 200, 54_700)
    modules = 2_000
    # Bytes of the unchanged file.
    plain_size = 1 << 30
    # Bytes per random read of a member.
    block = 128 << 10

    def __init__(self, bench):
        self.bench = bench
        self.work = bench.fresh("inputs")

    def wheel(self, name, path):
        if not path.exists():
            raise Missing(f"{path} is not there; scripts/fetch-corpus fetches it")
        fat = sorted(self.bench.inspect(path)["binaries"], key=lambda binary: -binary["size"])
        with zipfile.ZipFile(path) as archive:
            dist_info = next(name.split("/")[0] for name in archive.namelist() if name.split("/")[0].endswith(".dist-info"))
        return Wheel(name, path, [binary["path"] for binary in fat], dist_info)

    def unpacked(self, wheel):
        """An install tree with only the wheel's largest fat member."""
        path = self.work / f"{wheel.name}-tree"
        if not path.exists():
            with zipfile.ZipFile(wheel.path) as archive:
                archive.extract(wheel.big, path)
        return Tree(f"{wheel.name} tree", path, wheel.big)

    def twice(self, tree):
        """A tree with a tree's library twice, under different names."""
        path = self.work / f"{tree.path.name}-twice"
        for half in ("one", "two"):
            target = path / half / Path(tree.library).name
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                shutil.copyfile(tree.path / tree.library, target)
        return Tree(f"{tree.name} twice", path, "")

    @cached_property
    def plain(self):
        """A tree with a file that no view changes."""
        path = self.work / "plain"
        path.mkdir()
        source = self.tree.path / self.tree.library
        with source.open("rb") as original, (path / "plain.bin").open("wb") as copy:
            # Without its header it is no longer a binary.
            original.seek(4096)
            left = self.plain_size
            while left and (block := original.read(min(left, 1 << 20))):
                copy.write(block)
                left -= len(block)
        return Tree("plain", path, "plain.bin")

    @cached_property
    def small_files(self):
        """A tree of kernel databases with realistic names and sizes."""
        files, directories, mean = self.databases
        path = self.work / "databases"
        source = random.Random(1)
        noise = source.randbytes(4 * mean)
        places = list(itertools.islice(itertools.product(range(directories), PLACES, TARGETS), directories))
        for number in range(files):
            package, place, target = places[number % len(places)]
            suffix = (".co", ".dat", ".hsaco")[number % 3]
            file = path / f"lib{package}" / place / "library" / target / f"TensileLibrary_Type_HH_{number}_{target}{suffix}"
            file.parent.mkdir(parents=True, exist_ok=True)
            length = min(int(source.expovariate(1 / mean)) + 64, len(noise))
            start = source.randrange(len(noise) - length + 1)
            file.write_bytes(noise[start : start + length])
        return path

    @cached_property
    def package(self):
        """A real wheel to which many small Python files were added."""
        wheel = self.wheel_with_large_library
        path = self.work / "package" / wheel.path.name
        path.parent.mkdir()
        shutil.copyfile(wheel.path, path)
        modules = f"{wheel.big.split('/')[0]}/many"
        body = "".join(f"def function_{number}(value):\n    return value + {number}\n\n\n" for number in range(60))
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
            for number in range(self.modules):
                archive.writestr(f"{modules}/package_{number % 20}/module_{number}.py", f'"""Module {number}."""\n\n{body}')
        return Package(path, modules, wheel.big)

    def torch_wheel(self, size):
        out = self.work / f"torch-{size}"
        out.mkdir()
        command = [sys.executable, ROOT / "scripts" / "make-torch-wheel", out, "--size", size, "--corpus", self.corpus]
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
            raise Missing("scripts/make-torch-wheel failed")
        return next(out.glob("*.whl"))


class Corpus(Inputs):
    """What scripts/fetch-corpus fetches."""

    def __init__(self, bench, corpus, torch):
        super().__init__(bench)
        self.corpus = corpus
        self.given_torch = torch

    @cached_property
    def tree(self):
        path = self.corpus / "tree"
        if not (path / LIBRARY).exists():
            raise Missing(f"{path / LIBRARY} is not there; scripts/fetch-corpus fetches it")
        return Tree("librocsparse", path, LIBRARY)

    @cached_property
    def wheels(self):
        return [self.cupy, self.onnxruntime, self.jax]

    @cached_property
    def cupy(self):
        return self.wheel("cupy", self.corpus / "cupy_rocm_7_0-14.2.0-cp312-cp312-manylinux2014_x86_64.whl")

    @cached_property
    def onnxruntime(self):
        name = "onnxruntime_rocm-1.22.2.post3-cp312-cp312-manylinux_2_34_x86_64.whl"
        return self.wheel("onnxruntime", self.corpus / name)

    @cached_property
    def jax(self):
        return self.wheel("jax pjrt", self.corpus / "jax_rocm7_pjrt-0.12.0-py3-none-manylinux_2_27_x86_64.whl")

    @cached_property
    def wheel_with_large_library(self):
        return self.jax

    @cached_property
    def trees(self):
        return [self.unpacked(self.onnxruntime), self.tree, self.unpacked(self.jax)]

    @cached_property
    def splits(self):
        """The input, and the CPU seconds that splitting it may take, without writing."""
        return [(self.unpacked(self.onnxruntime), 1.5), (self.tree, 8), (Tree("jax pjrt wheel", self.jax.path, ""), 9)]

    @cached_property
    def manifests(self):
        """Inputs, and whether each is a wheel."""
        plugin = self.wheel("jax plugin", self.corpus / "jax_rocm7_plugin-0.12.0-cp312-cp312-manylinux_2_27_x86_64.whl")
        return [(self.tree, False), *((Tree(wheel.name, wheel.path, ""), True) for wheel in (plugin, *self.wheels))]

    @cached_property
    def rewritten(self):
        """Trees whose rewritten library is large enough for throughputs."""
        return [self.tree, self.unpacked(self.jax)]

    @cached_property
    def torch(self):
        return self.given_torch.resolve() if self.given_torch else self.torch_wheel("small")

    @cached_property
    def seed(self):
        return self.given_torch.resolve() if self.given_torch else self.torch_wheel("seed")


class Fixtures(Inputs):
    """Small inputs that are in the repository or made of what is."""

    databases = (60, 6, 1000)
    modules = 20
    plain_size = 1 << 16
    block = 4 << 10

    @cached_property
    def corpus(self):
        return self.work

    @cached_property
    def tree(self):
        path = self.work / "tree" / "lib"
        path.mkdir(parents=True)
        shutil.copyfile(FIXTURES / "mixed.so", path / "libfat.so")
        return Tree("fixture", path.parent, "lib/libfat.so")

    @cached_property
    def torch(self):
        return self.torch_wheel("tiny")

    @cached_property
    def seed(self):
        return self.torch

    @cached_property
    def wheels(self):
        return [self.wheel("tiny torch", self.torch)]

    @cached_property
    def wheel_with_large_library(self):
        return self.wheels[0]

    @cached_property
    def trees(self):
        return [self.tree]

    @cached_property
    def splits(self):
        return [(self.tree, 1)]

    @cached_property
    def manifests(self):
        return [(self.tree, False), *((Tree(wheel.name, wheel.path, ""), True) for wheel in self.wheels)]

    @cached_property
    def rewritten(self):
        return [self.tree]
