#!/usr/bin/env bash
# uv 0.13.9 and pip 26.3 (PyPI), with a server whose connections break after 4 MB of a wheel of 10 MB.
# Expected: installers that can resume a download go on where the connection broke, so breaks cost little, and more retries are better.
# Seen: pip asks for the rest at once, with If-Range, five times at most. uv unpacks a wheel while it arrives, and starts from zero after a break:
# as often as UV_HTTP_RETRIES says, and once more, to a file; only breaks of this last attempt are resumed, as often again. So a fat wheel of
# 3 GB whose connections break at 2 GB costs 11 GB, and more retries cost more. Without retries uv does not resume. It asks for the
# rest without If-Range: a wheel that was replaced in between ends with a wrong CRC, where pip starts again.
. "$(dirname "$0")/common.sh"
recorded <<'END'
pip: exit code 0; from 0 MB, from 4 MB, from 8 MB
pip, replaced after the break: exit code 0; from 0 MB, from 0 MB (replaced), from 4 MB, from 8 MB
uv: exit code 0; from 0 MB, from 0 MB, from 0 MB, from 0 MB, from 0 MB, from 4 MB, from 8 MB
uv, UV_HTTP_RETRIES=5: exit code 0; from 0 MB, from 0 MB, from 0 MB, from 0 MB, from 0 MB, from 0 MB, from 0 MB, from 4 MB, from 8 MB
uv, UV_HTTP_RETRIES=0: exit code 2; from 0 MB, from 0 MB
uv, replaced after the break: exit code 1, Bad CRC; from 0 MB, from 0 MB, from 0 MB, from 0 MB, from 0 MB, from 4 MB (replaced), from 8 MB
END
venv "$work/venv" pip==26.3 uv==0.13.9
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY
cat >"$work/serve.py" <<'END'
import random
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import wheels

folder, replace = sys.argv[1], sys.argv[2] == "replace"
contents = []
for number in 0, 1:
    data = random.Random(number).randbytes(10_000_000)
    contents.append(open(wheels.wheel(f"{folder}/{number}", "hostpkg", "1.0", {"hostpkg/libx.so": data}), "rb").read())
current, starts = 0, []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, content, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", len(content))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content[:4_000_000])
            self.close_connection = len(content) > 4_000_000

    def do_GET(self):
        global current
        if self.path == "/starts":
            return self.answer(200, ", ".join(starts).encode())
        if not self.path.endswith(".whl"):
            page = b'<a href="/hostpkg-1.0-py3-none-any.whl">hostpkg-1.0-py3-none-any.whl</a>'
            return self.answer(200, page, Content_Type="text/html")
        requested = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers["Range"] or "bytes=0-")
        first, last = requested.groups() if requested else ("0", "")
        replaced = replace and not current and first != "0" and not last
        current += replaced
        content = contents[current]
        tag = f'"{current}"'
        headers = {"ETag": tag, "Accept_Ranges": "bytes", "Content_Type": "application/zip"}
        if self.headers["If-Range"] not in (None, tag):
            first, last = "0", ""
        if self.command == "GET" and not last:
            starts.append(f"from {int(first) // 1_000_000} MB{' (replaced)' * replaced}")
        part = content[int(first) : int(last) + 1 if last else None]
        if first != "0":
            headers["Content_Range"] = f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}"
        self.answer(206 if first != "0" else 200, part, **headers)

    do_HEAD = do_GET


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
END
show() { # NAME replace|keep COMMAND…: installs by the command from a new server
    local code=0 what=
    serve_by python3 "$work/serve.py" "$work/served" "$2"
    rm -rf "$work/target" "$work/uv-cache"
    "${@:3}" --index-url "$url/simple" --target "$work/target" hostpkg >"$work/message" 2>&1 || code=$?
    ! grep -q 'Bad CRC' "$work/message" || what=", Bad CRC"
    echo "$1: exit code $code$what; $(python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())' "$url/starts")"
    kill $server
    server=
}
pip=("$work/venv/bin/pip" install --no-cache-dir)
uv=(env UV_NO_CONFIG=1 UV_PYTHON_DOWNLOADS=never "$work/venv/bin/uv" pip install --cache-dir "$work/uv-cache")
{
    show pip keep "${pip[@]}"
    show "pip, replaced after the break" replace "${pip[@]}"
    show uv keep "${uv[@]}"
    show "uv, UV_HTTP_RETRIES=5" keep env UV_HTTP_RETRIES=5 "${uv[@]}"
    show "uv, UV_HTTP_RETRIES=0" keep env UV_HTTP_RETRIES=0 "${uv[@]}"
    show "uv, replaced after the break" replace "${uv[@]}"
} >"$work/out"
compare "$work/out"
