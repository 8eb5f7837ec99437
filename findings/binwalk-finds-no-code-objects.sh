#!/usr/bin/env bash
# binwalk 2.3.4 (Debian 12) and unblob 26.6.4 (PyPI), on the fat library of vapoursynth-bm3dhip 2.17.5 (PyPI), with plain code objects for 20 GPUs.
# Expected: programs that look for files inside of files, as scanners of firmware and of licences do, find each code object: it is a whole ELF file
# that begins at a multiple of 4096.
# Seen: binwalk takes for ELF only what has a zero as ABI version, where code objects since version 3 have the number of their version. So it reports
# the library alone, and of a bundle that is a file of its own nothing, with exit code 0. unblob finds the code objects of a bundle, and takes a
# library for one file in which it does not look.
. "$(dirname "$0")/common.sh"
recorded <<'END'
binwalk, library: exit code 0, 1 of 21 ELF files
unblob, library: exit code 0, 1 of 21 ELF files
binwalk, bundle: exit code 0, 0 of 20 ELF files
unblob, bundle: exit code 0, 20 of 20 ELF files
binwalk, bundle with ABI versions of 0: exit code 0, 20 of 20 ELF files
unblob, bundle with ABI versions of 0: exit code 0, 20 of 20 ELF files
END
amd_runtime
debs binwalk=2.3.4+dfsg1-1 python3-binwalk=2.3.4+dfsg1-1
venv "$work/venv" unblob==26.6.4
cp "$fat" "$work/library"
python3 - "$work" <<'END'
import sys

import comgr

with open(f"{sys.argv[1]}/library", "rb") as library:
    codes = [(name.rpartition("--")[2], code) for name, code in next(comgr.bundles(library.read())) if not name.startswith("host-")]
with open(f"{sys.argv[1]}/bundle", "wb") as file:
    file.write(comgr.bundle(codes))
with open(f"{sys.argv[1]}/bundle with ABI versions of 0", "wb") as file:
    file.write(comgr.bundle([(target, code[:8] + b"\0" + code[9:]) for target, code in codes]))
END
binwalk() { PYTHONPATH=$work/root/usr/lib/python3/dist-packages /usr/bin/python3 "$work/root/usr/bin/binwalk" "$1" >"$work/found"; }
unblob() {
    rm -rf "$work/extracted"
    mkdir "$work/extracted"
    (cd "$work" && venv/bin/unblob --extract-dir extracted "$1" >&2)
    find "$work/extracted" -name carved.elf -printf 'ELF,\n' >"$work/found"
}
for input in library bundle "bundle with ABI versions of 0"; do
    for program in binwalk unblob; do
        code=0
        $program "$work/$input" || code=$?
        case $input in library) all=21 ;; *) all=20 ;; esac
        echo "$program, $input: exit code $code, $(grep -c 'ELF,' "$work/found" || true) of $all ELF files"
    done
done >"$work/out"
compare "$work/out"
