"""usage: tools.py KPACKFS CORPUS WORK OUT.md PYTHON PATCHELF…     (called by scripts/check-tools; PYTHON has lief, auditwheel, setuptools)"""
import json
import shutil
import subprocess
import sys
import zipfile
from collections import defaultdict
from functools import partial
from pathlib import Path

from binaries import FOREIGN, HERE, LIBRARY, Elf, Loader, NotLoaded, brief, difference, installed_version, run
from wheel_tools import auditwheel, make_wheel, setuptools, unpack

kpackfs, corpus, work, output, python, patchelfs = sys.argv[1], *map(Path, sys.argv[2:6]), sys.argv[6:]
fixtures = Path('tests/fixtures')
RPATH = '$ORIGIN/' + '/'.join(['a-long-directory-name'] * 20)
# conda builds below a path of 255 characters, which installers replace by that of the environment.
PLACEHOLDER = '/home/build/' + ('placeholder_' * 21)[:243]
PREFIX_TOOL = 'prefix of conda'


def distribution_version(name):
    return run([python, '-c', f'import importlib.metadata as it; print(it.version("{name}"))']).stdout.strip()


TOOLS = {
    f'strip {installed_version("strip")}': ['strip'],
    f'objcopy --strip-debug {installed_version("objcopy")}': ['objcopy', '--strip-debug'],
    **{f'llvm-strip {installed_version(it)}': [it] for it in ('llvm-strip', 'llvm-strip-19') if shutil.which(it)},
    f'eu-strip {installed_version("eu-strip")}': ['eu-strip'],
    **{f'patchelf --set-rpath {installed_version(path)}': [path, '--set-rpath', RPATH] for path in patchelfs},
    f'LIEF {distribution_version("lief")}: RUNPATH': [python, HERE / 'lief_runpath.py', RPATH],
    f'dwz {installed_version("dwz")}': ['dwz'],
    **{f'UPX {installed_version(it)}': [it, '-qq'] for it in ('upx-ucl',) if shutil.which(it)},
    PREFIX_TOOL: [sys.executable, HERE / 'replace_prefix.py', PLACEHOLDER, '/opt/env'],
}
# What is done to the fat original before it is split.
PREPARED = {PREFIX_TOOL: [patchelfs[0], '--set-rpath', f'{PLACEHOLDER}/lib']}
# Tools that make wheels or change them: functions of wheel_tools.
WHEEL_TOOLS = {
    f'auditwheel repair {distribution_version("auditwheel")}': auditwheel,
    **{f'setuptools {distribution_version("setuptools")}: {patterns}': partial(setuptools, patterns) for patterns in (['**/*'], ['**/*', '.kpack/*'])},
}
IN_WHEELS = ('plain.so', 'patchelf.so', 'insert-before-bss.so', 'librocrand.so.1.1', 'libbitsandbytes_rocm715.so')
WORKS, NOTHING, REFUSES = 'works', 'nothing to do', 'refuses'


def with_debug_information():
    """Makes a library that dwz can work on."""
    fatbin, runtime, path = work / 'fatbin', work / 'libamdhip64.so.6', work / 'debug-gcc.so'
    commands = [['objcopy', '--dump-section', f'.hip_fatbin={fatbin}', fixtures / 'plain.so', work / 'unused'],
                ['cc', '-shared', '-fPIC', '-w', '-Wl,-soname,libamdhip64.so.6', HERE / 'runtime.c', '-o', runtime]]
    compile = ['cc', '-g', '-O1', '-fPIC', f'-DFATBIN="{fatbin}"', '-c', HERE / 'debug.c']
    commands += [[*compile, f'-DUNIT={unit}', '-o', work / f'debug-{unit}.o'] for unit in (0, 1)]
    commands.append(['cc', '-shared', '-Wl,-soname,debug-gcc.so', work / 'debug-0.o', work / 'debug-1.o', runtime, '-o', path])
    for command in commands:
        subprocess.run(command, check=True)
    return path


def examples():
    """Names and paths of the tested binaries."""
    path = with_debug_information()
    yield path.name, path
    for path in sorted(fixtures.iterdir()):
        if path.is_file() and path.suffix not in ('.md', '.json') and Elf(path).kind != FOREIGN:
            yield path.name, path
    for path in corpus.glob('tree/usr/lib/*/librocrand.so.1.1'):
        yield path.name, path
    for pattern, member in (('bitsandbytes-*linux*.whl', 'bitsandbytes/libbitsandbytes_rocm715.so'), ('jax_rocm7_plugin-*.whl', 'jax_rocm7_plugin/_linalg.so')):
        for wheel in corpus.glob(pattern):
            with zipfile.ZipFile(wheel) as archive:
                path = Path(archive.extract(member, work / 'members'))
                path.chmod(0o755)
                yield path.name, path


def change(command, path):
    """Runs the tool on the file; returns why it failed, or None."""
    before = path.read_bytes()
    result = run([*command, path])
    said = brief((result.stderr or result.stdout).replace(str(path), 'FILE').replace(path.name, 'FILE'), 110)
    if result.returncode < 0:
        return f'crashes (signal {-result.returncode})'
    if 'debug_info' in said and path.read_bytes() == before:
        return NOTHING
    if result.returncode or (said and path.read_bytes() == before):
        return f'{REFUSES}: {said}'
    return None


def wrappers_of(loader, path, original):
    """The wrappers that a file registers, with addresses from the first one on: LIEF moves what it adds something to."""
    found = loader.load(path, stand_ins_of=original)
    return [(address - found[0][0], *more) for address, *more in found]


def loading(loader, path, original, expected, is_fat=False):
    """The problem with loading the file, or None. `expected` are the wrappers that the original registers."""
    try:
        found = wrappers_of(loader, path, original)
    except NotLoaded as error:
        return f'does not load: {error}'
    if not is_fat:
        return difference(expected, found)
    if found != expected:
        return 'registers other wrappers'
    return 'works, though not with glibc before 2.35' if Elf(path).breaks_alignment() else None


def verify(split, name, changed=True):
    """Findings, those about the file first. That the manifest lists another file must be one of them if a tool changed it, and is left out."""
    result = run([kpackfs, 'verify', '--json', split])
    if not result.stdout:
        return [brief(result.stderr)]
    findings = json.loads(result.stdout)['findings']
    listed = [it for it in findings if it['id'] == 'listed-changed' and it['path'].endswith('/' + name)]
    if changed and not listed:
        findings.append({'id': '', 'path': '', 'reason': 'VERIFY DOES NOT SEE THAT THE FILE WAS CHANGED'})
    findings = sorted((it for it in findings if it not in listed), key=lambda it: not it['path'].endswith('/' + name))
    return [it['reason'] if it['path'].endswith('/' + name) else f'{it["path"]}: {it["reason"]}' for it in findings]


def split_again(loader, name, path, original, expected, out):
    """Splits a file that a tool has changed; what is wrong then, or None."""
    result = run([kpackfs, 'split', path.parent, '--output', out])
    if result.returncode or ': not split: ' in result.stderr or not list(out.glob('gfx*')):
        return 'is not split'
    wrong = loading(loader, out / 'host' / name, original, expected)
    findings = verify(out, name, changed=False)
    return wrong or (f'verify: {findings[0]}' if findings else None)


def attempt(loader, command, name, original, fat, split, expected):
    """One cell, and notes."""
    copy = work / 'copy'
    shutil.rmtree(copy, ignore_errors=True)
    (copy / 'fat').mkdir(parents=True)
    plain = copy / 'fat' / name
    shutil.copy2(fat, plain)
    of_original = change(command, plain)
    if not of_original:
        of_original = loading(loader, plain, original, expected, is_fat=True)
    # A tool that changes nothing leaves nothing to split again.
    first = None if of_original else split_again(loader, name, plain, original, expected, copy / 'again')
    shutil.copytree(split, copy / 'split')
    host = copy / 'split/host' / name
    before = host.read_bytes()
    refused = change(command, host)
    if refused == NOTHING:
        return NOTHING, []
    wrong = None if refused else loading(loader, host, original, expected)
    changed = before != host.read_bytes()
    return cell(of_original, first, refused, wrong, verify(copy / 'split', name, changed), changed)


def cell(of_original, first, refused, wrong, findings, listed):
    """A word for the table, and what else there is to say. `listed`: `verify` has named the file, because it is not the one of the manifest."""
    if not refused and not wrong and not findings and not first:
        return WORKS, []
    details = [it for it in (refused, wrong) if it]
    if wrong and not findings:
        details.append('verify: only that the manifest lists another file' if listed else 'VERIFY FINDS NOTHING')
    details.append('the fat original: ' + (of_original or 'works'))
    if not of_original:
        details.append('split after the tool: ' + (first or 'works'))
    details += [f'verify: {"; ".join(findings)}'] if findings else []
    word = WORKS
    if refused or wrong or findings:
        word = 'refuses' if refused and refused.startswith(REFUSES) else 'crashes' if refused else '**breaks it**' if wrong else 'loads, verify complains'
    if of_original:
        word += ' (the original, too)'
    elif first:
        word += ', **not before the split**' if word == WORKS else ' (before the split, too)'
    return word, [brief('; '.join(details).replace(f'{work}/', ''), 420)]


def attempt_wheel(loader, tool, name, original, expected):
    """One cell for a tool of wheels, and notes: the file in a wheel, which the tool changes before and after the split."""
    place = work / 'wheels'
    shutil.rmtree(place, ignore_errors=True)
    libraries = loader.environment(original)['LD_LIBRARY_PATH']

    def installed(wheels, out, changed):
        """What is wrong with the file when these wheels are installed, and the findings."""
        site = unpack(wheels, out)
        return loading(loader, next(site.rglob(name)), original, expected), verify(site, name, changed)

    def split(wheel, out):
        result = run([kpackfs, 'split', wheel, '--format', 'wheel', '--output', out])
        return [] if result.returncode else sorted(out.glob('*.whl'))

    fat = make_wheel(original, place / 'fat')
    changed, refused = tool(python, fat, [], place / 'first', libraries)
    first = 'is not split'
    if changed and (wheels := split(changed, place / 'first-split')):
        wrong, findings = installed(wheels, place / 'first-site', False)
        first = wrong or (f'verify: {findings[0]}' if findings else None)
    host, *devices = sorted(split(fat, place / 'split'), key=lambda it: it.name.startswith('amd_'))
    changed, refused_split = tool(python, host, devices, place / 'second', libraries)
    # setuptools copies files, and leaves out the manifest.
    copied = tool is not auditwheel
    wrong, findings = installed([changed, *([] if copied else devices)], place / 'second-site', not copied) if changed else (None, [])
    return cell(refused and f'{REFUSES}: {refused}', first, refused_split and f'{REFUSES}: {refused_split}', wrong, findings, changed and not copied)


def split_of(loader, name, original, prepare=None):
    """A fat file and its split in fresh directories, and the wrappers that it registers; or why there are none."""
    fat, split = (work / f'{kind}{"-prepared" if prepare else ""}' for kind in ('fat', 'split'))
    for directory in (fat, split):
        shutil.rmtree(directory, ignore_errors=True)
    fat.mkdir()
    shutil.copy2(original, fat / name)
    # UPX asks for it, also of libraries.
    (fat / name).chmod(0o755)
    if prepare and change(prepare, fat / name):
        return None, None, None, 'cannot be prepared'
    result = run([kpackfs, 'split', fat, '--output', split])
    if ': not split: ' in result.stderr or ': nothing to split: ' in result.stderr:
        return None, None, None, 'is not split'
    if result.returncode:
        return None, None, None, f'is wrong before any tool: {brief(result.stderr)}'
    try:
        expected = wrappers_of(loader, fat / name, original)
    except NotLoaded as error:
        return None, None, None, f'does not load: {error}'
    wrong = loading(loader, split / 'host' / name, original, expected)
    findings = verify(split, name, changed=False)
    if wrong or findings:
        return None, None, None, f'is wrong before any tool: {wrong or ""} {brief("; ".join(findings))}'
    return fat / name, split, expected, None


def main():
    loader = Loader(work / 'loader')
    rows, wheel_rows, notes, left_out = {}, [], defaultdict(list), []
    for name, original in examples():
        fat, split, expected, why = split_of(loader, name, original)
        if why:
            left_out.append((name, why))
            continue
        print('trying', name, file=sys.stderr)
        cells = []
        for tool, command in TOOLS.items():
            if tool in PREPARED:
                fat, split, expected, why = split_of(loader, name, original, PREPARED[tool])
            text, more = ('refuses (the original, too)', []) if why else attempt(loader, command, name, original, fat, split, expected)
            cells.append(text)
            for note in more:
                notes[tool, note].append(name)
        rows.setdefault(tuple(cells), []).append(name)
        if name in IN_WHEELS and Elf(original).kind == LIBRARY:
            expected = wrappers_of(loader, original.resolve(), original)
            cells = []
            for tool, function in WHEEL_TOOLS.items():
                text, more = attempt_wheel(loader, function, name, original, expected)
                cells.append(text)
                for note in more:
                    notes[tool, note].append(name)
            wheel_rows.append((name, cells))
    write(rows, wheel_rows, notes, left_out)
    return any('VERIFY ' in note for _, note in notes) or any('wrong before' in why for _, why in left_out)


def write(rows, wheel_rows, notes, left_out):
    lines = ['# Tools on rewritten binaries', '', Path(__file__).with_name('tools-advice.md').read_text().strip(), '', '## What was tried', '',
             'Made by `scripts/check-tools`. Each binary is split, the tool changes the file in `host/`, then `kpackfs verify` looks at the '
             'split and the file is loaded under a runtime that logs wrappers (the same as in the original, with indices, leading to a '
             'marker). The tool also changes the fat original, which is split then. "works": all of that is fine.', '',
             '| binaries | ' + ' | '.join(TOOLS) + ' |', '|---|' + '---|' * len(TOOLS)]
    for cells, names in sorted(rows.items(), key=lambda row: -len(row[1])):
        lines.append('| ' + ', '.join(f'`{name}`' for name in names) + ' | ' + ' | '.join(cells) + ' |')
    lines += ['', 'The same in wheels. auditwheel changes the host wheel, and puts the libraries that it needs into it. setuptools makes a wheel of an '
              'installation of all parts.', '', '| binaries | ' + ' | '.join(WHEEL_TOOLS) + ' |', '|---|' + '---|' * len(WHEEL_TOOLS)]
    lines += [f'| `{name}` | {" | ".join(cells)} |' for name, cells in wheel_rows]
    if notes:
        lines += ['', '## What went wrong', '', 'What the tool, the loader and `kpackfs verify` say, and what the tool does to the fat original.', '']
        lines += [f'- {tool}: {note} ({", ".join(f"`{name}`" for name in names)})' for (tool, note), names in sorted(notes.items())]
    if left_out:
        lines += ['', '## Left out', ''] + [f'- `{name}` {why}' for name, why in left_out]
    output.write_text('\n'.join(lines) + '\n')
    print('\n'.join(lines))


sys.exit(main())
