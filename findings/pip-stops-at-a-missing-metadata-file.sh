#!/usr/bin/env bash
# pip 26.3 and uv 0.13.9 (PyPI), with Python's HTTP server.
# Expected: an installer that finds no <wheel>.metadata, though the page of the index offers it (PEP 658), takes the wheel instead: the
# sidecar saves bytes, and is not needed.
# Seen: both stop with an error for 404. An index whose pages were written by a server that makes sidecars, and which is then copied as
# files without them, cannot be installed from. A page that offers no sidecar works.
. "$(dirname "$0")/common.sh"
recorded <<'END'
no sidecar is offered: pip installs, uv installs
a sidecar is offered and there: pip installs, uv installs
a sidecar is offered and not there: pip exit code 1, uv exit code 1
END
venv "$work/venv" uv==0.13.9 pip==26.3
export UV_CACHE_DIR=$work/uv-cache UV_PYTHON_DOWNLOADS=never UV_NO_CONFIG=1
python3 - "$work/site" <<'END'
import hashlib
import os
import sys
import zipfile

import wheels

site = sys.argv[1]
for index in "without", "there", "missing":
    path = wheels.wheel(f"{site}/files/{index}", "hostpkg", "1.0", {"hostpkg.py": b""})
    metadata = zipfile.ZipFile(path).read("hostpkg-1.0.dist-info/METADATA")
    if index == "there":
        with open(f"{path}.metadata", "wb") as file:
            file.write(metadata)
    offer = "" if index == "without" else f' data-core-metadata="sha256={hashlib.sha256(metadata).hexdigest()}"'
    os.makedirs(f"{site}/{index}/hostpkg")
    with open(f"{site}/{index}/hostpkg/index.html", "w") as file:
        file.write(f'<a href="/files/{index}/{os.path.basename(path)}"{offer}>{os.path.basename(path)}</a>')
END
serve "$work/site"
run() { # COMMAND…
    local code=0
    rm -rf "$work/target"
    "$@" --quiet --target "$work/target" hostpkg >&2 || code=$?
    if [ $code = 0 ] && [ -e "$work/target/hostpkg.py" ]; then echo installs; else echo "exit code $code"; fi
}
while IFS=: read -r index what; do
    pip=$(run "$work/venv/bin/pip" install --no-cache-dir --index-url "$url/$index")
    uv=$(run "$work/venv/bin/uv" pip install --no-cache --python "$(command -v python3)" --default-index "$url/$index")
    echo "$what: pip $pip, uv $uv"
done >"$work/out" <<'END'
without:no sidecar is offered
there:a sidecar is offered and there
missing:a sidecar is offered and not there
END
compare "$work/out"
