#!/usr/bin/env bash
# borg 1.2.4, restic 0.14.0 and casync 2 (Debian 12), on the fat library of vapoursynth-bm3dhip 2.17.5 (PyPI): 11.7 MB, one raw bundle for
# 20 GPUs, each of which has a code object of 0.5 to 0.6 MB.
# Expected: programs that cut files at places that their content determines find the code objects of the fat library in files of their own,
# so these cost nearly nothing: the bytes are the same and only their offsets differ.
# Seen: with their default sizes, chunks of borg and restic are larger than a code object, so hardly a chunk is free of its neighbours, and all
# the code is stored again. borg finds it with chunks of some 10 kB, and then it also finds what the code for similar GPUs shares.
# casync has chunks of 64 kB as default. (Compression is off, but for casync, which always compresses. Sizes are rounded.)
. "$(dirname "$0")/common.sh"
recorded <<'END'
files: fat library 11.7 MB, code objects 11.4 MB
borg: fat library 11.8 MB, with the code objects as files 23.1 MB
restic: fat library 12 MB, with the code objects as files 23 MB
borg --chunker-params buzhash,10,17,14,4095: fat library 5.5 MB, with the code objects as files 6.0 MB
casync: fat library 2.7 MB, with the code objects as files 3.7 MB
END
amd_runtime
debs borgbackup=1.2.4-1 python3-msgpack=1.0.3-2+b1 python3-packaging=23.0-1 python3-pkg-resources=66.1.1-1+deb12u2 libxxhash0=0.8.1-1 \
    restic=0.14.0-1+b5 casync=2+20201210-1+b1
mkdir "$work/fat" "$work/thin"
cp "$fat" "$work/fat"
python3 - "$fat" "$work/thin" <<'END'
import sys

import comgr

for name, code in next(comgr.bundles(open(sys.argv[1], "rb").read())):
    if not name.startswith("host-"):
        open(f"{sys.argv[2]}/{name.rpartition('-')[2]}.co", "wb").write(code)
END
format=%.1f
megabytes() { # PATH: of the files there
    find "$1" -type f -printf '%s\n' | awk -v format="$format MB" '{sum += $1} END {printf format, sum / 1e6}'
}
show() { # NAME PATH COMMAND…: stores both folders by the command, which gets the name of the folder
    local first
    "${@:3}" fat >&2
    first=$(megabytes "$2")
    "${@:3}" thin >&2
    echo "$1: fat library $first, with the code objects as files $(megabytes "$2")"
}
borg() {
    BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes PYTHONPATH=$work/root/usr/lib/python3/dist-packages /usr/bin/python3 "$work/root/usr/bin/borg" "$@"
}
borg_create() { borg create --compression none "${@:2:$#-2}" "$work/$1::${!#}" "$work/${!#}"; }
restic() { RESTIC_PASSWORD=none RESTIC_REPOSITORY=$work/restic "$work/root/usr/bin/restic" --quiet "$@"; }
restic_backup() { restic backup "$work/$1"; }
casync_make() { "$work/root/usr/bin/casync" make --store="$work/casync" "$work/$1.caidx" "$work/$1"; }
mkdir "$work/casync"
restic init --repository-version 1
borg init --encryption none "$work/borg"
borg init --encryption none "$work/borg-small"
{
    echo "files: fat library $(megabytes "$work/fat"), code objects $(megabytes "$work/thin")"
    show borg "$work/borg" borg_create borg
    # The cuts of restic depend on a random number of the repository.
    format=%.0f show restic "$work/restic" restic_backup
    show "borg --chunker-params buzhash,10,17,14,4095" "$work/borg-small" borg_create borg-small --chunker-params buzhash,10,17,14,4095
    show casync "$work/casync" casync_make
} >"$work/out"
compare "$work/out"
