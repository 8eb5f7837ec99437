#!/usr/bin/env bash
# gdb 13.1 (Debian 12) and Linux 6.18.44, both by the default of coredump_filter (0x33), with nvidia-cufft 12.4.0.43 and the fat library of
# vapoursynth-bm3dhip 2.17.5 (PyPI), without a GPU.
# Expected: a core leaves out the bytes of libraries, which are in their files, and has the pages that the process has written. So device
# code, which a program does not read before it uses a GPU, is not in it.
# Seen: of a mapping of a file, both take all if one page of it was written, and gdb takes all of one that begins with the header of an ELF
# file. That is where lld puts HIP's device code, so each core by gdb has it. That of cuFFT lies in writable data, where the dynamic linker
# writes some pages: so whatever a program that has loaded cuFFT crashes of, its core has 212 MB of device code for all GPUs.
. "$(dirname "$0")/common.sh"
recorded <<'END'
libbm3dhip.so, 20 code objects: gdb's core has 100 % of them, 11 MB, Linux's core has 0 % of them, 0 MB
libcufft.so.12, 17860 fat binaries: gdb's core has 99 % of them, 212 MB, Linux's core has 99 % of them, 212 MB
END
[ "$(cat /proc/sys/kernel/core_pattern /proc/sys/kernel/core_uses_pid)" = $'core\n0' ] ||
    unavailable "Linux writes no file named core: /proc/sys/kernel/core_pattern, core_uses_pid"
echo 0x33 >/proc/self/coredump_filter
wheel "$work/cufft" nvidia-cufft==12.4.0.43
debs gdb-minimal=13.1-3 binutils-x86-64-linux-gnu=2.40-2 libbinutils=2.40-2 libctf0=2.40-2 libctf-nobfd0=2.40-2 libgprofng0=2.40-2 libjansson4=2.14-2 \
    libipt2=2.0.5-1 libmpfr6=4.2.0-1 libgmp10=2:6.2.1+dfsg1-1.1 libxxhash0=0.8.1-1 libreadline8=8.2-1.3 \
    libdebuginfod1=0.188-2.1 libdw1=0.188-2.1 libelf1=0.188-2.1
amd_runtime
cufft=$work/cufft/nvidia/cu13/lib/libcufft.so.12
python=$(python3 -c 'import sys; print(sys.executable)')
mkdir "$work/cores"
cd "$work/cores"
echo 'import ctypes, os, sys; ctypes.CDLL(sys.argv[1]); os.abort()' >crash.py
for library in "$fat" "$cufft"; do
    DEBUGINFOD_URLS= "$work/root/usr/bin/gdb" -nx -batch -ex run -ex 'generate-core-file gdb' --args "$python" crash.py "$library" >messages 2>&1
    (ulimit -c unlimited && exec env -u LD_LIBRARY_PATH "$python" crash.py "$library") 2>>messages || true
    mv core Linux
    python3 - "$library" gdb Linux <<'END'
import os
import re
import struct
import sys

import comgr

library, *cores = sys.argv[1:]
with open(library, "rb") as file:
    content = file.read()
if codes := [code for bundle in comgr.bundles(content) for _, code in bundle if code]:
    what = "code objects"
    places = [(content.find(code), len(code)) for code in codes]
else:
    what, places = "fat binaries", []
    for found in re.finditer(b"\x50\xed\x55\xba\1\0", content):
        places.append((found.start(), sum(struct.unpack_from("<HQ", content, found.start() + 6))))
sizes = []
for core in cores:
    with open(core, "rb") as file:
        dumped = file.read()
    held, ahead = [], 0
    for place, size in places:
        code = content[place : place + size]
        # Most lie as far behind the one before as in the library.
        if dumped[place + ahead : place + ahead + size] != code:
            if (found := dumped.find(code)) < 0:
                continue
            ahead = found - place
        held.append(size)
    sizes.append(f"{core}'s core has {100 * len(held) // len(places)} % of them, {sum(held) / 1e6:.0f} MB")
print(f"{os.path.basename(library)}, {len(places)} {what}: {', '.join(sizes)}")
END
    rm gdb Linux
done >"$work/out"
compare "$work/out"
