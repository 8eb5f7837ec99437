#!/usr/bin/env bash
# duperemove 0.11.2 (Debian 12), with librocrand1 5.3.3-4 (Debian 12): its library, which has code for seven GPUs, and a file with that for gfx90a alone.
# Expected: a tool that makes files share equal blocks finds the code of one GPU in the fat library: the bytes are equal, and start at a block in both.
# Seen: it compares whole extents, as the file system wrote them, and finds nothing, also by blocks of 4 KiB. The option that looks into extents
# (partial) goes by blocks of 128 KiB from the start of a file, and code objects start at multiples of 4 KiB. Both options together find all.
. "$(dirname "$0")/common.sh"
recorded <<'END'
no option: 0 of 1720320 bytes are found in the library
-b 4k: 0 of 1720320 bytes are found in the library
--dedupe-options=partial: 0 of 1720320 bytes are found in the library
--dedupe-options=partial -b 4k: 1716224 of 1720320 bytes are found in the library
END
[ "$(stat --file-system --format %T "$work")" != tmpfs ] || unavailable "$work is on tmpfs, which has no extents: set TMPDIR"
debs duperemove=0.11.2-3 librocrand1=5.3.3-4 libglib2.0-0=2.74.6-2+deb12u9
mkdir "$work/files"
cp "$work"/root/usr/lib/x86_64-linux-gnu/librocrand.so.1.1 "$work/files/fat.so"
python3 - "$work/files" <<'END'
import sys

import comgr

with open(f"{sys.argv[1]}/fat.so", "rb") as file:
    bundles = comgr.bundles(file.read())
with open(f"{sys.argv[1]}/thin", "wb") as file:
    for bundle in bundles:
        for name, code in bundle:
            if name.endswith("--gfx90a:xnack-"):
                file.write(code.ljust(-(-len(code) // 4096) * 4096, b"\0"))
END
for options in "" "-b 4k" "--dedupe-options=partial" "--dedupe-options=partial -b 4k"; do
    "$work/root/usr/bin/duperemove" -r $options "$work/files" >"$work/messages"
    found=$(sed -n "s/^Showing .* extents of length \([0-9]*\) .*/\1/p" "$work/messages" | awk "{sum += \$1} END {print sum + 0}")
    echo "${options:-no option}: $found of $(stat --format %s "$work/files/thin") bytes are found in the library"
done >"$work/out"
compare "$work/out"
