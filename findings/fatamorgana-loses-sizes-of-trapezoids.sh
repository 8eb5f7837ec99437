#!/usr/bin/env bash
# fatamorgana 0.14, klayout 0.30.12 and gdstk 1.0.2 (PyPI): the mask of a chip in OASIS, with a rectangle and shapes of the record CTRAPEZOID (types 0 to
# 25, whose corners follow from a width and a height), which is read and written again without a change.
# Expected: the same shapes.
# Seen: fatamorgana writes such a shape without its width and height. The format takes them from the shape before then, so a trapezoid of 300 by 100
# has the size of the rectangle in front of it. At the start of a cell klayout reads shapes without an area, and gdstk says so on standard error.
. "$(dirname "$0")/common.sh"
recorded <<'END'
a rectangle of 1000 and a trapezoid of type 0: 26000 by klayout, 26000 by gdstk; written again: 1800 by klayout, 1800 by gdstk
a rectangle of 1000 and a trapezoid of type 4: 21000 by klayout, 21000 by gdstk; written again: 1600 by klayout, 1600 by gdstk
a rectangle of 1000 and a trapezoid of type 9: 26000 by klayout, 26000 by gdstk; written again: 1650 by klayout, 1250 by gdstk
a rectangle of 1000 and a trapezoid of type 24: 31000 by klayout, 31000 by gdstk; written again: 2000 by klayout, 2000 by gdstk
Warning: In file again.oas:
Warning: Modal variable accessed before being defined: geometry-h (position=32, cell=TOP)
Warning: Modal variable accessed before being defined: geometry-h (position=32, cell=TOP)
Warning: Modal variable accessed before being defined: geometry-w (position=32, cell=TOP)
Warning: Modal variable accessed before being defined: geometry-h (position=32, cell=TOP)
Warning: Modal variable accessed before being defined: geometry-h (position=32, cell=TOP)
Warning: Modal variable accessed before being defined: geometry-w (position=32, cell=TOP)
a trapezoid of type 4 alone: 20000 by klayout, 20000 by gdstk; written again: 0 by klayout, 0 by gdstk
END
venv "$work/venv" fatamorgana==0.14 klayout==0.30.12 gdstk==1.0.2 numpy==2.4.6
cat >"$work/mask.py" <<'END'
import gdstk
import klayout.db
from fatamorgana import Cell, OasisLayout, records


def area_by_klayout(name):
    layout = klayout.db.Layout()
    layout.read(name)
    return klayout.db.Region(layout.top_cell().begin_shapes_rec(layout.layer(1, 0))).area()


def area_by_gdstk(name):
    return round(sum(abs(polygon.area()) for polygon in gdstk.read_oas(name).cells[0].polygons) * 1e6)


def show(note, shapes):
    layout, cell = OasisLayout(unit=1000), Cell(name="TOP")
    cell.geometry += shapes
    layout.cells.append(cell)
    shorten = records.CTrapezoid.dedup_write
    records.CTrapezoid.dedup_write = lambda shape, stream, modals: shape.write(stream)  # to make a file that has the sizes
    with open("original.oas", "wb") as file:
        layout.write(file)
    records.CTrapezoid.dedup_write = shorten
    with open("original.oas", "rb") as file:
        read = OasisLayout.read(file)
    with open("again.oas", "wb") as file:
        read.write(file)
    shown = [f"{area_by_klayout(name)} by klayout, {area_by_gdstk(name)} by gdstk" for name in ("original.oas", "again.oas")]
    print(f"{note}: {shown[0]}; written again: {shown[1]}")


place = dict(layer=1, datatype=0, x=0)
rectangle = records.Rectangle(width=50, height=20, is_square=False, y=5000, **place)
for kind, width, height in (0, 300, 100), (4, 300, 100), (9, 100, 300), (24, 300, 100):
    trapezoid = records.CTrapezoid(ctrapezoid_type=kind, width=width, height=height, y=0, **place)
    show(f"a rectangle of 1000 and a trapezoid of type {kind}", [rectangle, trapezoid])
show("a trapezoid of type 4 alone", [records.CTrapezoid(ctrapezoid_type=4, width=300, height=100, y=0, **place)])
END
(cd "$work" && venv/bin/python -W ignore mask.py 2>/dev/null) >"$work/out"
compare "$work/out"
