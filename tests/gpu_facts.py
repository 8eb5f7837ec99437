"""Compares the facts about GPUs in tests/facts with sources of LLVM, COMGR, CLR and ROCr, as text.

A fact that a source contradicts, or a processor that a source has and the facts lack, is an error. A fact that a source
lacks is a note: the source may be older. Each source is a checkout, or any directory that has the file.
"""

import re
import sys
from pathlib import Path

FACTS = Path(__file__).resolve().parent / "facts"

# Compilers no longer make code for these.
OTHERS = re.compile(r"gfx940$|gfx941$|gfx125f$")


def rows(name):
    lines = (FACTS / name).read_text().splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


def find(directory, path):
    """The file with this path in a checkout, or with its name in any other directory."""
    for pattern in (path, Path(path).name):
        for found in sorted(Path(directory).rglob(pattern)):
            return found, found.read_text(errors="replace")
    sys.exit(f"{directory}: {path} not found in it")


def numbers(text):
    """ELF.h: `EF_AMDGPU_MACH_AMDGCN_GFX90A = 0x03f` or `X(0x3f, EF_AMDGPU_MACH_AMDGCN_GFX90A, "gfx90a")`."""
    found = {name: int(number, 16) for number, name in re.findall(r'X\((0x[0-9a-fA-F]+),\s*EF_AMDGPU_MACH_AMDGCN_\w+,\s*"([^"]+)"', text)}
    for name, number in re.findall(r"EF_AMDGPU_MACH_AMDGCN_(GFX\w+)\s*=\s*(0x[0-9a-fA-F]+)", text):
        found.setdefault(name.lower().replace("_", "-"), int(number, 16))
    return found


def xnack(text):
    """AMDGPUTargetParser.def. Since XNACK_ON_OFF_MODES exists, XNACK alone means that it is always on."""
    tells_modes = "FEATURE_XNACK_ON_OFF_MODES" in text

    def mode(features):
        if "FEATURE_XNACK_ALWAYS" in features:
            return "on"
        if "FEATURE_XNACK" not in features:
            return "-"
        return "on" if tells_modes and "FEATURE_XNACK_ON_OFF_MODES" not in features else "modes"

    found = re.findall(r'^AMDGCN_GPU\s*\("([^"]+)",\s*\w+,\s*\([^)]*\),\s*([\w|]+)\)', text, re.M)
    return {name: mode(features.split("|")) for name, features in found}


def isas(text):
    """comgr-isa-metadata.def."""
    return re.findall(r'^HANDLE_ISA\("[^"]+",\s*"([^"]+)"', text, re.M)


def fallbacks(text):
    """TargetGenericMap in hip_fatbin.cpp."""
    return dict(re.findall(r'\{"amdgcn-amd-amdhsa--(gfx[^"]+)"\s*,\s*"amdgcn-amd-amdhsa--(gfx[^"]+)"\s*\}', text))


def sramecc(text):
    """supportedIsas in CLR's device.cpp: ID, backends, version, SRAM-ECC, XNACK."""
    row = r'\{"(gfx[\w-]+)", (?:true|false), (?:true|false), \d+, \d+, \d+, (\w+), (\w+),'
    return {name: "modes" if ecc == "ANY" else "-" for name, ecc, _ in re.findall(row, text)}


def compare(what, path, ours, theirs):
    """Prints differences. Returns the number of errors."""
    theirs = {name: value for name, value in theirs.items() if not OTHERS.match(name)}
    wrong = [f"{name} is {theirs[name]!r} there and {ours[name]!r} in the facts" for name in theirs if name in ours and ours[name] != theirs[name]]
    missing = [f"{name} ({value!r}) is not in the facts" for name, value in theirs.items() if name not in ours]
    older = [name for name in ours if name not in theirs]
    for problem in wrong + missing:
        print(f"{path}: {what}: {problem}")
    if older:
        print(f"note: {path}: {what}: older than the facts: it lacks {', '.join(older)}")
    if not theirs:
        print(f"{path}: {what}: nothing found: its form has changed")
    return len(wrong) + len(missing) + (not theirs)


def main(sources):
    processors = rows("processors.txt")
    merged = {name: generic for name, generic, state in rows("fallbacks.txt") if state == "merged"}
    errors = 0
    if directory := sources.get("--llvm"):
        path, text = find(directory, "BinaryFormat/ELF.h")
        errors += compare("numbers", path, {row[0]: int(row[1], 16) for row in processors}, numbers(text))
        path, text = find(directory, "TargetParser/AMDGPUTargetParser.def")
        errors += compare("XNACK", path, {row[0]: row[2] for row in processors}, xnack(text))
    if directory := sources.get("--comgr"):
        path, text = find(directory, "src/comgr-isa-metadata.def")
        errors += compare("ISAs", path, {row[0]: True for row in processors}, dict.fromkeys(isas(text), True))
    if directory := sources.get("--clr"):
        path, text = find(directory, "hipamd/src/hip_fatbin.cpp")
        errors += compare("fallbacks", path, merged, fallbacks(text))
        path, text = find(directory, "rocclr/device/device.cpp")
        errors += compare("SRAM-ECC", path, {row[0]: row[3] for row in processors}, sramecc(text))
    print(f"{errors} differences")
    return 1 if errors else 0


if __name__ == "__main__":
    options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    if not options or len(sys.argv) % 2 == 0 or not options.keys() <= {"--llvm", "--comgr", "--clr"}:
        sys.exit("usage: gpu_facts.py [--llvm DIR] [--comgr DIR] [--clr DIR]")
    sys.exit(main(options))
