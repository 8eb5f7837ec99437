#!/usr/bin/env bash
# fsspec 2026.9.0 with aiohttp 3.14.5, smart_open 9.0.2 and remotezip 0.12.6 (PyPI), and a local server that answers ranges, with a wheel of 20 MB:
# 40 stored code objects of 0.5 MB each. They are read by Python's zipfile, in the order of the wheel and in the reverse one.
# Expected: a reader that asks for ranges gets a member for about its size, and all members for about the size of the wheel, whatever the order.
# Seen: with the default of fsspec a member costs 5 MB, since each jump reads ahead by a block, and all of them eight times the wheel, as nothing behind
# is kept. A database for each GPU is read like that: its members lie far from each other. The cache by blocks costs the wheel. smart_open asks
# for all bytes up to the end at each jump, and breaks off: 430 MB are on their way, as far as the buffers of the connections take them.
# remotezip asks for the member.
. "$(dirname "$0")/common.sh"
recorded <<'END'
fsspec, one member: 5 MB
fsspec, all members: 30 MB
fsspec, all members, from the last one on: 162 MB
fsspec, cache_type blockcache, one member: 15 MB
fsspec, cache_type blockcache, all members: 20 MB
fsspec, cache_type blockcache, all members, from the last one on: 20 MB
smart_open, one member: 30 MB
smart_open, all members: 40 MB
smart_open, all members, from the last one on: 430 MB
remotezip, one member: 1 MB
remotezip, all members: 20 MB
remotezip, all members, from the last one on: 20 MB
END
venv "$work/venv" fsspec==2026.9.0 aiohttp==3.14.5 requests==2.34.2 smart-open==9.0.2 remotezip==0.12.6
export no_proxy=127.0.0.1 NO_PROXY=127.0.0.1
mkdir "$work/site"
serve_ranges "$work/site" "$work/log"
cat >"$work/read.py" <<'END'
import random
import sys
import zipfile

import fsspec
import remotezip
import smart_open

path, url, log = sys.argv[1:]
generator = random.Random(0)
with zipfile.ZipFile(path, "w") as wheel:
    names = [f"hostpkg/kernels/{number}.co" for number in range(40)]
    for name in names:
        wheel.writestr(zipfile.ZipInfo(name), generator.randbytes(500_000))
readers = {
    "fsspec": lambda: zipfile.ZipFile(fsspec.open(url).open()),
    "fsspec, cache_type blockcache": lambda: zipfile.ZipFile(fsspec.open(url, cache_type="blockcache").open()),
    "smart_open": lambda: zipfile.ZipFile(smart_open.open(url, "rb")),
    "remotezip": lambda: remotezip.RemoteZip(url),
}
for reader, opened in readers.items():
    for what, read in ("one member", names[20:21]), ("all members", names), ("all members, from the last one on", names[::-1]):
        open(log, "w").close()
        with opened() as wheel:
            for name in read:
                assert len(wheel.read(name)) == 500_000
        with open(log) as file:
            asked = sum(int(line.split()[1]) for line in file if not line.startswith("broken"))
        print(f"{reader}, {what}: {asked / 1e6:.0f} MB")
END
"$work/venv/bin/python" "$work/read.py" "$work/site/hostpkg-1.0-py3-none-any.whl" "$url/hostpkg-1.0-py3-none-any.whl" "$work/log" >"$work/out"
compare "$work/out"
