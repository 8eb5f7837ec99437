#!/usr/bin/env bash
# meshio 5.3.5 (PyPI): models for the calculation of structures. One of Nastran has nodes in cylindrical coordinates and in a system
# that is moved and turned; one of Abaqus has a part that is placed twice (instances), moved, and the second one turned.
# Expected: nodes lie where the systems and the places put them, by the manuals of the two, or the file is refused.
# Seen: meshio takes the three numbers as x, y and z, so a quarter of a circle of radius 10 is 90 long, and writes such a mesh to other formats. Of the
# assembly there is one part, at the origin. All without a word.
. "$(dirname "$0")/common.sh"
recorded <<'END'
Nastran, systems stated by each node: 10 0 0, 10 90 0, 1 2 3
Nastran, systems the first two by default: 10 0 0, 10 90 0, 1 2 3
  by the systems: 10 0 0, 0 10 0, 98 1 3
Abaqus: 0 0 0, 1 0 0, 0 1 0
  by the instances: 10 0 0, 11 0 0, 10 1 0 and 20 0 0, 20 1 0, 19 0 0
END
venv "$work/venv" meshio==5.3.5 numpy==2.4.6
cat >"$work/nodes.py" <<'END'
import meshio


def text(points):
    return ", ".join(" ".join(f"{number:g}" for number in (point.round(6) + 0.0).tolist()) for point in points)


systems = """BEGIN BULK
CORD2C,1,0,0.,0.,0.,0.,0.,1.
,1.,0.,0.
CORD2R,2,0,100.,0.,0.,100.,0.,1.
,100.,1.,0.
"""
nodes = "GRID,1,1,10.,0.,0.\nGRID,2,1,10.,90.,0.\nGRID,3,2,1.,2.,3.\n"
default = "GRDSET,,1\nGRID,1,,10.,0.,0.\nGRID,2,,10.,90.,0.\nGRID,3,2,1.,2.,3.\n"
rest = "CTRIA3,1,1,1,2,3\nPSHELL,1,1,.1\nMAT1,1,2.+5,,.3\nENDDATA\n"
for note, grids in ("stated by each node", nodes), ("the first two by default", default):
    open("model.bdf", "w").write(systems + grids + rest)
    print(f"Nastran, systems {note}: {text(meshio.read('model.bdf').points)}")
print("  by the systems: 10 0 0, 0 10 0, 98 1 3")
open("model.inp", "w").write(
    """*Heading
*Part, name=P
*Node
1, 0., 0., 0.
2, 1., 0., 0.
3, 0., 1., 0.
*Element, type=S3
1, 1, 2, 3
*End Part
*Assembly, name=A
*Instance, name=P-1, part=P
10., 0., 0.
*End Instance
*Instance, name=P-2, part=P
20., 0., 0.
20., 0., 0., 20., 0., 1., 90.
*End Instance
*End Assembly
"""
)
print(f"Abaqus: {text(meshio.read('model.inp').points)}")
print("  by the instances: 10 0 0, 11 0 0, 10 1 0 and 20 0 0, 20 1 0, 19 0 0")
END
(cd "$work" && venv/bin/python -W ignore nodes.py) >"$work/out"
compare "$work/out"
