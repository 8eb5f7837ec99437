"""Prints what the installed rocm-bootstrap says about GPU targets, as JSON.

Exit status 3 if the package is not there or not the version that kpackfs follows.
"""

import json
import sys

EXPECTED = "0.3.0"

try:
    from importlib.metadata import version

    import rocm_bootstrap as rocm
    from rocm_bootstrap.package_metadata import package_owner
    from rocm_bootstrap.targets import _BUNDLE_KEY_ALIASES

    found = version("rocm-bootstrap")
except ImportError as error:
    sys.exit(print(error, file=sys.stderr) or 3)
if found != EXPECTED:
    sys.exit(print(f"rocm-bootstrap {found} is installed", file=sys.stderr) or 3)

FEATURES = ["", ":xnack+", ":xnack-", ":sramecc+", ":sramecc+:xnack-"]
NEVER_KNOWN = ["gfx803", "gfx940", "gfx941", "amdgcnspirv", "gfx12-0", "gfx120x", "gfx11xx", "gfx9999"]


def knows(key):
    try:
        rocm.lookup_bundle(key)
    except ValueError:
        return False
    return True


def version_name(version):
    try:
        return rocm.parse_gfx_target_version(version).name
    except ValueError:
        return None


print(
    json.dumps(
        {
            "targets": [
                {
                    "name": target.name,
                    "version": target.gfx_target_version,
                    "xnack": target.xnack.value,
                    "chain": [bundle.key for bundle in rocm.packaging_chain(target)],
                }
                for target in rocm.ALL_TARGETS
            ],
            "bundles": [
                {
                    "key": bundle.key,
                    "level": bundle.level.value,
                    "display_name": bundle.display_name,
                    "distribution_part": rocm.bundle_names(bundle).dist_name,
                    "members": [target.name for target in bundle.members],
                }
                for bundle in rocm.all_bundles()
            ],
            "aliases": _BUNDLE_KEY_ALIASES,
            "owners": {
                name + features: package_owner(name + features)
                for name in [target.name for target in rocm.ALL_TARGETS] + NEVER_KNOWN
                for features in FEATURES
            },
            "known": {name: knows(name) for name in NEVER_KNOWN},
            "versions": {v: name for v in range(80000, 140000) if (name := version_name(v))},
        }
    )
)
