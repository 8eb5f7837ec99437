#!/usr/bin/env bash
# xdelta3 3.0.11 and zstd 1.5.4 (Debian 12), on librocsparse0 5.3.0+dfsg-2 (Debian 12): a library of 1.3 GB with code for 7 GPUs in 111 fat binaries.
# Expected: a delta from a fat library to its code for one GPU is next to nothing: all bytes of it are in the old file.
# Seen: xdelta3 reads the old file and the new one side by side, and remembers 64 MB of the old one. The code for one GPU lies all over the library, and
# most of what a delta would refer to was forgotten or not read yet: the delta is nearly what the compressed code is, with exit code 0 and no word.
# With -B as large as the library it is next to nothing. zstd --patch-from takes the whole old file as a dictionary. (Sizes in MB.)
. "$(dirname "$0")/common.sh"
recorded <<'END'
library: 1310.5, code for gfx1030: 189.9
xdelta3, no old file: 26.5
xdelta3, old file: 25.1
xdelta3 -B 1400000000, old file: 0.0
zstd, no old file: 30.0
zstd --patch-from, old file: 0.4
END
debs xdelta3=3.0.11-dfsg-1.2 zstd=1.5.4+dfsg2-5 librocsparse0=5.3.0+dfsg-2
library=$work/root/usr/lib/x86_64-linux-gnu/librocsparse.so.0.1
python3 - "$library" "$work/code" <<'END'
import sys

import comgr

with open(sys.argv[1], "rb") as library, open(sys.argv[2], "wb") as code:
    for bundle in comgr.bundles(library.read()):
        for name, content in bundle:
            if name.endswith("gfx1030"):
                code.write(content)
END
show() { # NAME COMMAND…: the size of what the command writes to $work/delta
    "${@:2}" >&2
    echo "$1: $(stat -c %s "$work/delta" | awk '{printf "%.1f", $1 / 1e6}')"
}
{
    echo "library: $(stat -Lc %s "$library" | awk '{printf "%.1f", $1 / 1e6}'), code for gfx1030: $(stat -c %s "$work/code" | awk '{printf "%.1f", $1 / 1e6}')"
    show "xdelta3, no old file" "$work/root/usr/bin/xdelta3" -e -f -A= "$work/code" "$work/delta"
    show "xdelta3, old file" "$work/root/usr/bin/xdelta3" -e -f -A= -s "$library" "$work/code" "$work/delta"
    show "xdelta3 -B 1400000000, old file" "$work/root/usr/bin/xdelta3" -e -f -A= -B 1400000000 -s "$library" "$work/code" "$work/delta"
    show "zstd, no old file" "$work/root/usr/bin/zstd" --quiet --force "$work/code" -o "$work/delta"
    show "zstd --patch-from, old file" "$work/root/usr/bin/zstd" --quiet --force --patch-from="$library" "$work/code" -o "$work/delta"
} >"$work/out"
compare "$work/out"
