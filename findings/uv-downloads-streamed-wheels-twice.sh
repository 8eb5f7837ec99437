#!/usr/bin/env bash
# uv 0.13.9 and pip 26.3 (PyPI), with a local index and one wheel in three forms. It holds a library of 20 MB, and behind it an archive of device code
# of 20 MB, which is stored as it is, for it is compressed already.
# Expected: a wheel is downloaded once, whatever way its zip was written.
# Seen: a program that writes a zip to a pipe, a socket or an object store states the size of an entry behind it (a data descriptor). If such an entry
# is stored, the one who reads from the start cannot know where it ends. uv, which unpacks while it downloads, gives up there and starts again, with
# a file on the disk, without a word. What lies before the entry is downloaded twice: the library here, and nearly all of a wheel whose
# archives come last. Compressed entries, whose ends can be seen, are no trouble. pip downloads once.
. "$(dirname "$0")/common.sh"
recorded <<'END'
archive stored, written to a file: uv downloads it 1 times
archive stored, written to a file: pip downloads it 1 times
archive deflated, written to a pipe: uv downloads it 1 times
archive deflated, written to a pipe: pip downloads it 1 times
archive stored, written to a pipe: uv downloads it 2 times, once broken off after more than 20 MB
archive stored, written to a pipe: pip downloads it 1 times
END
python3 - "$work/site" "$work/dist" <<'END'
import io
import os
import random
import sys
import zipfile

import wheels


class Pipe(io.RawIOBase):
    """Takes bytes, and cannot go back."""

    def __init__(self, path):
        self.file = open(path, "wb")

    def writable(self):
        return True

    def write(self, data):
        return self.file.write(data)


site, dist = sys.argv[1:]
device = random.Random(0).randbytes(20_000_000)
made = wheels.wheel(dist, "hostpkg", "1.0", {"hostpkg/libx.so": device, "hostpkg/.kpack/x.kpack": device, "hostpkg/__init__.py": b""})
for form in "file", "pipe-deflated", "pipe-stored":
    os.makedirs(f"{site}/{form}/hostpkg")
    path = f"{site}/{form}/hostpkg/{os.path.basename(made)}"
    with zipfile.ZipFile(made) as source, zipfile.ZipFile(path if form == "file" else Pipe(path), "w") as wheel:
        for member in source.infolist():
            entry = zipfile.ZipInfo(member.filename)
            stored = form != "pipe-deflated" and member.filename.endswith(".kpack")
            entry.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
            with wheel.open(entry, "w") as file:
                file.write(source.read(member))
END
venv "$work/venv" pip==26.3 uv==0.13.9
unset PYTHONPATH
export no_proxy=127.0.0.1 NO_PROXY=127.0.0.1
serve_ranges "$work/site" "$work/log"
for form in file pipe-deflated pipe-stored; do
    case $form in
    file) what="archive stored, written to a file" ;;
    pipe-deflated) what="archive deflated, written to a pipe" ;;
    pipe-stored) what="archive stored, written to a pipe" ;;
    esac
    for tool in uv pip; do
        : >"$work/log"
        rm -rf "$work/target"
        case $tool in
        uv) "$work/venv/bin/uv" pip install --no-cache --target "$work/target" --index-url "$url/$form" hostpkg >&2 ;;
        pip) "$work/venv/bin/pip" install --no-cache-dir --target "$work/target" --index-url "$url/$form" hostpkg >&2 ;;
        esac
        times=$(grep -c '^200' "$work/log")
        broken=$(awk '$1 == "broken" {print ", once broken off after more than " int($2 / 2e7) * 20 " MB"}' "$work/log")
        echo "$what: $tool downloads it $times times$broken"
    done
done >"$work/out"
compare "$work/out"
