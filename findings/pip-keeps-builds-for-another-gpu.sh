#!/usr/bin/env bash
# pip 26.3 and uv 0.13.9 (PyPI), with a source distribution that is built for one GPU, which a config setting (-C gpu=…, as of scikit-build-core and
# meson-python) or an environment variable (as PYTORCH_ROCM_ARCH and CMAKE_ARGS) names.
# Expected: an installer that keeps what it built knows what it was asked to build. So with another setting it builds again, at the latest with
# --no-binary, which asks for a build.
# Seen: pip keeps a wheel by the link of its source distribution alone. Another setting gets the wheel for the GPU of the first build, with exit code 0, and
# so does --no-binary; "Using cached" is the only word. So images that share a cache of pip and are built for a GPU each have the code for the one
# that was built first. uv has the settings in its key, and variables in neither. A source distribution that is a file of its own is built each time.
. "$(dirname "$0")/common.sh"
recorded <<'END'
pip, setting: asked for gfx942, gets gfx942
pip, setting: asked for gfx1100, gets gfx942
pip, setting, --no-binary=hostpkg: asked for gfx1100, gets gfx942
pip, setting, --no-cache-dir: asked for gfx1100, gets gfx1100
pip, variable: asked for gfx942, gets gfx942
pip, variable: asked for gfx1100, gets gfx942
pip, variable, --no-binary=hostpkg: asked for gfx1100, gets gfx942
pip, variable, --no-cache-dir: asked for gfx1100, gets gfx1100
pip, setting, file: asked for gfx942, gets gfx942
pip, setting, file: asked for gfx1100, gets gfx1100
uv, setting: asked for gfx942, gets gfx942
uv, setting: asked for gfx1100, gets gfx1100
uv, setting, --no-binary=hostpkg: asked for gfx1100, gets gfx1100
uv, setting, --reinstall: asked for gfx1100, gets gfx1100
uv, variable: asked for gfx942, gets gfx942
uv, variable: asked for gfx1100, gets gfx942
uv, variable, --no-binary=hostpkg: asked for gfx1100, gets gfx942
uv, variable, --reinstall: asked for gfx1100, gets gfx1100
uv, setting, file: asked for gfx942, gets gfx942
uv, setting, file: asked for gfx1100, gets gfx1100
END
venv "$work/tools" pip==26.3 uv==0.13.9
mkdir -p "$work/hostpkg-1.0" "$work/site/hostpkg"
cat >"$work/hostpkg-1.0/pyproject.toml" <<'END'
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "hostpkg"
version = "1.0"
END
cat >"$work/hostpkg-1.0/backend.py" <<'END'
"""Builds a wheel for one GPU."""

import os
import zipfile

GPU = os.environ.get("HOSTPKG_GPU")
INFORMATION = "hostpkg-1.0.dist-info"


def build_wheel(directory, config_settings=None, metadata_directory=None):
    files = {
        "hostpkg.py": f"print({(config_settings or {}).get('gpu', GPU)!r})\n",
        f"{INFORMATION}/METADATA": "Metadata-Version: 2.1\nName: hostpkg\nVersion: 1.0\n",
        f"{INFORMATION}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{INFORMATION}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{INFORMATION}/RECORD"])
    with zipfile.ZipFile(f"{directory}/hostpkg-1.0-py3-none-any.whl", "w") as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)
    return "hostpkg-1.0-py3-none-any.whl"
END
sdist=$work/site/hostpkg/hostpkg-1.0.tar.gz
tar -czf "$sdist" -C "$work" hostpkg-1.0
serve "$work/site"
export UV_CACHE_DIR=$work/uv-cache UV_NO_CONFIG=1 UV_PYTHON_DOWNLOADS=never
unset PIP_FIND_LINKS PYTHONPATH
install() { # TOOL WHAT GPU OPTION…: installs the distribution, and tells for which GPU it is
    local program=("$work/tools/bin/pip" install)
    [ "$1" = pip ] || program=("$work/tools/bin/uv" pip install --python "$work/tools/bin/python")
    rm -rf "$work/target"
    "${program[@]}" --quiet --index-url "$url/" --target "$work/target" "${@:4}" >&2
    echo "$1, $2: asked for $3, gets $(PYTHONPATH=$work/target python3 -c 'import hostpkg')"
}
setting() { # TOOL GPU OPTION…
    install "$1" "setting${3:+, $3}" "$2" -C "gpu=$2" "${@:3}" hostpkg
}
variable() { # TOOL GPU OPTION…
    HOSTPKG_GPU=$2 install "$1" "variable${3:+, $3}" "$2" "${@:3}" hostpkg
}
for tool in pip uv; do
    for ask in setting variable; do
        rm -rf "$work/cache" "$work/uv-cache"
        $ask $tool gfx942
        $ask $tool gfx1100
        $ask $tool gfx1100 --no-binary=hostpkg
        case $tool in pip) $ask $tool gfx1100 --no-cache-dir ;; uv) $ask $tool gfx1100 --reinstall ;; esac
    done
    install $tool "setting, file" gfx942 -C gpu=gfx942 "$sdist"
    install $tool "setting, file" gfx1100 -C gpu=gfx1100 "$sdist"
done >"$work/out"
compare "$work/out"
