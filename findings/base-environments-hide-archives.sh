#!/usr/bin/env bash
# pip 26.3 and uv 0.13.9 (PyPI), python3.11 3.11.2-6+deb12u9 (Debian 12), with a virtual environment on top of a Python that has the host wheel, as
# images with PyTorch have it (--system-site-packages).
# Expected: pip and uv install an extra for a GPU there so that it works, or say that the host wheel lies elsewhere.
# Seen: pip takes the host of the base as installed, with its extra, and lays the device wheel into the environment, with exit code 0 and no
# warning. Python imports the host from the base, as a directory without `__init__.py` counts less; no archive is next to its library, so no GPU has
# kernels. `pip check` finds nothing. uv does not look into the base, and installs a second host. pip's --ignore-installed does so, too.
. "$(dirname "$0")/common.sh"
recorded <<'END'
pip: exit code 0, 0 lines of messages; No broken requirements found.
  hostpkg of the base is imported; archives next to its library: False
pip --ignore-installed: exit code 0, 0 lines of messages; No broken requirements found.
  hostpkg of the environment is imported; archives next to its library: True
uv: exit code 0, 0 lines of messages; No broken requirements found.
  hostpkg of the environment is imported; archives next to its library: True
END
debs python3.11=3.11.2-6+deb12u9 python3.11-minimal=3.11.2-6+deb12u9 libpython3.11-minimal=3.11.2-6+deb12u9 libpython3.11-stdlib=3.11.2-6+deb12u9 \
    libexpat1=2.5.0-1+deb12u5
base=$work/root/usr
venv "$work/venv" pip==26.3 uv==0.13.9
python3 -c 'import sys, wheels; wheels.release(sys.argv[1], "gfx942")' "$work/dist"
unset PYTHONPATH
"$work/venv/bin/pip" install --quiet --no-index --find-links "$work/dist" --target "$base/local/lib/python3.11/dist-packages" hostpkg >&2
pip=("$work/venv/bin/pip" --python "$work/target" install --quiet)
uv=(env UV_NO_CONFIG=1 UV_PYTHON_DOWNLOADS=never "$work/venv/bin/uv" pip install --quiet --cache-dir "$work/uv-cache" --python "$work/target")
show() { # NAME COMMAND…
    local code=0
    "$base/bin/python3.11" -m venv --without-pip --system-site-packages "$work/target"
    "${@:2}" --no-index --find-links "$work/dist" 'hostpkg[device-gfx942]' >"$work/message" 2>&1 || code=$?
    echo "$1: exit code $code, $(wc -l <"$work/message") lines of messages; $("$work/venv/bin/pip" --python "$work/target" check)"
    "$work/target/bin/python" - "$work/target" <<'END'
import os
import sys

import hostpkg

host = os.path.dirname(hostpkg.__file__)
where = "the environment" if host.startswith(sys.argv[1]) else "the base"
print(f"  hostpkg of {where} is imported; archives next to its library: {os.path.isdir(f'{host}/.kpack')}")
END
    rm -r "$work/target"
}
{
    show pip "${pip[@]}"
    show "pip --ignore-installed" "${pip[@]}" --ignore-installed
    show uv "${uv[@]}"
} >"$work/out"
compare "$work/out"
