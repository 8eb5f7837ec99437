#!/usr/bin/env bash
# Werkzeug 3.1.9 (Flask 3.1.3), Twisted 26.10.0, Tornado 6.6.1, aiohttp 3.14.5, Bottle 0.13.4, CherryPy 18.10.0, Starlette 1.10.0 and RangeHTTPServer 1.4.0
# (PyPI), and webfs 1.21, BusyBox 1.35.0 and h2o 2.2.5 (Debian 12), with a file that is replaced.
# Expected: a program that reads a wheel in parts can be sure that they are of one wheel. A server that answers ranges, and tells a file
# by an ETag or a time, answers If-Match (If-Unmodified-Since) with 412 after the file was replaced, and If-Range with the whole new file.
# Seen: six send the part of the new file whatever the condition: BusyBox, h2o, Bottle, Tornado, Twisted and RangeHTTPServer. Flask and Starlette obey
# If-Range alone, CherryPy If-Unmodified-Since alone, and aiohttp all but If-Range of an ETag; webfs, which has no ETags, obeys both for times.
# So a download that is resumed by If-Range, as pip does it, joins parts of two files at most of them. A program that reads ranges has to
# compare the ETag and the time of each answer with those of the first.
. "$(dirname "$0")/common.sh"
recorded <<'END'
aiohttp, If-Match of the ETag: 412, If-Range of the ETag: part of the new file, If-Unmodified-Since of the Last-Modified: 412, If-Range of the Last-Modified: new file
Bottle, If-Match of the ETag: part of the new file, If-Range of the ETag: part of the new file, If-Unmodified-Since of the Last-Modified: part of the new file, If-Range of the Last-Modified: part of the new file
BusyBox, If-Match of the ETag: part of the new file, If-Range of the ETag: part of the new file, If-Unmodified-Since of the Last-Modified: part of the new file, If-Range of the Last-Modified: part of the new file
CherryPy, If-Match of the ETag: cannot be asked, If-Range of the ETag: cannot be asked, If-Unmodified-Since of the Last-Modified: 412, If-Range of the Last-Modified: part of the new file
Flask, If-Match of the ETag: part of the new file, If-Range of the ETag: new file, If-Unmodified-Since of the Last-Modified: part of the new file, If-Range of the Last-Modified: new file
h2o, If-Match of the ETag: part of the new file, If-Range of the ETag: part of the new file, If-Unmodified-Since of the Last-Modified: part of the new file, If-Range of the Last-Modified: part of the new file
RangeHTTPServer, If-Match of the ETag: cannot be asked, If-Range of the ETag: cannot be asked, If-Unmodified-Since of the Last-Modified: part of the new file, If-Range of the Last-Modified: part of the new file
Starlette, If-Match of the ETag: part of the new file, If-Range of the ETag: new file, If-Unmodified-Since of the Last-Modified: part of the new file, If-Range of the Last-Modified: new file
Tornado, If-Match of the ETag: part of the new file, If-Range of the ETag: part of the new file, If-Unmodified-Since of the Last-Modified: part of the new file, If-Range of the Last-Modified: part of the new file
Twisted, If-Match of the ETag: cannot be asked, If-Range of the ETag: cannot be asked, If-Unmodified-Since of the Last-Modified: part of the new file, If-Range of the Last-Modified: part of the new file
webfs, If-Match of the ETag: cannot be asked, If-Range of the ETag: cannot be asked, If-Unmodified-Since of the Last-Modified: 412, If-Range of the Last-Modified: new file
END
web_servers
mkdir "$work/site"
cat >"$work/ask.py" <<'END'
import os
import sys
import urllib.error
import urllib.request

import servers

root, work = sys.argv[1:]
path = f"{work}/site/x.whl"
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def publish(content, time):
    """Puts a new file in the place of the old one."""
    with open(f"{path}.new", "wb") as file:
        file.write(content)
    os.utime(f"{path}.new", (time, time))
    os.rename(f"{path}.new", path)


def ask(url, **headers):
    request = urllib.request.Request(f"{url}/x.whl", headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with opener.open(request) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, b"", error.headers


def meaning(url, header, value):
    """What the answer to a range is, if the condition does not hold."""
    if not value:
        return "cannot be asked"
    status, content, _ = ask(url, Range="bytes=500-", **{header: value})
    return {(206, b"2" * 500): "part of the new file", (200, b"2" * 1000): "new file", (412, b""): "412"}.get((status, content), str(status))


for name in sorted(["BusyBox", "h2o", "webfs", *servers.FRAMEWORKS], key=str.lower):
    publish(b"1" * 1000, 1e9)
    with servers.server(name, f"{work}/site", root, work) as url:
        headers = ask(url)[2]
        publish(b"2" * 1000, 1.1e9)
        answers = [
            f"{header} of the {what}: {meaning(url, header.replace('-', '_'), headers[what])}"
            for header, what in (("If-Match", "ETag"), ("If-Range", "ETag"), ("If-Unmodified-Since", "Last-Modified"), ("If-Range", "Last-Modified"))
        ]
    print(f"{name}, {', '.join(answers)}")
END
"$work/venv/bin/python" "$work/ask.py" "$work/root" "$work" >"$work/out"
compare "$work/out"
