#!/usr/bin/env bash
# trimesh 5.2.0 and numpy 2.4.6 (PyPI): a triangle in glTF 2.0, whose positions, texture coordinates and colours lie in the file in several forms.
# Expected: each form gives the same numbers, which lie between the least and the largest that the file states for them, or an error tells.
# Seen: positions of which some are stated apart (a sparse accessor, as for shapes that differ in few points) are those of the base: the point at 5 is at 1. Of
# numbers that are stored as parts of a whole (normalized), as programs that make meshes small write them, the integers are read: a triangle is 32767 wide,
# though the file requires the extension for it, and texture coordinates, which need no extension, go to 65535, and to 2 where trimesh counts from the
# other side (1 - 65535 in 16 bits). Colours are right. There is no message.
. "$(dirname "$0")/common.sh"
recorded <<'END'
positions as floats: 0 0 0, 5 0 0, 0 1 0
positions, one of them apart: 0 0 0, 1 0 0, 0 1 0
positions as parts of 32767: 0 0 0, 32767 0 0, 0 32767 0
texture coordinates as parts of 1: 0 1, 1 1, 0 0
texture coordinates as parts of 65535: 0 1, 65535 1, 0 2
texture coordinates as parts of 255: 0 1, 255 1, 0 2
colours as parts of 1: 0 0 0 255, 255 0 0 255, 0 255 0 255
colours as parts of 65535: 0 0 0 255, 255 0 0 255, 0 255 0 255
colours as parts of 255: 0 0 0 255, 255 0 0 255, 0 255 0 255
END
venv "$work/venv" trimesh==5.2.0 numpy==2.4.6 pillow==13.0.0
cat >"$work/shapes.py" <<'END'
import json
import struct

import numpy
import trimesh

corners = numpy.float32([[0, 0, 0], [1, 0, 0], [0, 1, 0]])
far = numpy.float32([[0, 0, 0], [5, 0, 0], [0, 1, 0]])
types = {"float32": 5126, "int16": 5122, "uint16": 5123, "uint8": 5121}
png = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8ffff3f0005fe02fe0def46b80000000049454e44ae426082"
)


class Document:
    def __init__(self, required=()):
        self.data, self.views, self.accessors, self.required = b"", [], [], list(required)

    def view(self, data):
        self.views.append({"buffer": 0, "byteOffset": len(self.data), "byteLength": len(data)})
        self.data += data + bytes(-len(data) % 4)
        return len(self.views) - 1

    def accessor(self, values, **fields):
        width = values.shape[1]
        rows = numpy.zeros((len(values), 4 if values.dtype != numpy.float32 else width), values.dtype)
        rows[:, :width] = values
        view = self.view(rows.tobytes())
        if rows.shape[1] > width:
            self.views[view]["byteStride"] = rows.strides[0]
        limits = {"min": values.min(0).tolist(), "max": values.max(0).tolist()}
        self.accessors.append({"bufferView": view, "componentType": types[values.dtype.name], "count": len(values), "type": f"VEC{width}", **limits, **fields})
        return len(self.accessors) - 1

    def write(self, attributes):
        content = {
            "asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0]}], "nodes": [{"mesh": 0}], "buffers": [{"byteLength": len(self.data)}],
            "meshes": [{"primitives": [{"attributes": attributes}]}], "bufferViews": self.views, "accessors": self.accessors,
        }
        if "TEXCOORD_0" in attributes:
            content["meshes"][0]["primitives"][0]["material"] = 0
            content.update(materials=[{"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}], textures=[{"source": 0}])
            content["images"] = [{"bufferView": len(self.views) - 1, "mimeType": "image/png"}]
        if self.required:
            content.update(extensionsUsed=self.required, extensionsRequired=self.required)
        text = json.dumps(content).encode()
        text += b" " * (-len(text) % 4)
        parts = struct.pack("<II", len(text), 0x4E4F534A) + text + struct.pack("<II", len(self.data), 0x004E4942) + self.data
        open("shape.glb", "wb").write(struct.pack("<III", 0x46546C67, 2, 12 + len(parts)) + parts)
        return trimesh.load("shape.glb", force="mesh", process=False)


def text(values):
    return ", ".join(" ".join(f"{value:g}" for value in row) for row in numpy.asarray(values))


plain = Document()
print("positions as floats:", text(plain.write({"POSITION": plain.accessor(far)}).vertices))
sparse = Document()
indices, values = sparse.view(numpy.uint16([1]).tobytes()), sparse.view(far[1:2].tobytes())
apart = {"count": 1, "indices": {"bufferView": indices, "componentType": 5123}, "values": {"bufferView": values}}
position = sparse.accessor(corners, sparse=apart, max=far.max(0).tolist())
print("positions, one of them apart:", text(sparse.write({"POSITION": position}).vertices))
small = Document(["KHR_mesh_quantization"])
position = small.accessor(numpy.int16(corners * 32767), normalized=True)
print("positions as parts of 32767:", text(small.write({"POSITION": position}).vertices))
for kind, whole in ("float32", 1), ("uint16", 65535), ("uint8", 255):
    textured = Document()
    attributes = {"POSITION": textured.accessor(corners)}
    attributes["TEXCOORD_0"] = textured.accessor((corners[:, :2] * whole).astype(kind), **({"normalized": True} if whole > 1 else {}))
    textured.view(png)
    print(f"texture coordinates as parts of {whole}:", text(textured.write(attributes).visual.uv))
for kind, whole in ("float32", 1), ("uint16", 65535), ("uint8", 255):
    coloured = Document()
    attributes = {"POSITION": coloured.accessor(corners)}
    attributes["COLOR_0"] = coloured.accessor((corners * whole).astype(kind), **({"normalized": True} if whole > 1 else {}))
    print(f"colours as parts of {whole}:", text(coloured.write(attributes).visual.vertex_colors))
END
(cd "$work" && venv/bin/python -W ignore shapes.py) >"$work/out"
compare "$work/out"
