#!/usr/bin/env bash
# pymatgen 2026.10.24, openbabel-wheel 3.1.1.23, ase 3.29.0 and dpdata 1.1.0 (PyPI): a crystal in the format of VASP (POSCAR), whose second line is a scale.
# Expected: it multiplies cell and Cartesian places; if it is negative, it is the volume that the cell is to have, and three scales are for the three
# coordinates, as VASP's manual says. Or the file is refused.
# Seen: pymatgen scales the cell to the volume and multiplies Cartesian places by minus the volume itself, so atoms lie in other cells, which
# periodicity hides; Open Babel multiplies all by it, so a cell of 64 cubic angstroms has two million, and drops three scales. All with success.
. "$(dirname "$0")/common.sh"
recorded <<'END'
scale 2:
  ASE: a cell of 2 4 8, atoms apart by 0.4 1 1, the nearest images by 1.470
  dpdata: a cell of 2 4 8, atoms apart by 0.4 1 1, the nearest images by 1.470
  pymatgen: a cell of 2 4 8, atoms apart by 0.4 1 1, the nearest images by 1.470
  Open Babel: a cell of 2 4 8, atoms apart by 0.4 1 1, the nearest images by 1.470
scale -64, a volume:
  ASE: a cell of 2 4 8, atoms apart by 0.4 1 1, the nearest images by 1.470
  dpdata: a cell of 2 4 8, atoms apart by 0.4 1 1, the nearest images by 1.470
  pymatgen: a cell of 2 4 8, atoms apart by -12.8 -32 -32, the nearest images by 0.800
  Open Babel: a cell of 64 128 256, atoms apart by -12.8 -32 -32, the nearest images by 47.030
scale 1.0 2.0 1.5:
  ASE: a cell of 1 4 6, atoms apart by 0.2 1 0.75, the nearest images by 1.266
  dpdata: an error
  pymatgen: an error
  Open Babel: a cell of 1 2 4, atoms apart by 0.2 0.5 0.5, the nearest images by 0.735
END
venv "$work/venv" pymatgen==2026.10.24 pymatgen-core==2026.10.16 openbabel-wheel==3.1.1.23 ase==3.29.0 dpdata==1.1.0 numpy==2.4.6
cat >"$work/cells.py" <<'END'
import ase.io
import dpdata
import numpy
from openbabel import pybel
from pymatgen.io.vasp import Poscar


def by_ase():
    read = ase.io.read("POSCAR", format="vasp")
    return read.cell.array, read.positions


def by_dpdata():
    read = dpdata.System("POSCAR", fmt="vasp/poscar")
    return read["cells"][0], read["coords"][0]


def by_pymatgen():
    read = Poscar.from_file("POSCAR").structure
    return read.lattice.matrix, read.cart_coords


def by_openbabel():
    read = next(pybel.readfile("vasp", "POSCAR"))
    return numpy.diag([read.unitcell.GetA(), read.unitcell.GetB(), read.unitcell.GetC()]), numpy.array([atom.coords for atom in read.atoms])


for note, scale in ("2", "2"), ("-64, a volume", "-64"), ("1.0 2.0 1.5", "1.0 2.0 1.5"):
    open("POSCAR", "w").write(f"Si\n{scale}\n1 0 0\n0 2 0\n0 0 4\nSi\n2\nCartesian\n0 0 0\n0.2 0.5 0.5\n")
    print(f"scale {note}:")
    for name, read in ("ASE", by_ase), ("dpdata", by_dpdata), ("pymatgen", by_pymatgen), ("Open Babel", by_openbabel):
        try:
            cell, places = read()
        except ValueError:
            print(f"  {name}: an error")
            continue
        numbers = [" ".join(f"{number:g}" for number in row.round(4)) for row in (numpy.linalg.norm(cell, axis=1), places[1] - places[0])]
        apart = places[1] - places[0]
        turns = apart @ numpy.linalg.inv(cell)
        nearest = numpy.linalg.norm((turns - turns.round()) @ cell)
        print(f"  {name}: a cell of {numbers[0]}, atoms apart by {numbers[1]}, the nearest images by {nearest:.3f}")
END
(cd "$work" && venv/bin/python -W ignore cells.py 2>/dev/null) >"$work/out"
compare "$work/out"
