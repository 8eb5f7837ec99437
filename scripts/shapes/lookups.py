"""Libraries with made lists of entries: every form of each has the code that AMD's own libraries find in the fat one.

usage: lookups.py KPACKFS WORK [LIBRARY]      (called by scripts/check-runtime: splits, by librocm_kpack; LIBRARY is another one)
check-thin uses it for thin views, and check-split-input for joined binaries.
"""
import shutil
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

from oracles import Oracle, oracles

ROOT = Path(__file__).resolve().parent.parent.parent
FIXTURE = ROOT / 'tests/fixtures/plain.so'
MAGIC = b'__CLANG_OFFLOAD_BUNDLE__'
# Both bundles of the fixture, and code in them.
BUNDLES, FIRST_CODE, CODE = (4096, 20480), 4096, 128
NUMBERS = {'gfx900': 0x2c, 'gfx906': 0x2f, 'gfx908': 0x30, 'gfx90a': 0x3f, 'gfx90c': 0x32, 'gfx942': 0x4c, 'gfx950': 0x4f, 'gfx1030': 0x36,
           'gfx1100': 0x41, 'gfx1151': 0x4a, 'gfx1201': 0x4e, 'gfx1250': 0x49, 'gfx9-generic': 0x51, 'gfx9-4-generic': 0x5f,
           'gfx10-3-generic': 0x53, 'gfx11-generic': 0x54, 'gfx12-generic': 0x59}
FEATURES = {'xnack+': 0x300, 'xnack-': 0x200, 'sramecc+': 0xc00, 'sramecc-': 0x800}
# Devices, and the generic processors that HIP asks for next.
GENERIC = {'gfx906': 'gfx9-generic', 'gfx942': 'gfx9-4-generic', 'gfx1030': 'gfx10-3-generic', 'gfx1100': 'gfx11-generic', 'gfx1201': 'gfx12-generic'}
WITH_ECC = {'gfx906', 'gfx908', 'gfx90a', 'gfx942', 'gfx950'}
TRIPLE = 'amdgcn-amd-amdhsa--'
SPIRV = ('spirv64-amd-amdhsa-unknown-amdgcnspirv', 'spirv64-amd-amdhsa--amdgcnspirv')


# Each list is a name and its entries. "@TARGET" stands for hipv4 and the usual triple, and "0" before it for an entry without code.
LISTS = [
    ('one', '@gfx90a @gfx1030'),
    ('both modes', '@gfx90a:xnack- @gfx90a:xnack+'),
    ('all modes', '@gfx90a:sramecc+:xnack- @gfx90a:sramecc+:xnack+ @gfx90a:sramecc-:xnack- @gfx90a:sramecc-:xnack+'),
    ('order of features', '@gfx90a:xnack-:sramecc+ @gfx1030'),
    ('both orders', '@gfx90a:xnack-:sramecc+ @gfx90a:sramecc+:xnack+ @gfx906:xnack+:sramecc-'),
    ('order of features, twice', '@gfx90a:xnack-:sramecc+ @gfx90a:sramecc+:xnack-'),
    ('feature twice', '@gfx90a:xnack-:xnack- @gfx942:xnack+:xnack-'),
    ('kind hip', 'hip-amdgcn-amd-amdhsa--gfx90a hip-amdgcn-amd-amdhsa--gfx1100'),
    ('kind hcc', 'hcc-amdgcn-amd-amdhsa--gfx90a @gfx1100'),
    ('kinds mixed', 'hcc-amdgcn-amd-amdhsa--gfx90a hip-amdgcn-amd-amdhsa--gfx90a @gfx90a'),
    ('kind hipv5', 'hipv5-amdgcn-amd-amdhsa--gfx90a @gfx1100'),
    ('kind hipv5 before hipv4', 'hipv5-amdgcn-amd-amdhsa--gfx90a @gfx90a'),
    ('kind openmp', 'openmp-amdgcn-amd-amdhsa--gfx90a @gfx1030'),
    ('kind openmp before hip', 'openmp-amdgcn-amd-amdhsa--gfx90a hip-amdgcn-amd-amdhsa--gfx90a'),
    ('one dash', 'hipv4-amdgcn-amd-amdhsa-gfx90a hip-amdgcn-amd-amdhsa-gfx1030 @gfx1100'),
    ('one dash before two', 'hip-amdgcn-amd-amdhsa-gfx90a @gfx90a'),
    ('unknown spelled out', 'hipv4-amdgcn-amd-amdhsa-unknown-gfx90a @gfx1030'),
    ('unknown and two dashes', 'hipv4-amdgcn-amd-amdhsa-unknown--gfx942 @gfx942:xnack+'),
    ('environment llvm', 'hipv4-amdgcn-amd-amdhsa-llvm-gfx90a @gfx906'),
    ('other vendors', 'hipv4-amdgcn-mesa-amdhsa--gfx90a hipv4-amdgcn--amdhsa--gfx906 @gfx942'),
    ('other systems', 'hipv4-amdgcn-amd-amdpal--gfx90a hipv4-amdgcn-amd-mesa3d--gfx1030 @gfx1030'),
    ('other machines', 'hipv4-nvptx64-nvidia-cuda--sm_80 sycl-spir64-unknown-unknown-- @gfx90a'),
    ('subarchitecture', 'hipv4-amdgpu9.42-amd-amdhsa--gfx942 hip-amdgpu9.0a-amd-amdhsa-- @gfx1100'),
    ('no target', 'hip-amdgcn-amd-amdhsa-- @gfx90a'),
    ('upper case', '@GFX90A @gfx90a:XNACK- @gfx942'),
    ('dash for colon', '@gfx90a-xnack- @gfx90a:xnack+'),
    ('feature that is not known', '@gfx90a:future+ @gfx90a'),
    ('feature that is lacking', '@gfx1030:xnack+ @gfx1100:sramecc- @gfx900:sramecc+:xnack-'),
    ('bare before a mode', '@gfx90a @gfx90a:xnack-'),
    ('a mode before bare', '@gfx90a:xnack- @gfx90a'),
    ('two modes that meet', '@gfx90a:xnack- @gfx90a:sramecc+'),
    ('two modes that meet, reversed', '@gfx90a:sramecc+ @gfx90a:xnack-'),
    ('all before two modes that meet', '@gfx90a:sramecc-:xnack- @gfx90a:xnack- @gfx90a:sramecc+ @gfx90a'),
    ('a target twice', '@gfx90a @gfx1030 @gfx90a'),
    ('a target three times', '@gfx942:xnack+ @gfx942:xnack+ @gfx942:xnack+'),
    ('generic', '@gfx9-4-generic @gfx11-generic @gfx10-3-generic'),
    ('generic before native', '@gfx9-4-generic @gfx942 @gfx11-generic @gfx1100'),
    ('generic with modes', '@gfx9-4-generic:xnack+ @gfx9-4-generic:xnack- @gfx942:xnack+'),
    ('generic for one mode', '@gfx942:xnack+ @gfx9-4-generic'),
    ('generic under another kind', 'openmp-amdgcn-amd-amdhsa--gfx11-generic @gfx9-generic'),
    ('SPIR-V', 'hip-spirv64-amd-amdhsa--amdgcnspirv @gfx90a'),
    ('SPIR-V by hipv4', 'hipv4-spirv64-amd-amdhsa--amdgcnspirv @gfx942:xnack+'),
    ('SPIR-V, unknown spelled out', 'hip-spirv64-amd-amdhsa-unknown-amdgcnspirv @gfx1100'),
    ('SPIR-V under other IDs', 'openmp-spirv64-amd-amdhsa--amdgcnspirv hip-spirv64-amd-amdhsa-amdgcnspirv @amdgcnspirv @gfx90a'),
    ('empty before code', '0@gfx90a @gfx90a @gfx1030'),
    ('code before empty', '@gfx90a 0@gfx90a @gfx1030'),
    ('a mode is empty', '0@gfx90a:xnack- @gfx90a'),
    ('empty native, generic code', '0@gfx942 @gfx9-4-generic'),
    ('all empty but one', '0@gfx906 0@gfx90a 0@gfx942 @gfx1030'),
]


def devices(gpu):
    """The names by which runtimes call a GPU, one for each of its modes. Features in its name are fixed."""
    processor, *features = gpu.split(':')
    modes = [('sramecc+', 'sramecc-') if processor in WITH_ECC else ('',), ('xnack+', 'xnack-') if processor in WITH_ECC | {'gfx900'} else ('',)]
    names = [':'.join(filter(None, (processor, sramecc, xnack))) for sramecc in modes[0] for xnack in modes[1]]
    return [name for name in names if set(features) <= set(name.split(':'))]


DEVICES = [device for gpu in ('gfx900', 'gfx906', 'gfx90a', 'gfx942', 'gfx1030', 'gfx1100', 'gfx1201', 'gfx1250') for device in devices(gpu)]


def code(target, text):
    """A code object with the header that a compiler writes for a target; other text is code for gfx90a."""
    if 'amdgcnspirv' in target:
        return struct.pack('<II', 0x07230203, 0x00010600).ljust(64, b'\0') + text.ljust(CODE - 64, b'\0')
    processor, *features = target.split(':')
    last = {it[:-1]: it for it in features}.values()
    flags = NUMBERS.get(processor, 0x3f) | sum(FEATURES.get(it, 0) for it in last)
    header = b'\x7fELF\x02\x01\x01\x40\x03'.ljust(16, b'\0') + struct.pack('<HHI24xIH', 3, 224, 1, flags, 64)
    return header.ljust(64, b'\0') + text.ljust(CODE - 64, b'\0')


def library(entries):
    """The fixture with other entries in both bundles, and the code of the first."""
    data = bytearray(FIXTURE.read_bytes())
    for unit, start in enumerate(BUNDLES):
        table, at = MAGIC + struct.pack('<Q', len(entries) + 1), FIRST_CODE
        host = b'host-x86_64-unknown-linux-gnu-'
        table += struct.pack('<QQQ', at, 0, len(host)) + host
        for number, entry in enumerate(entries):
            size = 0 if entry.startswith('0') else CODE
            name = entry.removeprefix('0').replace('@', 'hipv4-' + TRIPLE)
            table += struct.pack('<QQQ', at, size, len(name)) + name.encode()
            if size:
                data[start + at:start + at + size] = code(name.split('--')[-1], f'entry {number} of unit {unit}'.encode())
                at += size
        data[start:start + len(table)] = table
    return data


class Elf:
    """The bundles that the wrappers of a library lead to, and the section with the marker."""

    def __init__(self, path):
        self.data = data = Path(path).read_bytes()
        table, = struct.unpack_from('<Q', data, 40)
        each, number, names = struct.unpack_from('<HHH', data, 58)
        self.headers = [struct.unpack_from('<IIQQQQIIQQ', data, table + each * at) for at in range(number)]
        start = self.headers[names][4]
        text = lambda at: data[start + at:data.find(b'\0', start + at)].decode()
        self.named = {text(header[0]): header for header in self.headers}

    def bundle(self):
        """What the first wrapper leads to."""
        header = self.named['.hipFatBinSegment']
        relocated = {}
        for it in self.headers:
            for at in range(it[4], it[4] + it[5], 24) if it[1] == 4 else []:
                address, _, addend = struct.unpack_from('<QQq', self.data, at)
                relocated[address] = addend
        pointer, = struct.unpack_from('<Q', self.data, header[4] + 8)
        pointer = relocated.get(header[3] + 8, pointer)
        programs, = struct.unpack_from('<Q', self.data, 32)
        size, number = struct.unpack_from('<HH', self.data, 54)
        for at in range(programs, programs + size * number, size):
            kind, _, offset, address, _, length, _ = struct.unpack_from('<IIQQQQQ', self.data, at)
            if kind == 1 and address <= pointer < address + length:
                return self.data[offset + pointer - address:]
        sys.exit('the wrapper leads nowhere')

    def marker(self):
        _, _, _, _, offset, size, *_ = self.named.get('.rocm_kpack_ref', (0,) * 10)
        return self.data[offset:offset + size]


def steps(device):
    """What HIP asks for, in its order: the ISA, its generic one, SPIR-V."""
    gpu, _, features = device.partition(':')
    if GENERIC.get(gpu) == 'gfx9-generic':
        features = features.split(':')[-1]  # no SRAM-ECC
    generic = [TRIPLE + ':'.join(filter(None, (GENERIC[gpu], features)))] if gpu in GENERIC else []
    return [[TRIPLE + device], generic, SPIRV]


def found(comgr, bundle, isas):
    """The code for the first of these ISAs that has some, as hexadecimal digits, or None."""
    hit = next(filter(None, (comgr.look_up(bundle, isa) for isa in isas)), None)
    return hit and bundle[hit[0]:hit[0] + hit[1]].hex()


class Lists:
    """All lists, in the forms that are asked for: thin, joined or split."""

    def __init__(self, kpackfs, work, fail):
        self.kpackfs, self.work, self.fail, self.counts = kpackfs, Path(work) / 'lists', fail, Counter()

    def run(self, *arguments):
        return subprocess.run([self.kpackfs, *map(str, arguments)], capture_output=True, text=True)

    def each(self):
        """The name of each list, and a directory with the library in tree/lib."""
        for name, entries in LISTS:
            place = self.work / name.replace(' ', '-').replace(',', '')
            shutil.rmtree(place, ignore_errors=True)
            (place / 'tree/lib').mkdir(parents=True)
            (place / 'tree/lib/libx.so').write_bytes(library(entries.split()))
            self.counts['lists'] += 1
            yield name, place

    def site(self, place):
        """The split, as it is installed."""
        done = self.run('split', place / 'tree', '-o', place / 'out')
        if done.returncode or (verified := self.run('verify', place / 'out', '--against', place / 'tree')).returncode:
            self.fail(place.name, done.stderr or verified.stdout)
            return None
        for part in sorted((place / 'out').iterdir()):
            if part.name != '.kpackfs':
                shutil.copytree(part, place / 'site', dirs_exist_ok=True)
        return place / 'site'

    def thin(self):
        """What HIP finds in a thin view is what it finds in the fat library."""
        for name, place in self.each():
            fat, views = Elf(place / 'tree/lib/libx.so').bundle(), {}
            for gpu in sorted({device.split(':')[0] for device in DEVICES}):
                done = self.run('split', place / 'tree', '-o', place / gpu, '--view', f'thin/{gpu}')
                views[gpu] = None if done.returncode else Elf(place / gpu / 'thin' / gpu / 'lib/libx.so').bundle()
            for comgr in self.oracles('comgr'):
                for device in DEVICES:
                    isas = [isa for step in steps(device) for isa in step]
                    thin, expected = views[device.split(':')[0]], found(comgr, fat, isas)
                    self.compare(name, f'{comgr.name}, thin', device, expected, thin and found(comgr, thin, isas))

    def joined(self):
        """COMGR's answer for each ISA is the same for the joined library."""
        for name, place in self.each():
            if not (site := self.site(place)):
                continue
            done = self.run('split', site, '-o', place / 'joined', '--view', 'fat')
            if done.returncode:
                self.fail(name, done.stderr)
                continue
            fat, joined = (Elf(place / path / 'lib/libx.so').bundle() for path in ('tree', 'joined/fat'))
            for comgr in self.oracles('comgr'):
                for device in DEVICES:
                    for isas in filter(None, steps(device)):
                        self.compare(name, f'{comgr.name}, joined', isas[0], found(comgr, fat, isas), found(comgr, joined, isas))

    def split(self, *libraries):
        """What librocm_kpack loads for each ISA is what COMGR finds in the fat library."""
        for name, place in self.each():
            if not (site := self.site(place)):
                continue
            fat, host = Elf(place / 'tree/lib/libx.so').bundle(), site / 'lib/libx.so'
            marker = Elf(host).marker()
            newest = self.oracles('comgr')[-1]
            for kpack in [*libraries, *self.oracles('kpack')]:
                for device in DEVICES:
                    for isas in filter(None, steps(device)):
                        target = isas[0].removeprefix(TRIPLE) if isas is not SPIRV else 'amdgcnspirv'
                        loaded = kpack.load(host, marker, 0, [target]) if marker else None
                        self.compare(name, kpack.name, target, found(newest, fat, isas), loaded)

    def oracles(self, kind):
        if not hasattr(self, 'known'):
            self.known = oracles('comgr', 'kpack')
        return [oracle for oracle in self.known if oracle.kind == kind]

    def compare(self, name, oracle, isa, expected, got):
        self.counts[f'look-ups by {oracle}'] += 1
        self.counts['with code'] += expected is not None
        if expected != got:
            entry = lambda it: bytes.fromhex(it)[64:].rstrip(b'\0').decode() if it else 'nothing'
            self.fail(f'{name}: {oracle}: {isa} finds {entry(got)}, and {entry(expected)} in the fat library')

    def told(self):
        return ', '.join(f'{number} {what}' for what, number in self.counts.items())


def main():
    failures = []
    lists = Lists(sys.argv[1], sys.argv[2], lambda *words: failures.append(' '.join(map(str, words))))
    if not lists.oracles('comgr') or not (lists.oracles('kpack') or sys.argv[3:]):
        return print('LEFT OUT: no COMGR, or no librocm_kpack, so that NO made list was looked up')
    lists.split(*(Oracle('kpack', 'of kpackfs', path) for path in sys.argv[3:]))
    print(lists.told(), f'{len(failures)} failures', *failures[:20], sep='\n  ')
    sys.exit(bool(failures))


if __name__ == '__main__':
    main()
