#!/usr/bin/env bash
# setuptools 84.2.1 (PyPI).
# Expected: package data "**", or "**/*.kpack", takes all files of a package, or all archives. Other build backends take them without
# being asked, unless Git ignores them.
# Seen: no star matches the name of a hidden directory, so everything in .kpack/ is left out of the wheel, without a word. Only a pattern that
# names the directory takes it. A wheel that is built again from an installed tree has libraries without kernels.
. "$(dirname "$0")/common.sh"
recorded <<'END'
setuptools, *.kpack: no archive
setuptools, **: no archive
setuptools, **/*.kpack: no archive
setuptools, .kpack/*: archive
setuptools, **/.kpack/*: archive
hatchling: archive
END
venv "$work/venv" setuptools==84.2.1 hatchling==1.33.0 build==1.3.0
build() { # BACKEND REQUIREMENT TABLE…: builds a wheel, and says whether it has the archive
    local backend=$1 what=archive
    shift
    rm -rf "$work/project" "$work/dist"
    mkdir -p "$work/project/hostpkg/.kpack" "$work/project/hostpkg/lib"
    : >"$work/project/hostpkg/__init__.py"
    echo HIPK >"$work/project/hostpkg/lib/libx.so"
    echo KPAK >"$work/project/hostpkg/.kpack/hostpkg_gfx942.kpack"
    printf '[build-system]\nrequires = []\nbuild-backend = "%s"\n[project]\nname = "hostpkg"\nversion = "1"\n' "$backend" >"$work/project/pyproject.toml"
    printf '%s\n' "$@" >>"$work/project/pyproject.toml"
    "$work/venv/bin/python" -m build --wheel --no-isolation --outdir "$work/dist" "$work/project" >"$work/build-log" 2>&1 || {
        cat "$work/build-log" >&2
        return 1
    }
    python3 -m zipfile --list "$work"/dist/hostpkg-1-*.whl | grep '\.kpack/' >/dev/null || what="no archive"
    echo "$what"
}
{
    for pattern in '*.kpack' '**' '**/*.kpack' '.kpack/*' '**/.kpack/*'; do
        echo "setuptools, $pattern: $(build setuptools.build_meta '[tool.setuptools]' 'packages = ["hostpkg"]' '[tool.setuptools.package-data]' "hostpkg = [\"$pattern\"]")"
    done
    echo "hatchling: $(build hatchling.build)"
} >"$work/out"
compare "$work/out"
