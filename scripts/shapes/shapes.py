"""usage: shapes.py KPACKFS CORPUS WORK OUT.md     (called by scripts/check-shapes)"""
import json
import os
import shutil
import sys
import time
import zipfile
from collections import defaultdict
from pathlib import Path

from binaries import FOREIGN, Elf, Loader, NotLoaded, brief, complaints, difference, installed_linters, installed_version, run

kpackfs, corpus, work, output = sys.argv[1], *map(Path, sys.argv[2:])
fixtures = Path('tests/fixtures')
mount_point = work / 'mount'
WHEELS = ['bitsandbytes-*linux*.whl', 'bitsandbytes-*win*.whl', 'jax_rocm7_plugin-*.whl', 'jax_rocm7_pjrt-*.whl', 'cupy_rocm*.whl', 'onnxruntime_rocm-*.whl']
DEBIAN = ['usr/lib/x86_64-linux-gnu/librocrand.so.1.1', 'usr/lib/x86_64-linux-gnu/librocsparse.so.0.1']


def mount(path):
    """Returns the output of a command, and its time in ms."""
    start = time.perf_counter()
    # Not compressing: what archives hold is not the subject here, and the checks are faster. Nothing is remembered, so that
    # what is read is what it takes.
    result = run([kpackfs, 'mount', '--no-cache', '--compression', 'none', path, mount_point])
    elapsed = (time.perf_counter() - start) * 1000
    if result.returncode:
        sys.exit(f'{path}: {result.stderr}')
    return result.stderr, elapsed


def unmount():
    result = run([kpackfs, 'umount', mount_point])
    if result.returncode:
        sys.exit(result.stderr)


def link(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def gather(tree):
    """Collects all binaries in a tree; returns names and paths in it."""
    files = []
    for path in sorted(fixtures.iterdir()):
        if path.is_file() and path.suffix not in ('.md', '.json'):
            link(path.resolve(), tree / 'fixtures' / path.name)
            files.append((path.name, f'fixtures/{path.name}'))
    for pattern in WHEELS:
        for wheel in sorted(corpus.glob(pattern)):
            report = json.loads(run([kpackfs, 'inspect', '--json', wheel]).stdout)
            package = wheel.name.split('-')[0]
            with zipfile.ZipFile(wheel) as archive:
                for binary in report['binaries']:
                    path = Path(archive.extract(binary['path'], tree / package))
                    path.chmod(0o755)
                    files.append((f'{package}: {path.name}', str(path.relative_to(tree))))
    for path in DEBIAN:
        if (corpus / 'tree' / path).exists():
            link(corpus / 'tree' / path, tree / path)
            files.append((os.path.basename(path), path))
    return files


def planning(path):
    """Bytes read and time to mount the file alone, the best of three."""
    directory = work / 'alone'
    directory.mkdir()
    link(path, directory / path.name)
    best = None
    for _ in range(3):
        said, elapsed = mount(directory)
        try:
            counters = json.loads((mount_point / '.kpackfs/status.json').read_text())['counters']
            report = json.loads((mount_point / '.kpackfs/report.json').read_text())
        finally:
            unmount()
        best = min(best or elapsed, elapsed)
    shutil.rmtree(directory)
    return counters['bytes_read'], best, next(iter(report['binaries']), None), said


def loading(loader, original, rewritten):
    """Returns a word on loading, and whether there is a problem."""
    kind = Elf(original).kind
    if kind == FOREIGN:
        return 'not for this machine' if Elf(original).is_elf else 'PE', False
    results = []
    for path in (original, rewritten):
        try:
            results.append((loader.load(path, stand_ins_of=original), None))
        except NotLoaded as error:
            results.append((error.found, str(error)))
    (before, failure), (after, new_failure) = results
    if new_failure != failure:
        return f'FAILED: {new_failure}; the original: {failure or "loads"}', True
    problem = difference(before, after)
    if problem:
        return f'FAILED: {problem}', True
    if failure and not after:
        return f'not shown: the original stops before it registers anything, {failure}', False
    if failure:
        # Empty libraries don't satisfy every constructor, but wrappers are registered by the first ones.
        return f'registers {len(after)}, then stops as the original does: {failure}', False
    return f'yes, registers {len(after)}' if after else 'yes, registers nothing', False


def check(loader, tree, name, path, findings, warnings):
    original, rewritten = tree / path, mount_point / 'host' / path
    is_same = False
    row = {'name': name, 'before': original.stat().st_size, 'after': rewritten.stat().st_size, 'failures': []}
    plan = row_plan[path]
    row['bytes_read'], row['ms'], binary, _ = plan
    if binary:
        row['status'] = 'split'
        row['wrappers'], row['objects'] = binary['wrappers'], binary['code_objects']
    else:
        reasons = [reason for file, reason in warnings if file == path]
        row['status'] = 'unchanged: ' + (reasons[0] if reasons else 'no device code to split')
        row['wrappers'] = row['objects'] = '–'
        is_same = original.read_bytes() == rewritten.read_bytes()
        if not is_same:
            row['failures'].append('not split, yet it differs')
    row['verify'] = 'ok'
    if findings[path]:
        # verify has to find device code that was left on purpose.
        expected = not binary and is_same and all('still holds device code' in it for it in findings[path])
        row['verify'] = ('names it: ' if expected else 'FAILED: ') + brief('; '.join(findings[path]))
        if not expected:
            row['failures'].append(row['verify'])
    row['loads'] = row['lint'] = row['alignment'] = '–'
    if binary:
        row['loads'], failed = loading(loader, original, rewritten)
        if failed:
            row['failures'].append(row['loads'])
        elf = Elf(rewritten)
        if elf.is_elf:
            before, after = complaints(original), complaints(rewritten)
            new = sorted(after - before)
            row['lint'] = 'nothing new' if not new else 'NEW: ' + brief('; '.join(new))
            wrong = elf.breaks_alignment()
            row['alignment'] = 'ok' if not wrong else f'BROKEN by {wrong}'
            row['failures'] += [it for it in (row['lint'], row['alignment']) if it not in ('nothing new', 'ok')]
    return row


def number(value):
    return f'{value:,}' if isinstance(value, int) else value


def write(rows, result):
    failed = [row for row in rows if row['failures']]
    lines = [
        '# Every shape of binary, rewritten',
        '',
        'Made by `scripts/check-shapes`; run it again after `cargo build --release` to repeat this (with `scripts/fetch-corpus` before '
        'it for the real binaries; without them only the fixtures are checked). `tests/fixtures/README.md` says what is special about '
        'each fixture.',
        '',
        '- result: whether the binary is split, or shown unchanged and why',
        '- read: bytes read from the file to plan the split, and the time until a mount of this file alone can be used (best of three, '
        'the whole command, with a warm page cache)',
        '- verify: `kpackfs verify --against` the originals, of all files in one mount: every code object is found and equal',
        '- loads: from the real mount, by dlopen or exec, under a runtime that logs: the same wrappers in the same order as the '
        'original, each with magic HIPK and ascending indices, pointing at a marker. Libraries that this machine lacks are '
        'replaced by empty ones',
        '- tools: what ' + ', '.join(f'{name} {installed_version(name)}' for name in installed_linters()) + ' complain about in the '
        'rewritten file and not in the original' + ''.join(f'; {name} was not installed' for name in sorted(set(['readelf', 'llvm-readelf', 'eu-elflint']) - set(installed_linters()))),
        '- p_align: the rule of glibc before 2.35 (such as 2.31), checked in the headers',
        '',
        f'{len(rows)} binaries, {sum(row["status"] == "split" for row in rows)} split, {len(failed)} with failures. '
        f'Verify: {result["counts"]["compared_code_objects"]} code objects compared, {result["counts"]["lookups"]} look-ups.',
        '',
        '| binary | result | size → size | read | ms | wrappers | code objects | verify | loads | tools | p_align |',
        '|---|---|---|---|---|---|---|---|---|---|---|',
    ]
    for row in rows:
        cells = [f'`{row["name"]}`', row['status'], f'{number(row["before"])} → {number(row["after"])}', number(row['bytes_read']),
                 f'{row["ms"]:.0f}', number(row['wrappers']), number(row['objects']), row['verify'], row['loads'], row['lint'], row['alignment']]
        lines.append('| ' + ' | '.join(str(cell) for cell in cells) + ' |')
    if failed:
        lines += ['', '## Failures', ''] + [f'- `{row["name"]}`: {it}' for row in failed for it in row['failures']]
    output.write_text('\n'.join(lines) + '\n')
    print('\n'.join(lines))
    return bool(failed)


tree = work / 'tree'
files = gather(tree)
row_plan = {}
for name, path in files:
    print('planning', name, file=sys.stderr)
    row_plan[path] = planning(tree / path)
said, _ = mount(tree)
try:
    warnings = [line.removeprefix('kpackfs: warning: ').split(': not split: ', 1) for line in said.splitlines() if ': not split: ' in line]
    print('verifying', file=sys.stderr)
    verified = run([kpackfs, 'verify', '--json', '--against', tree, mount_point], timeout=1800)
    if not verified.stdout:
        sys.exit(verified.stderr)
    result = json.loads(verified.stdout)
    findings = defaultdict(list)
    for finding in result['findings']:
        path = finding['path'].removeprefix('host/')
        # Findings about an archive belong to the binaries that it names.
        about = [path] if path in row_plan else [it for it in row_plan if it in finding['reason']]
        if not about:
            sys.exit(f'verify: {finding}')
        for it in about:
            findings[it].append(finding['reason'] if it == path else f'{path}: {finding["reason"]}')
    loader = Loader(work / 'loader')
    rows = []
    for name, path in files:
        print('checking', name, file=sys.stderr)
        rows.append(check(loader, tree, name, path, findings, warnings))
finally:
    unmount()
sys.exit(write(rows, result))
