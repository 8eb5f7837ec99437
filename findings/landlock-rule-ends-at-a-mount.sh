#!/usr/bin/env bash
# Linux 6.18.44, by landlock 1.0.0.dev5 (PyPI), which calls the kernel's Landlock from Python.
# Expected: a Landlock rule allows what is below a path. So a program that was started with a rule for /mnt/torch can read what is mounted
# there, also if that was mounted after its start, or unmounted and mounted again since.
# Seen: a rule belongs to the directory that was there when it was made, not to its path. A file system that is mounted over that directory later
# is not allowed, nor is the next one after an unmount, with the same files at the same path: opening them is EACCES until the program
# ends. A rule for the parent directory covers each mount below it.
. "$(dirname "$0")/common.sh"
recorded <<'END'
rule for the mount point, mounted before: content
rule for the mount point, unmounted and mounted again: Permission denied
rule for the mount point, mounted after: Permission denied
rule for its parent, mounted after: content
rule for its parent, unmounted and mounted again: content
END
venv "$work/venv" landlock==1.0.0.dev5
cat >"$work/try.py" <<'END'
import os
import subprocess
import sys

import landlock

parent = sys.argv[1]
point = f"{parent}/point"
os.makedirs(point)


def mount():
    subprocess.run(["mount", "-t", "tmpfs", "none", point], check=True)
    with open(f"{point}/file", "w") as file:
        file.write("content")


def unmount():
    subprocess.run(["umount", point], check=True)


def again():
    unmount()
    mount()


def confined(allowed, *steps):
    """Starts a process that may read below `allowed` only, and asks it after each step whether it can read the file."""
    asked, ask = os.pipe()
    answers, answer = os.pipe()
    if os.fork() == 0:
        os.close(ask)
        rules = landlock.Ruleset(landlock.FSAccess.READ_FILE | landlock.FSAccess.READ_DIR)
        rules.allow(allowed)
        rules.apply()
        os.write(answer, b"!")
        while os.read(asked, 1):
            try:
                with open(f"{point}/file") as file:
                    result = file.read()
            except OSError as error:
                result = error.strerror
            os.write(answer, result.encode())
        os._exit(0)
    os.close(asked)
    os.close(answer)
    os.read(answers, 1)
    for name, step in steps:
        step()
        os.write(ask, b"?")
        print(f"rule for {'the mount point' if allowed == point else 'its parent'}, {name}: {os.read(answers, 100).decode()}")
    os.close(ask)
    os.wait()


mount()
confined(point, ("mounted before", lambda: None), ("unmounted and mounted again", again))
unmount()
confined(point, ("mounted after", mount))
unmount()
confined(parent, ("mounted after", mount), ("unmounted and mounted again", again))
unmount()
END
[ "$(id -u)" = 0 ] || unavailable "run it as root: it mounts in a namespace of its own"
"$work/venv/bin/python" -c 'import landlock; landlock.landlock_abi_version()' >&2 || unavailable "this kernel has no Landlock"
unshare --mount --propagation private true || unavailable "no rights for a mount namespace"
unshare --mount --propagation private "$work/venv/bin/python" "$work/try.py" "$work/mounts" >"$work/out"
compare "$work/out"
