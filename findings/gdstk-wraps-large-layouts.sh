#!/usr/bin/env bash
# gdstk 1.0.2 and klayout 0.30.12 (PyPI): a rectangle of 3 mm in a layout whose grid is a picometre, as layouts of photonics have, in GDSII and OASIS.
# Expected: GDSII has coordinates of 32 bits, which is 2.1 mm here, so to write it is an error, or a message names the cell. OASIS has no limit.
# Seen: gdstk writes coordinates modulo 2^32, without a word: the rectangle lies on the other side of the origin, with another width, and a square at 5 mm lies at
# 0.7 mm. klayout makes -2^31 of the coordinate when the rectangle is made, before anything is written, and refuses the OASIS file of gdstk, which is
# right. A check of distances on the file finds a layout without faults.
. "$(dirname "$0")/common.sh"
recorded <<'END'
micrometres in x: 0..3000, 5000..5001
chip.gds of gdstk: -1294.97..0, 705.033..706.033
chip.gds of gdstk by klayout: -1294.97..706.033 in all
chip.oas of gdstk: 0..3000, 5000..5001
chip.oas of gdstk by klayout: uin32 value overflow
klayout.gds of klayout: -2147.48..0
END
venv "$work/venv" gdstk==1.0.2 klayout==0.30.12 numpy==2.4.6
cat >"$work/layout.py" <<'END'
import gdstk
import klayout.db

shapes = ((0, 0), (3000, 1)), ((5000, 0), (5001, 1))


def text(box):
    return "{:g}..{:g}".format(*box)


library = gdstk.Library("chip", unit=1e-6, precision=1e-12)
library.new_cell("top").add(*(gdstk.rectangle(*corners) for corners in shapes))
library.write_gds("chip.gds")
library.write_oas("chip.oas")
print("micrometres in x:", ", ".join(text((low[0], high[0])) for low, high in shapes))
for name, read in ("chip.gds", gdstk.read_gds), ("chip.oas", gdstk.read_oas):
    boxes = [polygon.bounding_box() for polygon in read(name).cells[0].polygons]
    print(f"{name} of gdstk:", ", ".join(text((low[0], high[0])) for low, high in boxes))
    try:
        layout = klayout.db.Layout()
        layout.read(name)
        box = layout.top_cell().dbbox()
        print(f"{name} of gdstk by klayout: {text((box.left, box.right))} in all")
    except RuntimeError as error:
        print(f"{name} of gdstk by klayout: {str(error).partition(' (')[0]}")
layout = klayout.db.Layout()
layout.dbu = 1e-6
cell = layout.create_cell("top")
cell.shapes(layout.layer(1, 0)).insert(klayout.db.DBox(0, 0, 3000, 1))
layout.write("klayout.gds")
box = gdstk.read_gds("klayout.gds").cells[0].polygons[0].bounding_box()
print(f"klayout.gds of klayout: {text((box[0][0], box[1][0]))}")
END
(cd "$work" && venv/bin/python -W ignore layout.py) >"$work/out"
compare "$work/out"
