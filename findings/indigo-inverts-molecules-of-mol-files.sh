#!/usr/bin/env bash
# epam.indigo 1.46.0 and rdkit 2026.9.1 (PyPI): the two mirror images of an amino acid as SMILES, and as files (MOL) that RDKit writes, flat with wedges and
# with places of atoms in space.
# Expected: the text that identifies a molecule (canonical SMILES, InChI) has the image that the file states. If a file says nothing of being chiral, which
# may mean a mixture of both images (a racemate), the text says so, or an error does. What was read before does not matter.
# Seen: of such files, which RDKit writes by default, canonicalSmiles gives one image for both, so one of them is inverted, without the mark of a mixture;
# smiles() has the mark. Once a racemate was read, InChIs of all molecules by that object are those of racemates, also of those from SMILES.
. "$(dirname "$0")/common.sh"
recorded <<'END'
left as SMILES: canonicalSmiles left, smiles left, InChI /m0/s1
right as SMILES: canonicalSmiles right, smiles right, InChI /m1/s1
left as a flat file: canonicalSmiles right, smiles left with |&1|, InChI /s3
left as a flat file that says chiral: canonicalSmiles left, smiles left, InChI /s3
left as a file in space: canonicalSmiles right, smiles left with |&1|, InChI /s3
right as a flat file: canonicalSmiles right, smiles right with |&1|, InChI /s3
right as a flat file that says chiral: canonicalSmiles right, smiles right, InChI /s3
right as a file in space: canonicalSmiles right, smiles right with |&1|, InChI /s3
left as SMILES again: canonicalSmiles left, smiles left, InChI /s3
right as SMILES again: canonicalSmiles right, smiles right, InChI /s3
in RDKit: left /m0/s1 right /m1/s1
END
venv "$work/venv" epam.indigo==1.46.0 rdkit==2026.9.1 numpy==2.4.6
cat >"$work/images.py" <<'END'
from indigo import Indigo
from indigo.inchi import IndigoInchi
from rdkit import Chem
from rdkit.Chem import AllChem

indigo = Indigo()
inchi = IndigoInchi(indigo)
left, right = "C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"


def image(text):
    return {left: "left", right: "right"}[next(name for name in (left, right) if Chem.CanonSmiles(name) == Chem.CanonSmiles(text.split()[0]))]


def layer(text):
    return "/" + text.split("/t")[1].split("/", 1)[1]


def show(name, form, text):
    molecule = indigo.loadMolecule(text)
    canonical = indigo.loadMolecule(text).canonicalSmiles()
    extension = " with |&1|" if "|" in canonical else ""
    smiles = molecule.smiles()
    mark = " with |&1|" if "|" in smiles else ""
    print(f"{name} as {form}: canonicalSmiles {image(canonical)}{extension}, smiles {image(smiles)}{mark}, InChI {layer(inchi.getInchi(molecule))}")


for name, text in ("left", left), ("right", right):
    show(name, "SMILES", text)
for name, text in ("left", left), ("right", right):
    flat, chiral, space = Chem.MolFromSmiles(text), Chem.MolFromSmiles(text), Chem.AddHs(Chem.MolFromSmiles(text))
    AllChem.Compute2DCoords(flat)
    AllChem.Compute2DCoords(chiral)
    chiral.SetIntProp("_MolFileChiralFlag", 1)
    AllChem.EmbedMolecule(space, randomSeed=7)
    show(name, "a flat file", Chem.MolToMolBlock(flat))
    show(name, "a flat file that says chiral", Chem.MolToMolBlock(chiral))
    show(name, "a file in space", Chem.MolToMolBlock(Chem.RemoveHs(space)))
for name, text in ("left", left), ("right", right):
    show(name, "SMILES again", text)
print("in RDKit:", *(f"{name} {layer(Chem.MolToInchi(Chem.MolFromSmiles(text)))}" for name, text in (("left", left), ("right", right))))
END
"$work/venv/bin/python" -W ignore "$work/images.py" >"$work/out" 2>"$work/messages"
compare "$work/out"
