#!/usr/bin/env bash
# uv 0.13.9, pdm 2.29.4 and pip 26.3 (PyPI), with a project that has an extra for each GPU, and a pylock.toml (PEP 751) for all extras.
# Expected: as the standard has extras, who installs from such a file chooses the GPU, as with `uv sync --extra` and uv.lock.
# Seen: `uv export --all-extras` writes all packages without conditions, so each machine gets the device wheels of all GPUs: with twenty GPUs, twenty
# times what it needs. pip and uv take the name of an extra that such a file does not have, with exit code 0, and install all the same. pdm writes the
# extras, pip and uv then obey them, and without a name install the host alone. A misspelt extra is taken there, too: no GPU has kernels.
. "$(dirname "$0")/common.sh"
recorded <<'END'
uv.lock, uv, gfx942: exit code 0; amd_hostpkg_device_gfx942 hostpkg
uv.lock, uv, gfx924: exit code 2;
pylock.toml of uv, pip: exit code 0; amd_hostpkg_device_gfx1100 amd_hostpkg_device_gfx942 hostpkg
pylock.toml of uv, uv: exit code 0; amd_hostpkg_device_gfx1100 amd_hostpkg_device_gfx942 hostpkg
pylock.toml of uv, pip, gfx942: exit code 0; amd_hostpkg_device_gfx1100 amd_hostpkg_device_gfx942 hostpkg
pylock.toml of uv, uv, gfx942: exit code 0; amd_hostpkg_device_gfx1100 amd_hostpkg_device_gfx942 hostpkg
pylock.toml of uv, pip, gfx924: exit code 0; amd_hostpkg_device_gfx1100 amd_hostpkg_device_gfx942 hostpkg
pylock.toml of uv, uv, gfx924: exit code 0; amd_hostpkg_device_gfx1100 amd_hostpkg_device_gfx942 hostpkg
pylock.toml of pdm, pip: exit code 0; hostpkg
pylock.toml of pdm, uv: exit code 0; hostpkg
pylock.toml of pdm, pip, gfx942: exit code 0; amd_hostpkg_device_gfx942 hostpkg
pylock.toml of pdm, uv, gfx942: exit code 0; amd_hostpkg_device_gfx942 hostpkg
pylock.toml of pdm, pip, gfx924: exit code 0; hostpkg
pylock.toml of pdm, uv, gfx924: exit code 0; hostpkg
END
venv "$work/venv" pip==26.3 uv==0.13.9 pdm==2.29.4 hishel==1.4.0
python3 -c 'import sys, wheels; wheels.release(sys.argv[1], "gfx942", "gfx1100")' "$work/dist"
unset PYTHONPATH
mkdir "$work/project"
cd "$work/project"
cat >pyproject.toml <<END
[project]
name = "project"
version = "0"
requires-python = ">=3.11"
dependencies = ["hostpkg==1.0"]
[project.optional-dependencies]
gfx942 = ["hostpkg[device-gfx942]"]
gfx1100 = ["hostpkg[device-gfx1100]"]
[tool.pdm]
distribution = false
[[tool.pdm.source]]
name = "pypi"
url = "file://$work/dist"
type = "find_links"
[tool.uv]
no-index = true
find-links = ["$work/dist"]
END
uv=(env UV_PYTHON_DOWNLOADS=never "$work/venv/bin/uv" --cache-dir "$work/uv-cache" --quiet)
show() { # NAME COMMAND…: what the command installs
    local code=0
    "$work/venv/bin/python" -m venv --without-pip "$work/target"
    "${@:2}" >&2 || code=$?
    echo "$1: exit code $code;" $(ls "$work/target"/lib/python3*/site-packages | sed -n 's/-1.0.dist-info//p')
    rm -r "$work/target"
}
install() { # NAME
    local extra
    show "$1, pip" "$work/venv/bin/pip" --python "$work/target" install --quiet -r pylock.toml
    show "$1, uv" "${uv[@]}" pip install --python "$work/target" -r pylock.toml
    for extra in gfx942 gfx924; do
        show "$1, pip, $extra" "$work/venv/bin/pip" --python "$work/target" install --quiet -r "pylock.toml[$extra]"
        show "$1, uv, $extra" "${uv[@]}" pip install --python "$work/target" -r pylock.toml --extra $extra
    done
}
{
    "${uv[@]}" lock >&2
    show "uv.lock, uv, gfx942" env UV_PROJECT_ENVIRONMENT="$work/target" "${uv[@]}" sync --no-install-project --extra gfx942
    show "uv.lock, uv, gfx924" env UV_PROJECT_ENVIRONMENT="$work/target" "${uv[@]}" sync --no-install-project --extra gfx924
    "${uv[@]}" export --all-extras --format pylock.toml --output-file pylock.toml >&2
    install "pylock.toml of uv"
    rm pylock.toml
    "$work/venv/bin/pdm" config --local lock.format pylock >&2
    "$work/venv/bin/pdm" lock -G :all >&2
    install "pylock.toml of pdm"
} >"$work/out"
compare "$work/out"
