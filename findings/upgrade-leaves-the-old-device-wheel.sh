#!/usr/bin/env bash
# uv 0.13.9 and pip 26.3 (PyPI), and librocm_kpack 0.1.0 of ROCm 7.14, in vapoursynth-bm3dhip 2.17.5 (PyPI).
# Expected: a device wheel that requires `hostpkg == 1.0` keeps hostpkg at 1.0, or goes with it: `install --upgrade hostpkg` upgrades both,
# or fails. At the latest, the runtime notices that library and archive are of two releases.
# Seen: an extra is not remembered, so the installers upgrade the host wheel alone, with exit code 0; pip prints an error, uv nothing. The archive
# of 1.0 stays next to the library of 2.0. Nothing in an archive names the build that it is of: the runtime finds a code object at the
# same place of the table and returns the code of the old release, with success. Only a kernel that is new is missed.
. "$(dirname "$0")/common.sh"
recorded <<'END'
uv, --upgrade hostpkg: exit code 0, no word of the device wheel, hostpkg 2.0, device wheel 1.0
uv, runtime: code of 1.0 for the first wrapper, KERNEL_NOT_FOUND (5) for a new one
uv pip check: exit code 1
pip, --upgrade hostpkg: exit code 0, the conflict is named, hostpkg 2.0, device wheel 1.0
pip, runtime: code of 1.0 for the first wrapper, KERNEL_NOT_FOUND (5) for a new one
pip check: exit code 1
uv, --upgrade hostpkg[device-gfx942]: exit code 0, hostpkg 2.0, device wheel 2.0
pip, --upgrade hostpkg[device-gfx942]: exit code 0, hostpkg 2.0, device wheel 2.0
END
device=amd-hostpkg-device-gfx942
venv "$work/tools" uv==0.13.9 msgpack==1.1.2 zstandard==0.25.0
amd_runtime
"$work/tools/bin/python" - "$work/dist" "$work/archives" $device <<'END'
import sys

import kpack
import wheels

destination, archives, device = sys.argv[1:]
for version, wrappers in ("1.0", 1), ("2.0", 2):
    archive = f"{archives}/{version}.kpack"
    kpack.archive(archive, {(f"lib/x#{index}", "gfx942"): f"code of {version}".encode() for index in range(wrappers)})
    extra = f"Provides-Extra: device-gfx942\nRequires-Dist: {device} == {version}; extra == 'device-gfx942'\n"
    wheels.wheel(destination, "hostpkg", version, {"hostpkg/__init__.py": b"", "hostpkg/lib/libx.so": b"HIPK"}, extra)
    content = open(archive, "rb").read()
    wheels.wheel(destination, device, version, {"hostpkg/.kpack/hostpkg_gfx942.kpack": content}, f"Requires-Dist: hostpkg == {version}\n")
END
options=(--no-index --find-links "$work/dist")
installer() { # OPTION…: the installer $tool in the environment of that name
    code=0
    case $tool in
    uv) UV_NO_CONFIG=1 UV_CACHE_DIR=$work/uv-cache "$work/tools/bin/uv" pip "$1" --python "$work/uv/bin/python" "${@:2}" ;;
    pip) PYTHONPATH='' "$work/pip/bin/pip" "$@" ;;
    esac >"$work/messages" 2>&1 || code=$?
}
versions() {
    local versions=()
    local found
    for found in hostpkg "${device//-/_}"; do
        found=$(echo "$work/$tool"/lib/python3*/site-packages/"$found"-*.dist-info)
        found=${found##*/}
        found=${found%.dist-info}
        versions+=("${found##*-}")
    done
    echo "hostpkg ${versions[0]}, device wheel ${versions[1]}"
}
for tool in uv pip; do
    venv "$work/$tool" pip==26.3
    installer install "${options[@]}" "hostpkg[device-gfx942]==1.0"
    installer install "${options[@]}" --upgrade hostpkg
    what="no word of the device wheel"
    ! grep -q "$device 1.0 requires hostpkg==1.0" "$work/messages" || what="the conflict is named"
    echo "$tool, --upgrade hostpkg: exit code $code, $what, $(versions)"
    "$work/tools/bin/python" - "$kpack" "$work/$tool"/lib/python3*/site-packages/hostpkg/lib/libx.so <<'END'
import os
import sys

import kpack

library, binary = sys.argv[1:]
library = kpack.Library(library)
first, new = (library.load(["../.kpack/hostpkg_@GFXARCH@.kpack"], binary, ["gfx942"], index) for index in range(2))
print(f"{os.path.realpath(binary).split('/lib/python3')[0].rpartition('/')[2]}, runtime: {first} for the first wrapper, {new} for a new one")
END
    installer check
    case $tool in uv) echo "uv pip check: exit code $code" ;; pip) echo "pip check: exit code $code" ;; esac
done >"$work/out"
for tool in uv pip; do
    installer install "${options[@]}" --upgrade "hostpkg[device-gfx942]"
    echo "$tool, --upgrade hostpkg[device-gfx942]: exit code $code, $(versions)"
done >>"$work/out"
compare "$work/out"
