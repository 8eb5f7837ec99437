"""Compares requirements of fat, host and device wheels (JSON on stdin) by Python's `packaging`, or pip's copy of it.

Exit code 77: there is neither.
"""

import json
import re
import sys

try:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name
except ImportError:
    try:
        from pip._vendor.packaging.requirements import Requirement
        from pip._vendor.packaging.utils import canonicalize_name
    except ImportError:
        sys.exit(77)


def read(text):
    """The requirement of a field, unfolded as by `email`: the white space stays."""
    return Requirement(re.sub(r"\r?\n(?=[ \t])", "", text).strip())


def rest(requirement):
    return requirement.name, requirement.specifier, requirement.url, str(requirement.marker or "")


def extras(requirement):
    return {canonicalize_name(extra) for extra in requirement.extras}


forms = json.load(sys.stdin)
for fat_text, host_text, device_text in forms:
    fat, host = read(fat_text), read(host_text)
    device = device_text and read(device_text)
    gpus = {extra for extra in extras(fat) if re.fullmatch("device-(all|gfx.*)", extra)}
    assert gpus and extras(host) == extras(fat) - gpus and rest(host) == rest(fat), (fat_text, host_text)
    assert "extra" not in re.sub(r"'[^']*'|\"[^\"]*\"", "", rest(fat)[3]), fat_text
    if device:
        assert len(extras(device)) == 1
        assert extras(device) < {"device-gfx942", "device-gfx9"} and rest(device) == rest(fat), (fat_text, device_text)
    else:
        assert not gpus & {"device-all", "device-gfx942"}, fat_text
print(len(forms), "forms agree")
