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


def release(destination, *gpus):
    """A host wheel with an extra for each GPU, and the device wheels that these require."""
    metadata = ""
    for gpu in gpus:
        device = f"amd-hostpkg-device-{gpu}"
        metadata += f"Provides-Extra: device-{gpu}\nRequires-Dist: {device} == 1.0; extra == 'device-{gpu}'\n"
        wheel(destination, device, "1.0", {f"hostpkg/.kpack/hostpkg_{gpu}.kpack": b"KPAK"}, "Requires-Dist: hostpkg == 1.0\n")
    wheel(destination, "hostpkg", "1.0", {"hostpkg/__init__.py": b"", "hostpkg/lib/libx.so": b"HIPK"}, metadata)
