"""usage: tools.py KPACKFS CORPUS WORK OUT.md PATCHELF…     (called by scripts/check-tools)"""
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from binaries import EXECUTABLE, FOREIGN, HERE, Elf, Loader, NotLoaded, brief, difference, installed_version, run

kpackfs, corpus, work, output = sys.argv[1], *map(Path, sys.argv[2:5])
fixtures = Path('tests/fixtures')
RPATH = '$ORIGIN/' + '/'.join(['a-long-directory-name'] * 20)
TOOLS = {
    f'strip {installed_version("strip")}': ['strip'],
    f'objcopy --strip-debug {installed_version("objcopy")}': ['objcopy', '--strip-debug'],
    **{f'llvm-strip {installed_version(it)}': [it] for it in ('llvm-strip', 'llvm-strip-19') if shutil.which(it)},
    f'eu-strip {installed_version("eu-strip")}': ['eu-strip'],
    **{f'patchelf --set-rpath {installed_version(path)}': [path, '--set-rpath', RPATH] for path in sys.argv[5:]},
    f'dwz {installed_version("dwz")}': ['dwz'],
}
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
    said = brief((result.stderr or result.stdout).replace(str(path), path.name), 110)
    if result.returncode < 0:
        return f'crashes (signal {-result.returncode})'
    if 'debug_info' in said and path.read_bytes() == before:
        return NOTHING
    if result.returncode or (said and path.read_bytes() == before):
        return f'{REFUSES}: {said}'
    return None


def loading(loader, path, original, expected, is_fat=False):
    """The problem with loading the file, or None. `expected` are the wrappers that the original registers."""
    try:
        found = loader.load(path, stand_ins_of=original)
    except NotLoaded as error:
        return f'does not load: {error}'
    if not is_fat:
        return difference(expected, found)
    if found != expected:
        return 'registers other wrappers'
    return 'works, though not with glibc before 2.35' if Elf(path).breaks_alignment() else None


def verify(split, name=''):
    """Findings, those about the file first."""
    result = run([kpackfs, 'verify', '--json', split])
    if not result.stdout:
        return [brief(result.stderr)]
    findings = json.loads(result.stdout)['findings']
    findings.sort(key=lambda finding: not finding['path'].endswith('/' + name))
    return [finding['reason'] if finding['path'].endswith('/' + name) else f'{finding["path"]}: {finding["reason"]}' for finding in findings]


def attempt(loader, command, name, original, fat, split, expected):
    """One cell, and notes."""
    copy = work / 'copy'
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    plain = copy / name
    shutil.copy2(fat, plain)
    of_original = change(command, plain)
    if not of_original:
        of_original = loading(loader, plain, original, expected, is_fat=True)
    shutil.copytree(split, copy / 'split')
    refused = change(command, copy / 'split/host' / name)
    if refused == NOTHING:
        return NOTHING, []
    wrong = None if refused else loading(loader, copy / 'split/host' / name, original, expected)
    findings = verify(copy / 'split', name)
    if not refused and not wrong and not findings:
        return WORKS, []
    details = [it for it in (refused, wrong) if it]
    if wrong and not findings:
        details.append('VERIFY FINDS NOTHING')
    details.append('the fat original: ' + (of_original or 'works'))
    details += [f'verify: {"; ".join(findings)}'] if findings else []
    word = 'refuses' if refused and refused.startswith(REFUSES) else 'crashes' if refused else '**breaks it**' if wrong else 'loads, verify complains'
    if of_original:
        word += ' (the original, too)'
    return word, [brief('; '.join(details), 420)]


def main():
    loader = Loader(work / 'loader')
    rows, notes, left_out = {}, [], []
    for name, original in examples():
        fat, split = work / 'fat', work / 'split'
        for directory in (fat, split):
            shutil.rmtree(directory, ignore_errors=True)
        fat.mkdir()
        shutil.copy2(original, fat / name)
        if Elf(original).kind == EXECUTABLE:
            (fat / name).chmod(0o755)
        result = run([kpackfs, 'split', fat, '--output', split])
        if result.returncode or ': not split: ' in result.stderr or not list(split.glob('gfx*')):
            left_out.append((name, 'is not split'))
            continue
        try:
            expected = loader.load(fat / name, stand_ins_of=original)
        except NotLoaded as error:
            left_out.append((name, f'does not load: {error}'))
            continue
        wrong = loading(loader, split / 'host' / name, original, expected)
        findings = verify(split, name)
        if wrong or findings:
            left_out.append((name, f'is wrong before any tool: {wrong or ""} {brief("; ".join(findings))}'))
            continue
        print('trying', name, file=sys.stderr)
        cells = []
        for tool, command in TOOLS.items():
            cell, more = attempt(loader, command, name, original, fat / name, split, expected)
            cells.append(cell)
            notes += [f'- `{name}`, {tool}: {note}' for note in more]
        rows.setdefault(tuple(cells), []).append(name)
    write(rows, notes, left_out)
    return any('VERIFY FINDS NOTHING' in note for note in notes) or any('wrong before' in why for _, why in left_out)


def write(rows, notes, left_out):
    lines = ['# Tools on rewritten binaries', '', Path(__file__).with_name('tools-advice.md').read_text().strip(), '', '## What was tried', '',
             'Made by `scripts/check-tools`. Each binary is split, the tool changes the file in `host/`, then `kpackfs verify` looks at the '
             'split and the file is loaded under a runtime that logs wrappers (the same as in the original, with indices, leading to a '
             'marker). "works": all of that is fine.', '',
             '| binaries | ' + ' | '.join(TOOLS) + ' |', '|---|' + '---|' * len(TOOLS)]
    for cells, names in sorted(rows.items(), key=lambda row: -len(row[1])):
        lines.append('| ' + ', '.join(f'`{name}`' for name in names) + ' | ' + ' | '.join(cells) + ' |')
    if notes:
        lines += ['', '## What went wrong', '', 'What the tool, the loader and `kpackfs verify` say, and what the tool does to the fat original.', ''] + notes
    if left_out:
        lines += ['', '## Left out', ''] + [f'- `{name}` {why}' for name, why in left_out]
    output.write_text('\n'.join(lines) + '\n')
    print('\n'.join(lines))


sys.exit(main())
