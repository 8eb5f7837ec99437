#!/usr/bin/env bash
# fuse-overlayfs 1.10 and bindfs 1.14.7, and for comparison unionfs-fuse 1.0 and mergerfs 2.33.5 (Debian 12), over two images by mksquashfs
# 4.5.1, mounted by squashfuse 0.1.105: one with COMGR, one with librocm_kpack, both of vapoursynth-bm3dhip 2.17.5 (PyPI).
# Expected: a view that joins an image of the host with one of device code numbers its files itself, so two files have two inode numbers.
# Seen: fuse-overlayfs and bindfs hand on the numbers of what is below, of whatever file system. Images that were made alike count their files
# alike, so two libraries of the view have one device and one number. glibc takes a library with the device and the number of a loaded one for that
# one, whatever its path: dlopen of librocm_kpack succeeds and gives COMGR, in which no function of the other is. unionfs-fuse and mergerfs
# number files themselves.
. "$(dirname "$0")/common.sh"
recorded <<'END'
unionfs-fuse: COMGR and librocm_kpack have numbers of their own; after COMGR, dlopen of librocm_kpack gives librocm_kpack
mergerfs: COMGR and librocm_kpack have numbers of their own; after COMGR, dlopen of librocm_kpack gives librocm_kpack
fuse-overlayfs: COMGR and librocm_kpack have one number; after COMGR, dlopen of librocm_kpack gives COMGR
bindfs: COMGR and librocm_kpack have one number; after COMGR, dlopen of librocm_kpack gives COMGR
END
[ "$(id -u)" = 0 ] || unavailable "run it as root: it mounts in a namespace of its own"
[ -e /dev/fuse ] || unavailable "no /dev/fuse"
unshare --mount --propagation private true || unavailable "no rights for a mount namespace"
amd_runtime
debs fuse-overlayfs=1.10-1 bindfs=1.14.7-1 unionfs-fuse=1.0-1+b1 mergerfs=2.33.5-1 squashfuse=0.1.105-1 libsquashfuse0=0.1.105-1 libfuse3-3=3.14.0-4 \
    libfuse2=2.9.9-6+b1 squashfs-tools=1:4.5.1-1 liblzo2-2=2.10-2
export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$work/root/lib/x86_64-linux-gnu
mkdir -p "$work"/{first,second}/lib "$work"/{joined/1,joined/2,view}
cp "$comgr" "$work/first/lib/libx.so"
cp "$kpack" "$work/second/lib/liby.so"
for image in first second; do "$work/root/usr/bin/mksquashfs" "$work/$image" "$work/$image.squashfs" -quiet -no-progress >&2; done
cat >"$work/load.py" <<'END'
import ctypes
import sys

ctypes.CDLL(sys.argv[1])
second = ctypes.CDLL(sys.argv[2])
print("librocm_kpack" if hasattr(second, "kpack_open") else "COMGR" if hasattr(second, "amd_comgr_get_version") else "neither")
END
cat >"$work/try" <<'END'
set -e
cd "$1"
libraries=$2
bin=root/usr/bin
mounted() { until mountpoint --quiet "$1"; do sleep 0.1; done; }
view() { # NAME X Y COMMAND…: what is seen at the mount that the command makes at `view`
    local name=$1 x=$PWD/view/$2/libx.so y=$PWD/view/$3/liby.so numbers="numbers of their own"
    "${@:4}" view >&2
    mounted view
    [ "$(stat -c %d:%i "$x")" != "$(stat -c %d:%i "$y")" ] || numbers="one number"
    echo "$name: COMGR and librocm_kpack have $numbers; after COMGR, dlopen of librocm_kpack gives $(LD_LIBRARY_PATH=$libraries python3 load.py "$x" "$y")"
    umount view
}
for image in first second; do
    mkdir "mounted-$image"
    $bin/squashfuse_ll "$image.squashfs" "mounted-$image" >&2
    mounted "mounted-$image"
done
view unionfs-fuse lib lib $bin/unionfs mounted-first=RO:mounted-second=RO
view mergerfs lib lib $bin/mergerfs mounted-first:mounted-second
view fuse-overlayfs lib lib $bin/fuse-overlayfs -o lowerdir=mounted-first:mounted-second
mount --bind mounted-first joined/1
mount --bind mounted-second joined/2
view bindfs 1/lib 2/lib $bin/bindfs joined
umount joined/1 joined/2 mounted-first mounted-second
END
unshare --mount --propagation private bash "$work/try" "$work" "$(dirname "$kpack")" >"$work/out"
compare "$work/out"
