"""Tools that change wheels or make them, for check-tools. Each gives the wheel, or None and why the tool refused."""
import base64
import hashlib
import os
import shutil
import zipfile
from pathlib import Path

from binaries import brief, run

NAME, PACKAGE = 'example-1.0', 'example'


def make_wheel(library, out):
    """A wheel with one library in a package."""
    info = f'{NAME}.dist-info'
    files = {f'{PACKAGE}/__init__.py': b'', f'{PACKAGE}/{library.name}': library.read_bytes(),
             f'{info}/METADATA': b'Metadata-Version: 2.1\nName: example\nVersion: 1.0\n',
             f'{info}/WHEEL': b'Wheel-Version: 1.0\nGenerator: check-tools\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n'}
    lines = [f'{path},sha256={digest(content)},{len(content)}\n' for path, content in files.items()]
    files[f'{info}/RECORD'] = ''.join([*lines, f'{info}/RECORD,,\n']).encode()
    out.mkdir(parents=True)
    wheel = out / f'{NAME}-py3-none-linux_x86_64.whl'
    with zipfile.ZipFile(wheel, 'w', zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return wheel


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()


def unpack(wheels, out):
    """Installs wheels."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(out)
    return out


def auditwheel(python, wheel, _devices, out, libraries):
    """Puts libraries that a wheel needs into it. What is needed here is a stand-in of the runtime."""
    environment = {**os.environ, 'LD_LIBRARY_PATH': libraries, 'PATH': f'{python.parent}:{os.environ["PATH"]}'}
    result = run([python, '-m', 'auditwheel', 'repair', '--wheel-dir', out, wheel], env=environment)
    made = list(out.glob('*.whl'))
    return (made[0], None) if result.returncode == 0 and made else (None, brief(result.stderr, 110))


def setuptools(patterns, python, wheel, devices, out, _libraries):
    """Makes a wheel of an installation, with files of the package as its data."""
    project = out / 'project'
    unpack([wheel, *devices], project)
    for info in project.glob('*.dist-info'):
        shutil.rmtree(info)
    (project / 'setup.py').write_text(
        'from setuptools import Distribution, setup\n'
        'class Binary(Distribution):\n    has_ext_modules = lambda self: True\n'
        f'setup(name="example", version="1.0", packages=["{PACKAGE}"], package_data={{"{PACKAGE}": {patterns}}}, distclass=Binary)\n'
    )
    result = run([python, 'setup.py', '--quiet', 'bdist_wheel', '--dist-dir', out.resolve()], cwd=project)
    made = list(out.glob('*.whl'))
    return (made[0], None) if result.returncode == 0 and made else (None, brief(result.stderr, 110))
