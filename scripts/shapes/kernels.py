"""usage: kernels.py KPACKFS LIBRARY CORPUS WORK     (called by scripts/check-runtime)"""
import hashlib
import json
import mmap
import os
import shutil
import struct
import subprocess
import sys
import time
import zipfile
import zlib
from pathlib import Path

from binaries import FOREIGN, Elf, Loader, brief, run

kpackfs, library, corpus, work = sys.argv[1], *map(Path, sys.argv[2:])
mount_point = work / 'mount'
INPUTS = ['bitsandbytes-*linux*.whl', 'onnxruntime_rocm-*.whl', 'tree']
HOST = 'host-'


def bundle(file, offset):
    """Code objects by target of the bundle at an offset of a fat binary."""
    if file[offset:offset + 4] == b'CCOB':
        version, method = struct.unpack_from('<HH', file, offset + 4)
        if version == 3:
            total, header = struct.unpack_from('<Q', file, offset + 8)[0], 32
        else:
            total, header = struct.unpack_from('<I', file, offset + 8)[0], 24
        packed = file[offset + header:offset + total]
        file = subprocess.run(['zstd', '-dcq'], input=packed, capture_output=True, check=True).stdout if method else zlib.decompress(packed)
        offset = 0
    if file[offset:offset + 24] != b'__CLANG_OFFLOAD_BUNDLE__':
        sys.exit(f'no bundle at {offset:#x}')
    (count,) = struct.unpack_from('<Q', file, offset + 24)
    at, objects = offset + 32, {}
    for _ in range(count):
        start, size, length = struct.unpack_from('<QQQ', file, at)
        triple = file[at + 24:at + 24 + length].decode()
        at += 24 + length
        if not triple.startswith(HOST):
            objects[triple.split('--', 1)[1]] = hashlib.sha256(file[offset + start:offset + start + size]).hexdigest()
    return objects


def registered(loader, path, original, devices):
    """For each device, what the wrappers got in the order of their addresses: code, number, SHA-256."""
    output = work / 'output'
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    result = loader.start(path, original, {'HIP_OUTPUT': str(output), 'HIP_DEVICES': ';'.join(devices)})
    log = output / 'log'
    if not log.exists():
        sys.exit(f'{path}: nothing was registered: {brief(result.stderr)}')
    found = {device: {} for device in devices}
    for line in log.read_text().splitlines():
        magic, address, index, device, code, number, _ = line.split(' ', 6)
        file = output / number
        digest = hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else None
        found[device][int(address, 16)] = (magic, int(index), int(code), int(number), digest)
    shutil.rmtree(output)
    return {device: [wrappers[address] for address in sorted(wrappers)] for device, wrappers in found.items()}


def devices_of(target):
    """The targets that HIP may look up in the view of a target, and the targets whose code it may get, best first."""
    yield target, [target]
    yield f'{target}:xnack+', [f'{target}:xnack+', target]
    yield f'{target}:sramecc+:xnack-', [f'{target}:sramecc+:xnack-', f'{target}:sramecc+', f'{target}:xnack-', target]


def check(loader, name, original):
    """Compares what each wrapper of a binary gets in each merged view with the bundle in the fat one."""
    with open(original, 'rb') as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as bytes_:
        wrappers = registered(loader, original, original, ['-'])['-']
        if any(magic != '48495046' or code for magic, _, code, _, _ in wrappers):
            sys.exit(f'{original}: is not fat')
        bundles = [bundle(bytes_, offset) for *_, offset, _ in wrappers]
    compared, failures, start = 0, [], time.perf_counter()
    targets = sorted(path.name for path in (mount_point / 'merged').iterdir())
    for target in targets:
        devices = dict(devices_of(target))
        for asked, found in registered(loader, mount_point / 'merged' / target / name, original, list(devices)).items():
            if len(found) != len(bundles):
                failures.append(f'{asked}: {len(found)} wrappers instead of {len(bundles)}')
                continue
            for position, ((magic, index, code, _, digest), objects) in enumerate(zip(found, bundles)):
                expected = next((objects[it] for it in devices[asked] if it in objects), None)
                if digest != expected or index != position or magic != '4b504948':
                    failures.append(f'{asked}, wrapper {position}: code {code}, index {index}, {magic}')
                compared += expected is not None
    print(f'{Path(name).name}: {len(bundles)} wrappers, {len(targets)} views, {compared} code objects as in the fat file, '
          f'{time.perf_counter() - start:.1f} s', *failures[:20], sep='\n  ' if failures else '')
    return bool(failures) or not compared


def main():
    inputs = [path for pattern in INPUTS for path in sorted(corpus.glob(pattern))]
    if not inputs:
        sys.exit(f'*** SKIPPED: there is nothing in {corpus}; NO real kernel was looked up (see scripts/fetch-corpus) ***')
    loader = Loader(work / 'loader', Path('tests/mounts/mount/hip.c'), ['-Iruntime/include'], [library, f'-Wl,-rpath,{library.parent}'])
    failed = False
    for path in inputs:
        report = json.loads(run([kpackfs, 'inspect', '--json', path]).stdout)
        mounted = run([kpackfs, 'mount', path, mount_point])
        if mounted.returncode:
            sys.exit(mounted.stderr)
        try:
            for binary in report['binaries']:
                name = binary['path']
                original = path / name
                if path.is_file():
                    with zipfile.ZipFile(path) as archive:
                        original = Path(archive.extract(name, work / 'fat'))
                        original.chmod(0o755)
                if Elf(original).kind != FOREIGN:
                    failed |= check(loader, name, original)
        finally:
            run([kpackfs, 'umount', '--lazy', mount_point])
        shutil.rmtree(work / 'fat', ignore_errors=True)
    sys.exit(failed)


main()
