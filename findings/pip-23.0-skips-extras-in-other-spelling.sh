#!/usr/bin/env bash
# pip 23.0.1 and 26.3 (PyPI).
# Expected: names of extras are compared as names of packages are: case, "-", "_" and "." make no difference.
# Seen: pip 23.0.1, of Debian 12 and of many images, ignores case only. With host[device_gfx942] it warns that there is no such extra, and
# installs the host wheel alone, with exit code 0: no GPU has kernels.
. "$(dirname "$0")/common.sh"
recorded <<'END'
pip 23.0.1, hostpkg[device-gfx942]: exit code 0, amd-hostpkg-device-gfx942 hostpkg
pip 23.0.1, hostpkg[device_gfx942]: exit code 0, hostpkg
pip 23.0.1, hostpkg[Device-GFX942]: exit code 0, amd-hostpkg-device-gfx942 hostpkg
pip 23.0.1, hostpkg[device.gfx942]: exit code 0, hostpkg
pip 26.3, hostpkg[device-gfx942]: exit code 0, amd-hostpkg-device-gfx942 hostpkg
pip 26.3, hostpkg[device_gfx942]: exit code 0, amd-hostpkg-device-gfx942 hostpkg
pip 26.3, hostpkg[Device-GFX942]: exit code 0, amd-hostpkg-device-gfx942 hostpkg
pip 26.3, hostpkg[device.gfx942]: exit code 0, amd-hostpkg-device-gfx942 hostpkg
END
python3 - "$work/dist" <<'END'
import sys

import wheels

device = "amd-hostpkg-device-gfx942"
extra = f'Provides-Extra: device-gfx942\nRequires-Dist: {device} == 1.0; extra == "device-gfx942"\n'
wheels.wheel(sys.argv[1], "hostpkg", "1.0", {"hostpkg/__init__.py": b""}, extra)
wheels.wheel(sys.argv[1], device, "1.0", {"hostpkg/.kpack/hostpkg_gfx942.kpack": b"KPAK"}, "Requires-Dist: hostpkg == 1.0\n")
END
unset PYTHONPATH
for version in 23.0.1 26.3; do
    venv "$work/pip-$version"
    "$work/pip-$version/bin/python" -m pip install --quiet pip==$version >&2 || unavailable "pip cannot install pip $version"
    for extra in device-gfx942 device_gfx942 Device-GFX942 device.gfx942; do
        code=0
        "$work/pip-$version/bin/python" -m pip install --quiet --no-index --find-links "$work/dist" --target "$work/$version-$extra" "hostpkg[$extra]" >&2 || code=$?
        installed=$(cd "$work/$version-$extra" && ls -d -- *.dist-info | sed 's/-1.0.dist-info//; s/_/-/g' | sort | tr '\n' ' ')
        echo "pip $version, hostpkg[$extra]: exit code $code, ${installed% }"
    done
done >"$work/out"
compare "$work/out"
