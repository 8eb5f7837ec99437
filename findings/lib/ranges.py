"""Serves a folder, and parts of its files: ranges.py FOLDER LOG [digests]. The links of its pages may have digests. Before
content of a file is sent, LOG gets a line with the status and its bytes; one with "broken" and the bytes sent follows if the other side breaks off."""

import hashlib
import http.server
import os
import re
import sys

folder, log = sys.argv[1:3]
digests = sys.argv[3:] == ["digests"]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def note(*words):
    with open(log, "a") as file:
        print(*words, file=file)


def page(path):
    links = ""
    for name in sorted(os.listdir(path)):
        digest = f"#sha256={hashlib.sha256(read(f'{path}/{name}')).hexdigest()}" if digests else ""
        links += f'<a href="{name}{digest}">{name}</a>\n'
    return links.encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = folder + self.path
        if not os.path.exists(path):
            return self.send_error(404)
        is_page = os.path.isdir(path)
        content = page(path) if is_page else read(path)
        start, end = 0, len(content)
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range") or "")
        if asked and asked[1]:
            start, end = int(asked[1]), min(int(asked[2] or end) + 1, end)
        elif asked:
            start = max(end - int(asked[2]), 0)
        status = 206 if asked else 200
        if self.command == "GET" and not is_page:
            note(status, end - start)
        self.send_response(status)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(end - start))
        self.send_header("Content-Type", "text/html" if is_page else "application/octet-stream")
        self.end_headers()
        if self.command == "GET":
            self.send(content[start:end])

    do_HEAD = do_GET

    def send(self, content):
        for place in range(0, len(content), 100_000):
            try:
                self.wfile.write(content[place : place + 100_000])
            except OSError:
                self.close_connection = True
                return note("broken", place)

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
