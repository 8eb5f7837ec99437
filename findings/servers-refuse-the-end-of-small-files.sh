#!/usr/bin/env bash
# Werkzeug 3.1.9 (Flask 3.1.3), Twisted 26.10.0, Tornado 6.6.1, aiohttp 3.14.5, Bottle 0.13.4, CherryPy 18.10.0, Starlette 1.10.0 and RangeHTTPServer 1.4.0
# (PyPI), and webfs 1.21, BusyBox 1.35.0, lighttpd 1.4.69 and h2o 2.2.5 (Debian 12), with wheels of 100,000 and 10,000 bytes.
# Expected: a server that answers a range answers the last 65,536 bytes of a file, and of a smaller file all of it, as RFC 9110 has it. That is how the
# directory of a zip file at another place is read, before its size is known.
# Seen: of the small wheel this is an error at four of them: 416 (Flask), 500 (Twisted), 400 (RangeHTTPServer, which knows no such range at all), and
# webfs promises 65,536 bytes and sends none. Tornado sends it with 200, as if it knew no ranges, and BusyBox each wheel. So what reads large wheels
# at such a server cannot read a small one, here remotezip 0.12.6 (PyPI), and many a host or device wheel is small.
. "$(dirname "$0")/common.sh"
recorded <<'END'
aiohttp, of 100,000 bytes: 206, 65,536 bytes; remotezip: reads 1 name | of 10,000 bytes: 206, 10,000 bytes; remotezip: reads 1 name
Bottle, of 100,000 bytes: 206, 65,536 bytes; remotezip: reads 1 name | of 10,000 bytes: 206, 10,000 bytes; remotezip: reads 1 name
BusyBox, of 100,000 bytes: 200, 100,000 bytes; remotezip: RangeNotSupported | of 10,000 bytes: 200, 10,000 bytes; remotezip: RangeNotSupported
CherryPy, of 100,000 bytes: 206, 65,536 bytes; remotezip: reads 1 name | of 10,000 bytes: 206, 10,000 bytes; remotezip: reads 1 name
Flask, of 100,000 bytes: 206, 65,536 bytes; remotezip: reads 1 name | of 10,000 bytes: 416; remotezip: RemoteIOError
h2o, of 100,000 bytes: 206, 65,536 bytes; remotezip: reads 1 name | of 10,000 bytes: 206, 10,000 bytes; remotezip: reads 1 name
lighttpd, of 100,000 bytes: 206, 65,536 bytes; remotezip: reads 1 name | of 10,000 bytes: 206, 10,000 bytes; remotezip: reads 1 name
RangeHTTPServer, of 100,000 bytes: 400; remotezip: RemoteIOError | of 10,000 bytes: 400; remotezip: RemoteIOError
Starlette, of 100,000 bytes: 206, 65,536 bytes; remotezip: reads 1 name | of 10,000 bytes: 206, 10,000 bytes; remotezip: reads 1 name
Tornado, of 100,000 bytes: 206, 65,536 bytes; remotezip: reads 1 name | of 10,000 bytes: 200, 10,000 bytes; remotezip: RangeNotSupported
Twisted, of 100,000 bytes: 206, 65,536 bytes; remotezip: reads 1 name | of 10,000 bytes: 500; remotezip: RemoteIOError
webfs, of 100,000 bytes: 206, 65,536 bytes; remotezip: reads 1 name | of 10,000 bytes: 0 of 65,536 bytes; remotezip: RemoteZipError
END
web_servers remotezip==0.12.6 requests==2.34.2
mkdir "$work/site"
cat >"$work/ask.py" <<'END'
import http.client
import random
import sys
import urllib.error
import urllib.request
import zipfile

import remotezip

import servers

root, work = sys.argv[1:]
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def end(url):
    """The answer to a request for the last 65,536 bytes."""
    try:
        with opener.open(urllib.request.Request(url, headers={"Range": "bytes=-65536"})) as answer:
            return f"{answer.status}, {len(answer.read()):,} bytes"
    except urllib.error.HTTPError as error:
        return str(error.code)
    except http.client.IncompleteRead as error:
        return f"{len(error.partial)} of {error.expected:,} bytes"


def names(url):
    """Whether remotezip reads the directory of the wheel."""
    try:
        with remotezip.RemoteZip(url) as wheel:
            return f"reads {len(wheel.namelist())} name"
    except Exception as error:
        return f"{type(error).__name__}"


for size in 100_000, 10_000:
    with zipfile.ZipFile(f"{work}/site/{size}.whl", "w") as wheel:
        wheel.writestr(zipfile.ZipInfo("k.co"), random.Random(size).randbytes(size - 106))
for name in sorted(["BusyBox", "h2o", "lighttpd", "webfs", *servers.FRAMEWORKS], key=str.lower):
    with servers.server(name, f"{work}/site", root, work) as url:
        answers = [f"of {size:,} bytes: {end(f'{url}/{size}.whl')}; remotezip: {names(f'{url}/{size}.whl')}" for size in (100_000, 10_000)]
    print(f"{name}, {' | '.join(answers)}")
END
no_proxy='*' "$work/venv/bin/python" "$work/ask.py" "$work/root" "$work" >"$work/out"
compare "$work/out"
