#!/usr/bin/env bash
# open3d-cpu 0.20.0 and numpy 2.4.6 (PyPI): points of a survey in metres (UTM), which open3d holds as doubles, in its formats, as text and as bytes.
# Expected: text has the digits of the numbers, as .pcd has, and what has doubles keeps them; a format that holds floats loses a quarter of a metre.
# Seen: .ply is exact as bytes and has six digits as text, so points are metres away; .pcd is exact as text and holds floats as bytes.
# .obj and .off have six digits always. Each function returns True. By the interface for tensors .pcd is exact in both forms.
. "$(dirname "$0")/common.sh"
recorded <<'END'
points, .pcd: off by 0.250 m as bytes, 0.000 m as text
points, .ply: off by 0.000 m as bytes, 1.250 m as text
points, .xyz: off by 0.000 m as bytes, 0.000 m as text
points, .pts: off by 0.000 m as bytes, 0.000 m as text
tensors, .pcd: off by 0.000 m as bytes, 0.000 m as text
tensors, .ply: off by 0.000 m as bytes, 1.250 m as text
mesh, .ply: off by 0.000 m as bytes, 1.250 m as text
mesh, .obj: off by 1.250 m as bytes, 1.250 m as text
mesh, .off: off by 1.250 m as bytes, 1.250 m as text
END
debs libusb-1.0-0=2:1.0.26-1 libudev1=252.39-1~deb12u2 libgl1=1.6.0-1 libglx0=1.6.0-1 libglvnd0=1.6.0-1 libegl1=1.6.0-1 libx11-6=2:1.8.4-2+deb12u2 \
    libxcb1=1.15-1 libxau6=1:1.0.9-1 libxdmcp6=1:1.1.2-3 libbsd0=0.11.7-2 libmd0=1.0.4-2 libgomp1=12.2.0-14+deb12u1 libopengl0=1.6.0-1
LD_LIBRARY_PATH+=:$work/root/lib/x86_64-linux-gnu
venv "$work/venv" open3d-cpu==0.20.0 numpy==2.4.6
cat >"$work/places.py" <<'END'
import numpy
import open3d

open3d.utility.set_verbosity_level(open3d.utility.VerbosityLevel.Error)
places = numpy.array([[500000.123, 5400000.456, 312.789], [500001.5, 5400001.25, 313.001], [500002.111, 5400000.999, 310.123]])
vectors = open3d.utility.Vector3dVector(places)
cloud = open3d.geometry.PointCloud(vectors)
tensors = open3d.t.geometry.PointCloud(open3d.core.Tensor(places))
mesh = open3d.geometry.TriangleMesh(vectors, open3d.utility.Vector3iVector([[0, 1, 2]]))
mesh.compute_vertex_normals()


def through_cloud(name, ascii):
    return open3d.io.write_point_cloud(name, cloud, write_ascii=ascii), open3d.io.read_point_cloud(name).points


def through_tensors(name, ascii):
    return open3d.t.io.write_point_cloud(name, tensors, write_ascii=ascii), open3d.t.io.read_point_cloud(name).point.positions.numpy()


def through_mesh(name, ascii):
    return open3d.io.write_triangle_mesh(name, mesh, write_ascii=ascii), open3d.io.read_triangle_mesh(name).vertices


rows = [("points", through_cloud, name) for name in ("pcd", "ply", "xyz", "pts")]
rows += [("tensors", through_tensors, name) for name in ("pcd", "ply")]
rows += [("mesh", through_mesh, name) for name in ("ply", "obj", "off")]
for kind, through, name in rows:
    shown = []
    for form, ascii in ("bytes", False), ("text", True):
        written, read = through(f"places.{name}", ascii)
        shown.append(f"{abs(numpy.asarray(read) - places).max():.3f} m as {form}{'' if written else ', with failure'}")
    print(f"{kind}, .{name}: off by {', '.join(shown)}")
END
(cd "$work" && venv/bin/python -W ignore places.py) >"$work/out"
compare "$work/out"
