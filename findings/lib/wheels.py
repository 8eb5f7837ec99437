"""Makes wheels of a directory."""

import base64
import hashlib
import os
import zipfile


def wheel(destination, name, version, files, metadata=""):
    """Writes a wheel that holds `files`, bytes by path; the same input gives the same bytes. Returns its path."""
    stem = f"{name.replace('-', '_')}-{version}"
    information = f"{stem}.dist-info"
    files = dict(files)
    files[f"{information}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}".encode()
    files[f"{information}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: finding\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(content)}\n"
    files[f"{information}/RECORD"] = f"{record}{information}/RECORD,,\n".encode()
    os.makedirs(destination, exist_ok=True)
    path = f"{destination}/{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return path


def host_and_device(destination):
    """A host wheel with a library, and the device wheel that lays an archive next to it."""
    wheel(destination, "hostpkg", "1.0", {"hostpkg/__init__.py": b"", "hostpkg/lib/libx.so": b"HIPK"})
    archive = {"hostpkg/.kpack/hostpkg_gfx942.kpack": b"KPAK"}
    wheel(destination, "amd-hostpkg-device-gfx942", "1.0", archive, "Requires-Dist: hostpkg == 1.0\n")
