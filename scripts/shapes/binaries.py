"""Shared by check-shapes and check-tools: loading binaries under a logging runtime, and complaints of tools."""
import ctypes
import os
import re
import shutil
import struct
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
LINTERS = {
    'readelf': ['readelf', '--wide', '--headers', '--dynamic', '--notes', '--version-info', '--relocs'],
    'llvm-readelf': ['llvm-readelf', '--wide', '--file-header', '--program-headers', '--sections', '--dynamic-table', '--relocations'],
    'eu-elflint': ['eu-elflint', '--gnu-ld'],
}
# Constructors call virtual functions of what these return: onnxruntime's providers.
OBJECT_GETTERS = {'Provider_GetHost'}
RUNTIME_FUNCTIONS = set(re.findall(r'^\w[\w ]*?\**(\w+)\(.*\) \{', (HERE / 'runtime.c').read_text(), re.MULTILINE)) - {'leads_to'}
LIBRARY, EXECUTABLE, FOREIGN = 'library', 'executable', 'foreign'


def run(command, timeout=600, **options):
    return subprocess.run([str(it) for it in command], capture_output=True, text=True, errors='replace', timeout=timeout, **options)


def brief(text, limit=160):
    line = ' '.join(text.split()).replace('|', r'\|')
    return line if len(line) <= limit else line[:limit] + '…'


class Elf:
    """Program headers, and whether this machine can load the file."""

    def __init__(self, path):
        with open(path, 'rb') as file:
            header = file.read(64)
            self.is_elf = header[:4] == b'\x7fELF' and header[4] == 2
            self.segments, self.kind = [], FOREIGN
            if not self.is_elf:
                return
            kind, machine = struct.unpack_from('<HH', header, 16)
            (table,) = struct.unpack_from('<Q', header, 32)
            (count,) = struct.unpack_from('<H', header, 56)
            file.seek(table)
            self.segments = [struct.unpack('<IIQQQQQQ', file.read(56)) for _ in range(count)]
        interpreter = any(segment[0] == 3 for segment in self.segments)
        if machine == os_machine():
            if kind == 2 or (kind == 3 and interpreter):
                self.kind = EXECUTABLE
            elif kind == 3:
                self.kind = LIBRARY

    def breaks_alignment(self):
        """glibc before 2.35 refuses a segment whose offset and address differ modulo its own p_align, or whose p_align is
        not a multiple of the page (elf/dl-load.c, "ELF load command address/offset not properly aligned")."""
        loads = [segment for segment in self.segments if segment[0] == 1]
        return [index for index, (_, _, offset, address, _, _, _, align) in enumerate(loads)
                if align & 4095 or (align and (address - offset) % align)]


def os_machine():
    return {'x86_64': 62, 'aarch64': 183}.get(os.uname().machine)


def installed_linters():
    return {name: command for name, command in LINTERS.items() if shutil.which(command[0])}


def complaints(path):
    """Complaints of tools, without numbers and file names."""
    found = set()
    for name, command in installed_linters().items():
        result = run([*command, path])
        text = result.stdout if name == 'eu-elflint' else result.stderr
        for line in text.splitlines():
            line = line.strip().replace(str(path), '').replace(os.path.basename(path), '')
            if line and line != 'No errors':
                found.add(name + ': ' + re.sub(r'0x[0-9a-f]+|\b\d+\b', '#', line))
        if result.returncode < 0:
            found.add(f'{name}: killed by signal {-result.returncode}')
    return found


class NotLoaded(Exception):
    """The reason, and the wrappers that were registered before."""

    def __init__(self, reason, found):
        super().__init__(reason)
        self.found = found


class Loader:
    """Loads libraries and runs executables under the runtime, with empty libraries for what this machine lacks."""

    def __init__(self, work, source=HERE / 'runtime.c', options=(), libraries=()):
        """`source` may be another runtime that defines the same functions; it is linked to `libraries`."""
        self.work = Path(work)
        self.work.mkdir(parents=True, exist_ok=True)
        self.runtime, self.libraries = self.work / 'runtime.o', libraries
        subprocess.run(['cc', '-O1', '-fPIC', '-w', *options, '-c', source, '-o', self.runtime], check=True)
        self.environments = {}

    def load(self, path, stand_ins_of=None):
        """Gives the wrappers registered, as tuples of address, magic, version, index, what is there; or raises
        NotLoaded. `stand_ins_of`: the file that this one was made from, if it needs the same libraries."""
        log = self.work / 'registrations'
        log.write_text('')
        try:
            result = self.start(path, stand_ins_of or path, {'REGISTRATIONS': str(log)})
        except OSError as error:
            raise NotLoaded(brief(error.strerror), [])
        except subprocess.TimeoutExpired:
            raise NotLoaded('not loaded within 120 s', [])
        lines = [line.rsplit(' ', 5) for line in log.read_text().splitlines()]
        magics = {'48495046': 'HIPF', '4b504948': 'HIPK'}
        found = [(int(address, 16), magics.get(magic, magic), int(version), int(index, 16), what)
                 for name, address, magic, version, index, what in lines if name == os.path.basename(path)]
        if result.returncode:
            lines = result.stderr.strip().splitlines()
            reason = f'signal {-result.returncode}' if result.returncode < 0 else f'exit code {result.returncode}'
            raise NotLoaded(brief(f'{reason} {lines[-1] if lines else ""}'.replace(str(path), os.path.basename(path))), found)
        return found

    def start(self, path, stand_ins_of, variables):
        """Loads or runs a file, and returns the result."""
        environment = {**os.environ, **self.environment(stand_ins_of), **variables}
        command = [path]
        # A packed executable has no interpreter, and looks like a library.
        if Elf(stand_ins_of).kind == LIBRARY:
            code = 'import ctypes, os, sys; ctypes.CDLL(sys.argv[1]); os._exit(0)'
            command = [sys.executable, '-c', code, path]
        return run(command, timeout=120, env=environment, cwd=self.work)

    def environment(self, path):
        if path not in self.environments:
            self.environments[path] = self.stand_ins(path)
        return self.environments[path]

    def stand_ins(self, path):
        directory = self.work / f'stand-ins-{len(self.environments)}'
        directory.mkdir()
        text = run(['readelf', '--wide', '--dynamic', '--dyn-syms', '--version-info', path]).stdout
        needed = re.findall(r'\(NEEDED\).*\[(.*)\]', text)
        missing, present = [], [ctypes.CDLL(None)]
        for name in [*needed, 'libm.so.6', 'libstdc++.so.6', 'libgcc_s.so.1']:
            try:
                present.append(ctypes.CDLL(name))
            except OSError:
                missing.append(name)
        runtimes = [name for name in missing if name.startswith('libamdhip64')]
        symbols = undefined(text)
        if not runtimes and any(name == '__hipRegisterFatBinary' for name, *_ in symbols):
            runtimes = ['libpreloaded.so']
        wanted = defaultdict(set)
        unversioned = (runtimes or missing or ['libpreloaded.so'])[0]
        for name, kind, library, version in symbols:
            if library in missing:
                wanted[library].add((name, kind, version))
            elif not library and not any(hasattr(it, name) for it in present):
                wanted[unversioned].add((name, kind, None))
        versions = defaultdict(set)
        for library, version in version_nodes(text).values():
            versions[library].add(version)
        for name in {*missing, *runtimes, *wanted}:
            self.stand_in(directory / name, wanted[name], versions[name], name in runtimes)
        environment = {'LD_LIBRARY_PATH': str(directory)}
        if (directory / 'libpreloaded.so').exists():
            environment['LD_PRELOAD'] = str(directory / 'libpreloaded.so')
        return environment

    def stand_in(self, path, symbols, versions, is_runtime):
        """A library of functions that return 0 and data that is 0."""
        source = ['.section .note.GNU-stack,"",@progbits']
        for name, kind in sorted({(name, kind) for name, kind, _ in symbols}):
            if is_runtime and name in RUNTIME_FUNCTIONS:
                continue
            section, body = ('.data', '.zero 4096') if kind in ('OBJECT', 'TLS') else ('.text', 'xor %eax,%eax\nret')
            if name in OBJECT_GETTERS:
                body = 'lea 1f(%rip),%rax\nret\n2: xor %eax,%eax\nret\n.data\n.balign 8\n1: .quad 3f\n3: .rept 4096\n.quad 2b\n.endr'
            source.append(f'{section}\n.globl {name}\n.type {name},@{"object" if section == ".data" else "function"}\n{name}: {body}')
        assembly = Path(f'{path}.s')
        assembly.write_text('\n'.join(source) + '\n')
        command = ['cc', '-shared', '-nostartfiles', f'-Wl,-soname,{path.name}', '-o', path, assembly]
        if is_runtime:
            command += [self.runtime, *self.libraries]
        if versions:
            nodes = [f'{node} {{ global: {" ".join(name + ";" for name, _, version in symbols if version == node)} }};' for node in sorted(versions)]
            script = Path(f'{path}.map')
            script.write_text('\n'.join(nodes).replace('global:  }', '}') + '\n')
            command.append(f'-Wl,--version-script={script}')
        result = run(command)
        if result.returncode:
            raise NotLoaded(brief('no stand-in: ' + result.stderr), [])


def version_nodes(text):
    """Library and version of each number that a dynamic symbol can have."""
    nodes, library = {}, None
    for line in text.splitlines():
        if match := re.search(r'Version: \d+\s+File: (\S+)\s+Cnt:', line):
            library = match[1]
        elif match := re.search(r'Name: (\S+)\s+Flags: .*Version: (\d+)', line):
            nodes[int(match[2])] = (library, match[1])
    return nodes


def undefined(text):
    """Name, type, library and version of each dynamic symbol that others have to define."""
    nodes = version_nodes(text)
    symbols = []
    for line in text.splitlines():
        match = re.match(r'\s*\d+: \S+\s+\S+ (\w+)\s+(\w+)\s+\w+\s+UND ([\w.$]+)(?:@\S+ \((\d+)\))?$', line)
        if match:
            library, version = nodes.get(int(match[4]), (None, None)) if match[4] else (None, None)
            if library or match[2] != 'WEAK':
                symbols.append((match[3], match[1], library, version))
    return symbols


def difference(original, rewritten):
    """Why the wrappers that the two files register do not belong together, or None."""
    if [it[0] for it in original] != [it[0] for it in rewritten]:
        return f'registers {len(rewritten)} wrappers instead of {len(original)}, or in another order'
    if any(it[1:3] != ('HIPF', 1) or it[4] != 'bundle' for it in original):
        return 'the original registers something else than bundles'
    for address, magic, version, index, what in rewritten:
        if (magic, version, what) != ('HIPK', 1, 'marker'):
            return f'the wrapper at {address:#x} is {magic}, version {version}, and leads to {what}'
    by_address = [it[3] for it in sorted(rewritten)]
    if any(a >= b for a, b in zip(by_address, by_address[1:])):
        return f'indices by address are {by_address}'
    return None


def installed_version(command):
    result = run([command, '--version'])
    lines = (result.stdout + result.stderr).strip().splitlines()
    version = re.search(r'\d[\w.]*\d', ' '.join(line for line in lines[:3]))
    return version[0] if version else lines[0]
