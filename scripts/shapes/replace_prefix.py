"""usage: replace_prefix.py PLACEHOLDER PREFIX FILE     Does what conda and rattler do with a binary when they install it.

Each C string that begins with the placeholder gets the prefix instead, and zeros at its end, so that it keeps its length
(binary_replace in conda/core/portability.py, copy_and_replace_cstring_placeholder in rattler).
"""
import re
import sys
from pathlib import Path

placeholder, prefix, path = sys.argv[1].encode(), sys.argv[2].encode(), Path(sys.argv[3])
content, count = re.subn(
    re.escape(placeholder) + rb'([^\0]*)\0', lambda it: (prefix + it[1]).ljust(len(it[0]), b'\0'), path.read_bytes()
)
if not count:
    sys.exit('the placeholder is not in the file')
path.write_bytes(content)
