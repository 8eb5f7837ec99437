#!/usr/bin/env bash
# setuptools 84.2.1 and hatchling 1.33.0 (PyPI), with pip.
# Expected: a device wheel next to an editable host package changes nothing for Python; at worst, the library in the source tree has no
# archive next to it.
# Seen: the device wheel makes a directory hostpkg/ without __init__.py in site-packages. setuptools registers an editable package that is not
# below src/ at the end of sys.meta_path, behind the search of sys.path, where that directory is found first. So `import hostpkg` succeeds
# and gives an empty namespace package; the first attribute that a program asks for is missing. With src/, editable_mode=compat or hatchling,
# the source tree is an entry of sys.path, where a package goes before a namespace. The archive is never next to the library.
. "$(dirname "$0")/common.sh"
recorded <<'END'
setuptools, hostpkg/: package of the source tree, archive next to the library: no
setuptools, hostpkg/, after the device wheel: empty namespace package
setuptools, hostpkg/, editable_mode=compat: package of the source tree, archive next to the library: no
setuptools, hostpkg/, editable_mode=compat, after the device wheel: package of the source tree, archive next to the library: no
setuptools, src/hostpkg/: package of the source tree, archive next to the library: no
setuptools, src/hostpkg/, after the device wheel: package of the source tree, archive next to the library: no
hatchling, hostpkg/: package of the source tree, archive next to the library: no
hatchling, hostpkg/, after the device wheel: package of the source tree, archive next to the library: no
END
python3 -c 'import sys, wheels; wheels.release(sys.argv[1], "gfx942")' "$work/dist"
unset PYTHONPATH
project() { # BACKEND FOLDER TABLE
    rm -rf "$work/project"
    mkdir -p "$work/project/$2hostpkg/lib"
    echo 'answer = 42' >"$work/project/$2hostpkg/__init__.py"
    echo HIPK >"$work/project/$2hostpkg/lib/libx.so"
    printf '[build-system]\nrequires = []\nbuild-backend = "%s"\n[project]\nname = "hostpkg"\nversion = "1.0"\n%s\n' "$1" "$3" >"$work/project/pyproject.toml"
}
look() {
    "$work/venv/bin/python" - <<'END'
import os

import hostpkg

if hasattr(hostpkg, "answer"):
    folder = os.path.dirname(hostpkg.__file__)
    archive = os.path.exists(f"{folder}/.kpack/hostpkg_gfx942.kpack")
    print("package of the source tree, archive next to the library:", "yes" if archive else "no")
else:
    print("empty namespace package")
END
}
show() { # NAME OPTION…
    "$work/venv/bin/pip" install --quiet --no-build-isolation --no-index "${@:2}" --editable "$work/project" >&2
    echo "$1: $(look)"
    "$work/venv/bin/pip" install --quiet --no-index --find-links "$work/dist" amd-hostpkg-device-gfx942 >&2
    echo "$1, after the device wheel: $(look)"
    "$work/venv/bin/pip" uninstall --quiet --yes hostpkg amd-hostpkg-device-gfx942 >&2
}
venv "$work/venv" pip==26.3 setuptools==84.2.1 hatchling==1.33.0 editables==0.5
{
    project setuptools.build_meta "" $'[tool.setuptools]\npackages = ["hostpkg"]'
    show "setuptools, hostpkg/"
    show "setuptools, hostpkg/, editable_mode=compat" --config-settings editable_mode=compat
    project setuptools.build_meta src/ ""
    show "setuptools, src/hostpkg/"
    project hatchling.build "" ""
    show "hatchling, hostpkg/"
} >"$work/out"
compare "$work/out"
