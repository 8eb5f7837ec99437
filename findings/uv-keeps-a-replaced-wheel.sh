#!/usr/bin/env bash
# uv 0.13.9 and pip 26.3 (PyPI), with Python's HTTP server.
# Expected: an installer asks the index again, and takes the wheel that is there now.
# Seen: uv keeps pages of an index for ten minutes, and what it unpacked by the name of the file. After a release was split again under the same
# version, a new environment gets the old content, with exit code 0, also from a local directory of wheels, and from pages with digests
# while uv keeps the page. --reinstall and --refresh make it look. pip takes the new wheel at once.
. "$(dirname "$0")/common.sh"
recorded <<'END'
at first, uv, index: first
at first, uv, index with digests: first
at first, uv, directory: first
at first, pip, index: first
replaced, uv, index: first
replaced, uv, index with digests: first
replaced, uv, directory: first
replaced, pip, index: second
replaced, uv --reinstall, index: second
replaced, uv --refresh, directory: second
END
venv "$work/venv" uv==0.13.9
venv "$work/new-pip" pip==26.3
python=$(command -v python3)
uv=$work/venv/bin/uv
export UV_CACHE_DIR=$work/uv-cache UV_PYTHON_DOWNLOADS=never UV_NO_CONFIG=1
publish() { # CONTENT: the wheel and the pages of an index with and without digests
    "$python" - "$work/site" "$1" <<'END'
import hashlib
import os
import sys

import wheels

site, content = sys.argv[1:]
path = wheels.wheel(f"{site}/files", "hostpkg", "1.0", {"hostpkg.py": f"print('{content}')".encode()})
with open(path, "rb") as file:
    digest = hashlib.sha256(file.read()).hexdigest()
for index, suffix in ("plain", ""), ("digests", f"#sha256={digest}"):
    os.makedirs(f"{site}/{index}/hostpkg", exist_ok=True)
    with open(f"{site}/{index}/hostpkg/index.html", "w") as file:
        file.write(f'<a href="/files/{os.path.basename(path)}{suffix}">{os.path.basename(path)}</a>')
END
}
publish first
serve "$work/site"
install() { # NAME COMMAND…: installs to a directory, and prints what was installed
    local name=$1
    shift
    rm -rf "$work/target"
    "$@" --quiet --target "$work/target" hostpkg >&2
    echo "$name: $(PYTHONPATH=$work/target "$python" -c 'import hostpkg')"
}
options=(pip install --python "$python")
all() { # WHEN
    install "$1, uv, index" "$uv" "${options[@]}" --default-index "$url/plain"
    install "$1, uv, index with digests" "$uv" "${options[@]}" --default-index "$url/digests"
    install "$1, uv, directory" "$uv" "${options[@]}" --no-index --find-links "$work/site/files"
    install "$1, pip, index" "$work/new-pip/bin/pip" install --index-url "$url/plain"
}
{
    all "at first"
    publish second
    all "replaced"
    install "replaced, uv --reinstall, index" "$uv" "${options[@]}" --reinstall --default-index "$url/plain"
    install "replaced, uv --refresh, directory" "$uv" "${options[@]}" --refresh --no-index --find-links "$work/site/files"
} >"$work/out"
compare "$work/out"
