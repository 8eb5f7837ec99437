"""Names that come from outside: of wheels and of files in DST, and how they are printed."""

from __future__ import annotations

import re

# All of the fleet's own files in DST; tools for wheels ignore a directory of this name.
OWN = ".kpackfs-fleet"

# As kpackfs reads them (src/wheel/name.rs). `packaging` refuses wheels that exist: with a variant label (PEP 825), or with a
# version that PEP 440 does not allow. A build tag begins with a digit, and a Python tag does not.
_WHEEL = re.compile(
    r"(?P<distribution>[\w.]*[A-Za-z0-9][\w.]*)-(?P<version>[\w.+!]+)"
    r"(?P<rest>(?:-\d[\w.]*)?-(?!\d)\w+(?:\.\w+)*-\w+(?:\.\w+)*-\w+(?:\.\w+)*)(?:-(?P<label>[\w.]+))?\.whl",
    re.ASCII,
)
# As in src/report/text.rs: control characters, zero width, directions, line and paragraph separators, byte order mark. A
# surrogate is a byte that is not UTF-8.
_SPECIAL = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_SHORT = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}


class WheelName:
    """The file name of a wheel, as kpackfs names its outputs after it."""

    def __init__(self, file_name: str) -> None:
        """Raises ValueError if it is no name of a wheel."""
        # A "+" may be encoded as in URLs.
        match = _WHEEL.fullmatch(re.sub("%2b", "+", file_name, flags=re.IGNORECASE))
        if match is None:
            raise ValueError("its file name is no name of a wheel (NAME-VERSION-PYTHON-ABI-PLATFORM.whl)")
        self.distribution, self.version = normalised(match["distribution"]), match["version"]
        # Version, build tag and tags are equal in the names of all wheels of a split.
        self.rest = f"{self.version}{match['rest']}"
        self.host = "-".join(filter(None, (self.distribution, self.rest, match["label"]))) + ".whl"


def normalised(distribution: str) -> str:
    """The name of a distribution as written in the names of wheels (binary distribution format, "Escaping and Unicode")."""
    return re.sub(r"[-_.]+", "_", distribution).strip("_").lower()


def checked(name: str) -> str:
    """The name of a file in DST that was read from DST. Raises ValueError if it may lead elsewhere, or to a file of the fleet."""
    words = name.split("/")
    if words[0] == OWN or any(word in ("", ".", "..") for word in words) or "\\" in name or _SPECIAL.search(name):
        raise ValueError(f"{name!r} is no name of an output")
    return name


def escaped(text: str) -> str:
    """A text for a terminal: on one line, and without characters that move the cursor or reverse the direction."""
    return _SPECIAL.sub(lambda found: _SHORT.get(found[0], f"\\u{{{ord(found[0]):x}}}"), text)
