#!/usr/bin/env bash
# uv 0.13.9, pip 26.3 and installer 1.1.0 (PyPI), which Poetry and PDM install by, with Python 3.11, and zipfile-zstd 0.0.4 (PyPI), which
# writes the wheels: each holds the fat library of vapoursynth-bm3dhip 2.17.5 (PyPI), 11.7 MB, with its members compressed by one of four
# methods that zip files have.
# Expected: installers take the same wheels. So a wheel with code for twenty GPUs, of which deflate sees 32 KiB at a time, can be compressed
# by a method that refers further back, if both uv and pip take it.
# Seen: deflate is all that they have in common. uv takes zstd, without a word, and refuses bzip2 and LZMA; pip and installer, which read by
# Python, take those and refuse zstd (Python reads it since 3.14). What uv locks and installs, pip may not. So deflate it is, which makes
# the library five times what LZMA does.
. "$(dirname "$0")/common.sh"
recorded <<'END'
deflate, 4.7 MB: uv exit code 0, pip exit code 0, installer exit code 0
bzip2, 3.1 MB: uv exit code 1, pip exit code 0, installer exit code 0
LZMA, 0.9 MB: uv exit code 1, pip exit code 0, installer exit code 0
zstd, 1.3 MB: uv exit code 0, pip exit code 1, installer exit code 1
uv: files must be compressed with 'stored', 'DEFLATE', or 'zstd'
pip: could not read 'hostpkg-1.0.dist-info/WHEEL' file: NotImplementedError('That compression method is not supported')
END
python3 -c 'import sys; sys.exit(sys.version_info >= (3, 14))' || unavailable "a Python before 3.14 is needed"
venv "$work/venv" uv==0.13.9 pip==26.3 installer==1.1.0 zipfile-zstd==0.0.4 zstandard==0.25.0
wheel "$work/amd" --python-version 3.12 --platform manylinux_2_28_x86_64 vapoursynth-bm3dhip==2.17.5
"$work/venv/bin/python" - "$work" "$work/amd/vapoursynth/plugins/bm3dhip/libbm3dhip.so" <<'END'
import os
import sys
import zipfile

import wheels
import zipfile_zstd

work, library = sys.argv[1:]
with open(library, "rb") as file:
    made = wheels.wheel(work, "hostpkg", "1.0", {"hostpkg/__init__.py": b"", "hostpkg/libx.so": file.read()})
methods = {"deflate": zipfile.ZIP_DEFLATED, "bzip2": zipfile.ZIP_BZIP2, "LZMA": zipfile.ZIP_LZMA, "zstd": zipfile_zstd.ZIP_ZSTANDARD}
for name, method in methods.items():
    os.mkdir(f"{work}/{name}")
    with zipfile.ZipFile(made) as old, zipfile.ZipFile(f"{work}/{name}/{os.path.basename(made)}", "w", method) as new:
        for member in old.namelist():
            new.writestr(member, old.read(member))
END
unset PYTHONPATH
install() { # NAME COMMAND…: installs to $work/installed
    local code=0
    "${@:2}" >>"$work/$1.messages" 2>&1 || code=$?
    rm -rf "$work/installed"
    seen+=" $1 exit code $code"
}
{
    for method in deflate bzip2 LZMA zstd; do
        wheel=$work/$method/hostpkg-1.0-py3-none-any.whl
        seen=
        install uv "$work/venv/bin/uv" pip install --no-config --no-cache --offline --python "$work/venv" --target "$work/installed" "$wheel"
        seen+=,
        install pip "$work/venv/bin/pip" install --no-index --target "$work/installed" "$wheel"
        seen+=,
        install installer "$work/venv/bin/python" -m installer --prefix "$work/installed" "$wheel"
        python3 -c 'import os, sys; print(f"{sys.argv[1]}, {os.path.getsize(sys.argv[2]) / 1e6:.1f} MB:{sys.argv[3]}")' $method "$wheel" "$seen"
    done
    echo "uv: $(grep -o 'files must be .*' "$work/uv.messages" | head -1)"
    echo "pip: $(grep -o 'could not read .*' "$work/pip.messages" | head -1)"
} >"$work/out"
compare "$work/out"
