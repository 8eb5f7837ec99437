#!/usr/bin/env bash
# mkfs.erofs 1.5 and mksquashfs 4.5.1 (Debian 12), on the fat library of vapoursynth-bm3dhip 2.17.5 (PyPI).
# Expected: a file system for images stores a file once if it lies in several directories, as in one image of the trees for several GPUs.
# Seen: mksquashfs does so. mkfs.erofs stores each copy, also with compression. Only files of chunks (--chunksize), which are not compressed,
# and hard links are stored once.
. "$(dirname "$0")/common.sh"
recorded <<'END'
mksquashfs -comp zstd: an image with two copies has 1.0 times the size of one with one
mksquashfs -comp zstd: an image with two hard links has 1.0 times the size of one with one
mkfs.erofs: an image with two copies has 2.0 times the size of one with one
mkfs.erofs: an image with two hard links has 1.0 times the size of one with one
mkfs.erofs -zlz4hc: an image with two copies has 2.0 times the size of one with one
mkfs.erofs -zlz4hc: an image with two hard links has 1.0 times the size of one with one
mkfs.erofs --chunksize=4096: an image with two copies has 1.0 times the size of one with one
mkfs.erofs --chunksize=4096: an image with two hard links has 1.0 times the size of one with one
END
amd_runtime
debs erofs-utils=1.5-1 squashfs-tools=1:4.5.1-1 liblz4-1=1.9.4-1 liblzo2-2=2.10-2
mkdir -p "$work/one/gfx942" "$work/two/gfx1100" "$work/linked/gfx1100"
cp "$fat" "$work/one/gfx942/libx.so"
cp -r "$work/one/gfx942" "$work/two"
cp "$fat" "$work/two/gfx1100/libx.so"
cp -r "$work/one/gfx942" "$work/linked"
ln "$work/linked/gfx942/libx.so" "$work/linked/gfx1100/libx.so"
size() { # TREE COMMAND…: the size of the image that the command makes
    rm -f "$work/image"
    case $2 in
    mksquashfs) "$work/root/usr/bin/mksquashfs" "$work/$1" "$work/image" -quiet -no-progress "${@:3}" >&2 ;;
    mkfs.erofs) "$work/root/usr/bin/mkfs.erofs" "${@:3}" "$work/image" "$work/$1" >&2 ;;
    esac
    stat -c %s "$work/image"
}
{
    while read -ra command; do
        one=$(size one "${command[@]}")
        for tree in two linked; do
            tenths=$((($(size $tree "${command[@]}") * 100 + one * 5) / (one * 10)))
            what="two copies"
            [ $tree = two ] || what="two hard links"
            echo "${command[*]}: an image with $what has $((tenths / 10)).$((tenths % 10)) times the size of one with one"
        done
    done <<'END'
mksquashfs -comp zstd
mkfs.erofs
mkfs.erofs -zlz4hc
mkfs.erofs --chunksize=4096
END
} >"$work/out"
compare "$work/out"
