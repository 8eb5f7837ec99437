#!/usr/bin/env bash
# ostree 2022.7 (Debian 12), and for comparison xdelta3 3.0.11 (Debian 12), on the fat library of vapoursynth-bm3dhip 2.17.5 (PyPI): 11.7 MB.
# Expected: a static delta from a tree with the fat library to one with its parts costs next to nothing: the client has all the bytes.
# Seen: ostree compares a file with one of the same name in the old tree, and only if their sizes are near. A library that lost 3 of 20 GPUs is found.
# A library with the code for one GPU is a twelfth of the old one, and code objects as files have other names: all of these are in the delta
# as they are, and so a step to split packages costs as much as a first installation. (xz is what a delta does to new files.
# Sizes in MB.)
. "$(dirname "$0")/common.sh"
recorded <<'END'
a library with 17 of 20 GPUs: ostree 0.0, xz of the files 0.9, xdelta3 0.0
a library with 1 of 20 GPUs: ostree 0.2, xz of the files 0.2, xdelta3 0.0
20 code objects as files: ostree 0.8, xz of the files 0.8, xdelta3 0.0
END
amd_runtime
debs ostree=2022.7-2+deb12u1 libostree-1-1=2022.7-2+deb12u1 libgpgme11=1.18.0-3+deb12u1 libassuan0=2.5.5-5 libavahi-glib1=0.8-10+deb12u1 \
    libavahi-common3=0.8-10+deb12u1 libavahi-client3=0.8-10+deb12u1 xdelta3=3.0.11-dfsg-1.2
mkdir -p "$work"/trees/{fat,fewer,one,files}/lib
python3 - "$fat" "$work/trees" <<'END'
import shutil
import sys

import comgr

library, trees = sys.argv[1:]
shutil.copy(library, f"{trees}/fat/lib/libx.so")
with open(library, "rb") as file:
    content = file.read()
codes = [(name.rpartition("--")[2], code) for name, code in next(comgr.bundles(content)) if not name.startswith("host-")]
start = content.index(comgr.MAGIC)
end = content.index(codes[-1][1]) + len(codes[-1][1])
for tree, kept in ("fewer", codes[3:]), ("one", [code for code in codes if code[0] == "gfx1100"]):
    with open(f"{trees}/{tree}/lib/libx.so", "wb") as file:
        file.write(content[:start] + comgr.bundle(kept) + content[end:])
for target, code in codes:
    with open(f"{trees}/files/lib/{target}.co", "wb") as file:
        file.write(code)
END
ostree() { "$work/root/usr/bin/ostree" --repo="$work/repository" "$@"; }
megabytes() { awk '{printf "%.1f", $1 / 1e6}'; }
mkdir "$work/repository"
ostree init --mode=archive
for tree in fat fewer one files; do ostree commit --branch="tree/$tree" --tree=dir="$work/trees/$tree" --owner-uid=0 --owner-gid=0 >&2; done
for tree in fewer one files; do
    case $tree in
    fewer) what="a library with 17 of 20 GPUs" ;;
    one) what="a library with 1 of 20 GPUs" ;;
    files) what="20 code objects as files" ;;
    esac
    ostree static-delta generate --inline --from="$(ostree rev-parse tree/fat)" --to="$(ostree rev-parse "tree/$tree")" --filename="$work/delta" >&2
    printf '%s: ostree %s, xz of the files %s' "$what" "$(stat -c %s "$work/delta" | megabytes)" "$(cat "$work/trees/$tree"/lib/* | xz | wc -c | megabytes)"
    cat "$work/trees/$tree"/lib/* >"$work/new"
    "$work/root/usr/bin/xdelta3" -e -f -s "$work/trees/fat/lib/libx.so" "$work/new" "$work/delta"
    echo ", xdelta3 $(stat -c %s "$work/delta" | megabytes)"
done >"$work/out"
compare "$work/out"
