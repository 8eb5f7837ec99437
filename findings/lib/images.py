"""Makes and reads OCI images with one layer, in directories of the OCI layout."""

import hashlib
import io
import json
import os
import tarfile


def _put(path, content, media_type):
    digest = hashlib.sha256(content).hexdigest()
    with open(f"{path}/blobs/sha256/{digest}", "wb") as file:
        file.write(content)
    return {"mediaType": f"application/vnd.oci.image.{media_type}", "digest": f"sha256:{digest}", "size": len(content)}


def image(path, files, padding=512):
    """An image whose layer, a tar that is not compressed, holds `files`; the tar is padded to a multiple of `padding` bytes."""
    os.makedirs(f"{path}/blobs/sha256")
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    # The end of a tar is two blocks of zeros behind the last member.
    used = sum(512 + -(-len(content) // 512) * 512 for content in files.values()) + 1024
    content = stream.getvalue()[:used].ljust(-(-used // padding) * padding, b"\0")
    layer = _put(path, content, "layer.v1.tar")
    root = {"type": "layers", "diff_ids": [layer["digest"]]}
    configuration = json.dumps({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": root}).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _put(path, configuration, "config.v1+json"),
        "layers": [layer],
    }
    entry = _put(path, json.dumps(manifest).encode(), "manifest.v1+json")
    entry["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
    with open(f"{path}/index.json", "w") as file:
        json.dump({"schemaVersion": 2, "manifests": [entry]}, file)
    with open(f"{path}/oci-layout", "w") as file:
        file.write('{"imageLayoutVersion":"1.0.0"}')


def _blob(path, digest):
    with open(f"{path}/blobs/sha256/{digest.removeprefix('sha256:')}", "rb") as file:
        return json.load(file)


def _manifest(path):
    with open(f"{path}/index.json") as file:
        return _blob(path, json.load(file)["manifests"][0]["digest"])


def layer(path):
    """The descriptor of the layer: mediaType, digest, size and annotations."""
    return _manifest(path)["layers"][0]


def diff_id(path):
    """The digest of the layer's tar, as the configuration states it."""
    return _blob(path, _manifest(path)["config"]["digest"])["rootfs"]["diff_ids"][0]
