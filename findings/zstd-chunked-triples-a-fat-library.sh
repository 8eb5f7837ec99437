#!/usr/bin/env bash
# skopeo 1.9.3 (Debian 12) on the fat library of vapoursynth-bm3dhip 2.17.5 (PyPI): 11.7 MB, one raw bundle for 20 GPUs.
# Expected: a zstd:chunked layer costs a few per cent more than a zstd layer, for its table of contents.
# Seen: it is three times as large, and hardly smaller than gzip. The code of one kernel for two GPUs is alike and lies about 500 kB apart.
# zstd refers back that far; deflate sees 32 KiB, and zstd:chunked starts again in each chunk of some ten kilobytes. So zstd:chunked
# takes away what zstd gains on fat libraries. (Sizes are rounded to 0.1 MB.)
. "$(dirname "$0")/common.sh"
recorded <<'END'
tar: 11.7 MB
gzip: 4.8 MB
zstd: 1.3 MB
zstd:chunked: 4.3 MB
END
amd_runtime
debs skopeo=1.9.3+ds1-1+b10 libgpgme11=1.18.0-3+deb12u1 libassuan0=2.5.5-5 libdevmapper1.02.1=2:1.02.185-2 libsubid4=1:4.13+dfsg1-1+deb12u2
python3 - "$fat" "$work/image" <<'END'
import sys

import images

images.image(sys.argv[2], {"opt/lib/libx.so": open(sys.argv[1], "rb").read()})
END
for format in gzip zstd zstd:chunked; do skopeo_copy "$work/image" "$work/${format/:/-}" --dest-compress-format $format; done
python3 - "$work" >"$work/out" <<'END'
import sys

import images

print(f"tar: {images.layer(sys.argv[1] + '/image')['size'] / 1e6:.1f} MB")
for name in "gzip", "zstd", "zstd:chunked":
    print(f"{name}: {images.layer(sys.argv[1] + '/' + name.replace(':', '-'))['size'] / 1e6:.1f} MB")
END
compare "$work/out"
