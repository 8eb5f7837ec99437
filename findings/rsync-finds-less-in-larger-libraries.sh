#!/usr/bin/env bash
# rsync 3.5.0 (Debian 12), with files like libraries of 8 to 250 MB: bundles with code objects of 20 KiB for twenty GPUs, none equal to another. The
# receiver has the fat file, and gets in its place a thin one, which holds the code objects of one GPU.
# Expected: rsync finds at any place what the receiver has, so of the thin file, whose bytes are all in the fat one, little is sent.
# Seen: the blocks that rsync compares grow with the root of the size of the file that is there, and a code object is found by the blocks that lie in it
# whole. So of the same code objects a larger library gives less: a quarter is sent from 25 MB, three quarters from 250 MB. With --block-size=4096
# next to nothing is sent.
. "$(dirname "$0")/common.sh"
recorded <<'END'
no option, fat file of 8 MB: 14 % of the thin file are sent
--block-size=4096, fat file of 8 MB: 0 % of the thin file are sent
no option, fat file of 24 MB: 23 % of the thin file are sent
--block-size=4096, fat file of 24 MB: 0 % of the thin file are sent
no option, fat file of 81 MB: 44 % of the thin file are sent
--block-size=4096, fat file of 81 MB: 0 % of the thin file are sent
no option, fat file of 245 MB: 76 % of the thin file are sent
--block-size=4096, fat file of 245 MB: 0 % of the thin file are sent
END
debs rsync=3.5.0+ds1-0+deb12u1 libpopt0=1.19+dfsg-1 libxxhash0=0.8.1-1
cat >"$work/make.py" <<'END'
import os
import random
import sys

work, bundles = sys.argv[1], int(sys.argv[2])
generator = random.Random(bundles)
for directory in "thin", "fat":
    os.makedirs(f"{work}/{directory}", exist_ok=True)
with open(f"{work}/thin/x.so", "wb") as thin, open(f"{work}/fat/x.so", "wb") as fat:
    for _ in range(bundles):
        for gpu in range(20):
            code = generator.randbytes(20480)
            fat.write(code)
            if gpu == 7:
                thin.write(code)
END
for bundles in 20 60 200 600; do
    for option in "" --block-size=4096; do
        python3 "$work/make.py" "$work" $bundles
        size=$(stat --format %s "$work/thin/x.so") from=$(stat --format %s "$work/fat/x.so")
        sent=$("$work/root/usr/bin/rsync" --no-whole-file --stats $option "$work/thin/x.so" "$work/fat/x.so" | sed -n 's/^Literal data: \(.*\) bytes$/\1/p' | tr -d ,)
        cmp "$work/thin/x.so" "$work/fat/x.so"
        echo "${option:-no option}, fat file of $((from / 1000000)) MB: $((sent * 100 / size)) % of the thin file are sent"
    done
done >"$work/out"
compare "$work/out"
