#!/usr/bin/env bash
# pip 26.3 and uv 0.13.9 (PyPI), with a local index.
# Expected: a cooldown (uploaded-prior-to of pip, exclude-newer of uv), which keeps new releases of PyPI out for some days, passes by indexes that do
# not say when a file was uploaded: an unknown time is a warning at most.
# Seen: upload times are in the JSON form of an index only, where they are optional. Without them pip ends with an error, and uv finds no version
# and says that they were filtered by the date. So such a setting, which is often in a file for all projects, makes all indexes of HTML and
# static ones of JSON unusable. pip also refuses pages of --find-links, which uv takes, and uv an index at file://, which pip takes; both take files
# of a folder, whatever their time. uv can except distributions, one by one, and, as a preview, an index.
. "$(dirname "$0")/common.sh"
recorded <<'END'
pip, index of HTML: exit code 1, does not provide upload-time metadata
pip, index of JSON: exit code 1, does not provide upload-time metadata
pip, index of JSON with times: exit code 0
pip, index at file://: exit code 0
pip, page of --find-links: exit code 1, does not provide upload-time metadata
pip, folder of --find-links: exit code 0
uv, index of HTML: exit code 1, was filtered by `exclude-newer`
uv, index of JSON: exit code 1, was filtered by `exclude-newer`
uv, index of JSON with times: exit code 0
uv, index at file://: exit code 1, was filtered by `exclude-newer`
uv, page of --find-links: exit code 0
uv, folder of --find-links: exit code 0
uv --exclude-newer-package …=false, index of HTML: exit code 0
uv, exclude-newer = false of the index of HTML: exit code 0
END
venv "$work/venv" pip==26.3 uv==0.13.9
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY
python3 -c 'import sys, wheels; wheels.release(sys.argv[1], "gfx942")' "$work/files"
for file in "$work"/files/*.whl; do
    project=$(basename "${file%%-1.0-*}" | tr _ -)
    mkdir -p "$work/simple/$project"
    echo "<a href=\"file://$file\">$(basename "$file")</a>" >"$work/simple/$project/index.html"
done
cat >"$work/serve.py" <<'END'
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

folder = sys.argv[1]
files = sorted(os.listdir(folder))


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        _, kind, project, *_ = self.path.split("/")
        mine = [file for file in files if project == "all" or file.replace("_", "-").startswith(f"{project}-1.0")]
        if kind == "files":
            content, form = open(f"{folder}/{project}", "rb").read(), "application/zip"
        elif kind == "html":
            content, form = "".join(f'<a href="/files/{file}">{file}</a>' for file in mine).encode(), "text/html"
        else:
            time = {"upload-time": "2025-01-01T00:00:00Z"} if kind == "json-times" else {}
            listed = [{"filename": file, "url": f"/files/{file}", "hashes": {}, "size": os.path.getsize(f"{folder}/{file}"), **time} for file in mine]
            page = {"meta": {"api-version": "1.1"}, "name": project, "versions": ["1.0"], "files": listed}
            content, form = json.dumps(page).encode(), "application/vnd.pypi.simple.v1+json"
        self.send_response(200)
        self.send_header("Content-Type", form)
        self.send_header("Content-Length", len(content))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
END
serve_by python3 "$work/serve.py" "$work/files"
show() { # NAME COMMAND…
    local code=0
    rm -rf "$work/target" "$work/uv-cache"
    "${@:2}" --target "$work/target" amd-hostpkg-device-gfx942 >"$work/message" 2>&1 || code=$?
    echo "$1: exit code $code$(grep -om1 -e 'does not provide upload-time metadata' -e 'was filtered by `exclude-newer`' "$work/message" | sed 's/^/, /')"
}
sources() { # NAME COMMAND…
    show "$1, index of HTML" "${@:2}" --index-url "$url/html"
    show "$1, index of JSON" "${@:2}" --index-url "$url/json"
    show "$1, index of JSON with times" "${@:2}" --index-url "$url/json-times"
    show "$1, index at file://" "${@:2}" --index-url "file://$work/simple"
    show "$1, page of --find-links" "${@:2}" --no-index --find-links "$url/html/all"
    show "$1, folder of --find-links" "${@:2}" --no-index --find-links "$work/files"
}
uv=(env UV_NO_CONFIG=1 UV_PYTHON_DOWNLOADS=never "$work/venv/bin/uv" pip install --cache-dir "$work/uv-cache" --exclude-newer 2026-06-01)
{
    sources pip "$work/venv/bin/pip" install --no-cache-dir --uploaded-prior-to 2026-06-01
    sources uv "${uv[@]}"
    show "uv --exclude-newer-package …=false, index of HTML" "${uv[@]}" --exclude-newer-package hostpkg=false \
        --exclude-newer-package amd-hostpkg-device-gfx942=false --index-url "$url/html"
    printf '%s\n' 'preview-features = ["index-exclude-newer"]' '[[index]]' "url = \"$url/html\"" 'default = true' 'exclude-newer = false' >"$work/uv.toml"
    show "uv, exclude-newer = false of the index of HTML" env -u UV_NO_CONFIG "${uv[@]:2}" --config-file "$work/uv.toml"
} >"$work/out"
compare "$work/out"
