"""Names that come from outside, and how they are printed."""

from __future__ import annotations

import re

# As in src/report/text.rs: control characters, zero width, directions, line and paragraph separators, byte order mark. A
# surrogate is a byte that is not UTF-8.
_SPECIAL = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_SHORT = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}


def escaped(text: str) -> str:
    """A text for a terminal: on one line, and without characters that move the cursor or reverse the direction."""
    return _SPECIAL.sub(lambda found: _SHORT.get(found[0], f"\\u{{{ord(found[0]):x}}}"), text)
