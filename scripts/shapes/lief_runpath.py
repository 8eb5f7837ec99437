"""usage: lief_runpath.py RUNPATH FILE     Writes a file with another RUNPATH, by LIEF."""
import sys

import lief

binary = lief.ELF.parse(sys.argv[2])
if not binary.has(lief.ELF.Segment.TYPE.DYNAMIC):
    sys.exit('no dynamic segment')
binary.add(lief.ELF.DynamicEntryRunPath(sys.argv[1]))
binary.write(sys.argv[2])
