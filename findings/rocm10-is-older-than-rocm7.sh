#!/usr/bin/env bash
# pip 26.3 and uv 0.13.9 (PyPI).
# Expected: of wheels that differ in their local label alone (1.0+rocm7.2, 1.0+rocm10.0), installers take the one for the newest ROCm, as
# they do for 7.2 and 7.10, and --upgrade goes up.
# Seen: a label is compared part by part between its dots. A part of digits is a number, any other is text, and as text rocm10 is before rocm7. So an
# index with wheels for ROCm 6, 7 and 10 gives those for ROCm 7, and --upgrade replaces a wheel for ROCm 10 by one for ROCm 7, with exit code 0.
# With a label without a letter before the number (10.0) it is not so.
. "$(dirname "$0")/common.sh"
recorded <<'END'
pip, rocm6.4 rocm7.2: 1.0+rocm7.2
pip, rocm7.2 rocm7.10: 1.0+rocm7.10
pip, rocm7.2 rocm10.0: 1.0+rocm7.2
pip, 7.2 10.0: 1.0+10.0
pip, rocm7.2 rocm10.0, --upgrade from rocm10.0: 1.0+rocm7.2
uv, rocm6.4 rocm7.2: 1.0+rocm7.2
uv, rocm7.2 rocm7.10: 1.0+rocm7.10
uv, rocm7.2 rocm10.0: 1.0+rocm7.2
uv, 7.2 10.0: 1.0+10.0
uv, rocm7.2 rocm10.0, --upgrade from rocm10.0: 1.0+rocm7.2
END
while read -r labels; do
    python3 - "$work/$labels" "$labels" <<'END'
import sys

import wheels

for label in sys.argv[2].split():
    wheels.wheel(sys.argv[1], "hostpkg", f"1.0+{label}", {"hostpkg/__init__.py": b""})
END
done <<'END'
rocm6.4 rocm7.2
rocm7.2 rocm7.10
rocm7.2 rocm10.0
7.2 10.0
END
venv "$work/venv" uv==0.13.9
unset PYTHONPATH
"$work/venv/bin/python" -m pip install --quiet pip==26.3 >&2 || unavailable "pip cannot install pip 26.3"
uv() { "$work/venv/bin/uv" pip install --quiet --no-index --python "$work/environment/bin/python" "$@" >&2; }
pip() { "$work/venv/bin/python" -m pip --python "$work/environment" install --quiet --no-index "$@" >&2; }
installed() { (cd "$work"/environment/lib/python3*/site-packages && echo hostpkg-*.dist-info | sed 's/hostpkg-//; s/.dist-info//'); }
for installer in pip uv; do
    for labels in "rocm6.4 rocm7.2" "rocm7.2 rocm7.10" "rocm7.2 rocm10.0" "7.2 10.0"; do
        rm -rf "$work/environment"
        python3 -m venv --without-pip "$work/environment"
        $installer --find-links "$work/$labels" hostpkg
        echo "$installer, $labels: $(installed)"
    done
    rm -rf "$work/environment"
    python3 -m venv --without-pip "$work/environment"
    $installer --find-links "$work/rocm7.2 rocm10.0" hostpkg==1.0+rocm10.0
    $installer --find-links "$work/rocm7.2 rocm10.0" --upgrade hostpkg
    echo "$installer, rocm7.2 rocm10.0, --upgrade from rocm10.0: $(installed)"
done >"$work/out"
compare "$work/out"
