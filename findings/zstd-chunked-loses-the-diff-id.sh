#!/usr/bin/env bash
# skopeo 1.9.3 (Debian 12).
# Expected: compression changes the digest of a layer, and never the diff ID in the image's configuration, the digest of the tar inside.
# Seen: zstd:chunked writes the tar again and drops zeros behind its end. GNU tar and Python pad to 10,240 bytes, so the layer no longer
# has the diff ID that the configuration names. skopeo says nothing. zstd and gzip keep it, and so does zstd:chunked if there is no padding.
. "$(dirname "$0")/common.sh"
recorded <<'END'
tar padded to 10,240 bytes, zstd: the tar has the diff ID
tar padded to 10,240 bytes, zstd:chunked: the tar has another digest
tar without padding, zstd: the tar has the diff ID
tar without padding, zstd:chunked: the tar has the diff ID
END
command -v zstd >/dev/null || unavailable "no zstd (Debian's package zstd)"
debs skopeo=1.9.3+ds1-1+b10 libgpgme11=1.18.0-3+deb12u1 libassuan0=2.5.5-5 libdevmapper1.02.1=2:1.02.185-2 libsubid4=1:4.13+dfsg1-1+deb12u2
for padding in 10240 512; do
    python3 -c 'import sys, images; images.image(sys.argv[1], {"opt/a": b"A" * 100000}, padding=int(sys.argv[2]))' "$work/image-$padding" $padding
    for format in zstd zstd:chunked; do
        output=$work/$padding-${format/:/-}
        skopeo_copy "$work/image-$padding" "$output" --dest-compress-format $format
        digest=$(python3 -c 'import sys, images; print(images.layer(sys.argv[1])["digest"][7:])' "$output")
        diff_id=$(python3 -c 'import sys, images; print(images.diff_id(sys.argv[1])[7:])' "$output")
        if [ $padding = 512 ]; then what="tar without padding"; else what="tar padded to 10,240 bytes"; fi
        if [ "$(zstd -dc <"$output/blobs/sha256/$digest" | sha256sum | cut -d' ' -f1)" = "$diff_id" ]; then
            echo "$what, $format: the tar has the diff ID"
        else
            echo "$what, $format: the tar has another digest"
        fi
    done
done >"$work/out"
compare "$work/out"
