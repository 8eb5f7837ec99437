#!/usr/bin/env bash
# pex 2.105.2 (PyPI).
# Expected: a PEX with a host wheel and its device wheel has both in one package directory, at least with --venv, which makes a virtual
# environment: there pip and uv lay the archive next to the library.
# Seen: each wheel keeps a directory of its own, also in the virtual environment, where packages that two wheels share become one entry of
# sys.path for each wheel. The library sees no .kpack, so no GPU has kernels; Python finds all its modules. Copies instead of links
# (--venv-site-packages-copies) merge the two, and so does the environment that the tool `venv` of a PEX makes.
. "$(dirname "$0")/common.sh"
recorded <<'END'
default: archive next to the library: no
--venv prepend: archive next to the library: no
--venv prepend --venv-site-packages-copies: archive next to the library: yes
tool venv: archive next to the library: yes
END
venv "$work/venv" pex==2.105.2
python=$work/venv/bin/python
"$python" -c 'import sys, wheels; wheels.release(sys.argv[1], "gfx942")' "$work/dist"
cat >"$work/look.py" <<'END'
import os

import hostpkg

# As a HIP runtime does: from the real path of the library.
library = os.path.realpath(os.path.join(os.path.dirname(hostpkg.__file__), "lib/libx.so"))
archive = os.path.join(os.path.dirname(library), "../.kpack/hostpkg_gfx942.kpack")
print("archive next to the library:", "yes" if os.path.exists(archive) else "no")
END
export PEX_ROOT=$work/pex-root
unset PYTHONPATH
pex() { # OPTION…
    rm -rf "$work/app.pex"
    "$work/venv/bin/pex" --no-pypi --find-links "$work/dist" "$@" hostpkg amd-hostpkg-device-gfx942 --output-file "$work/app.pex" >&2
}
for options in "" "--venv prepend" "--venv prepend --venv-site-packages-copies"; do
    # shellcheck disable=SC2086 # several options
    pex $options
    echo "${options:-default}: $("$python" "$work/app.pex" "$work/look.py")"
done >"$work/out"
pex --include-tools
PEX_TOOLS=1 "$python" "$work/app.pex" venv "$work/made" >&2
echo "tool venv: $("$work/made/bin/python" "$work/look.py")" >>"$work/out"
compare "$work/out"
