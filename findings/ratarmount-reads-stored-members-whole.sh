#!/usr/bin/env bash
# ratarmount 1.3.0 (PyPI) and fuse-zip 0.5.0 (Debian 12), with a wheel that holds a library of 256 MB, stored as it is.
# Expected: as the bytes of a stored member lie in the wheel one after the other, a mount of the wheel reads what is asked for, anywhere.
# Seen: ratarmount, whose subject is random access, reads with zipfile of Python, which in 3.11 reads from the start of a member to the place, also of
# a stored one, and begins again for a place before that. So a page at the end of a stored library costs the library, and loading it, with
# tables at both ends, costs it several times. fuse-zip reads the page.
. "$(dirname "$0")/common.sh"
recorded <<'END'
zipfile, read for single pages of 256 MB: last page 256 MB, first page 0 MB, page in the middle 128 MB
fuse-zip, read for single pages of 256 MB: last page 0 MB, first page 0 MB, page in the middle 0 MB
ratarmount, read for single pages of 256 MB: last page 256 MB, first page 0 MB, page in the middle 128 MB
END
python3 -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || unavailable "python3 is not Python 3.11"
[ -e /dev/fuse ] || unavailable "no /dev/fuse"
unshare --mount --propagation private true || unavailable "no rights for a mount namespace"
debs fuse-zip=0.5.0-1+b1 libfuse2=2.9.9-6+b1 libzip4=1.7.3-1+b1
venv "$work/venv" ratarmount==1.3.0 ratarmountcore==0.11.1 mfusepy==3.1.1
mkdir "$work/mounted"
cat >"$work/read.py" <<'END'
"""Mounts the wheel by a command, and tells what its process reads for single pages of the library."""

import os
import re
import subprocess
import sys
import time
import zipfile

PAGE, SIZE = 4096, 256_000_000
name, wheel, mount, *command = sys.argv[1:]
if not os.path.exists(wheel):
    with zipfile.ZipFile(wheel, "w") as archive:
        member = zipfile.ZipInfo("libx.so")
        member.external_attr = 0o100644 << 16
        archive.writestr(member, bytes(SIZE))


def total(process):
    with open(f"/proc/{process}/io") as file:
        return int(re.search(r"rchar: (\d+)", file.read())[1])


def show(process, read):
    seen = []
    for what, offset in ("last page", SIZE - PAGE), ("first page", 0), ("page in the middle", SIZE // 2):
        before = total(process)
        assert len(read(offset)) == PAGE
        seen.append(f"{what} {(total(process) - before) / 1e6:.0f} MB")
    print(f"{name}, read for single pages of 256 MB: {', '.join(seen)}")


if command:
    process = subprocess.Popen([*command, wheel, mount], stdout=subprocess.DEVNULL)
    while not os.path.exists(f"{mount}/libx.so"):
        assert process.poll() is None
        time.sleep(0.1)
    with open(f"{mount}/libx.so", "rb") as file:
        show(process.pid, lambda offset: os.pread(file.fileno(), PAGE, offset))
    subprocess.run(["umount", mount], check=True)
    process.wait()
else:
    with zipfile.ZipFile(wheel).open("libx.so") as file:
        show("self", lambda offset: file.seek(offset) * 0 or file.read(PAGE))
END
libraries=$LD_LIBRARY_PATH
unset PYTHONPATH LD_LIBRARY_PATH
show() { # NAME COMMAND…
    unshare --mount --propagation private python3 "$work/read.py" "$1" "$work/x.whl" "$work/mounted" "${@:2}"
}
{
    show zipfile
    show fuse-zip env LD_LIBRARY_PATH="$libraries" "$work/root/usr/bin/fuse-zip" -f -r
    show ratarmount "$work/venv/bin/ratarmount" -f
} >"$work/out"
compare "$work/out"
