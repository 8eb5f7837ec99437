#!/usr/bin/env bash
# variantlib 0.2.2, which makes and chooses wheel variants, with AMD's provider in rocm-bootstrap 0.3.0 (PyPI).
# Expected: of variants for gfx942, for gfx1100 and for both, a machine with both GPUs takes the one for both, and a machine with one of them the smaller
# wheel for it. A label only names a variant.
# Seen: a variant for several GPUs has the rank of its best one, the others do not count, and labels decide between equal ranks, by the alphabet.
# So a machine with both GPUs takes the wheel for the first of them, and the second has no kernels; or, with a label that is early in the alphabet,
# each machine takes the wheel for both. The label that is made by default is a hash.
. "$(dirname "$0")/common.sh"
recorded <<'END'
machine with gfx942: a_both gfx942 null
machine with gfx1100: a_both gfx1100 null
machine with gfx942,gfx1100: a_both gfx942 gfx1100 null
machine with gfx1100,gfx942: a_both gfx1100 gfx942 null
machine with gfx942: gfx942 z_both null
machine with gfx1100: gfx1100 z_both null
machine with gfx942,gfx1100: gfx942 z_both gfx1100 null
machine with gfx1100,gfx942: gfx1100 z_both gfx942 null
END
venv "$work/venv" build==1.2.2.post1 variantlib==0.2.2 rocm-bootstrap==0.3.0
export PATH=$work/venv/bin:$PATH
python3 -c 'import sys, wheels; wheels.release(sys.argv[1], "gfx942")' "$work/dist"
cat >"$work/pyproject.toml" <<'END'
[variant.default-priorities]
namespace = ["amd"]
[variant.providers.amd]
requires = ["rocm-bootstrap==0.3.0"]
plugin-api = "rocm_bootstrap.variant_provider:AMDVariantPlugin"
END
cat >"$work/choose.py" <<'END'
import json
import sys

from variantlib.api import get_variants_by_priority

with open(sys.argv[1]) as file:
    print(*[v.label for v in get_variants_by_priority(variants_json=json.load(file), venv_python_executable=sys.executable)])
END
variant() { # LABEL GPU…
    local label=$1 properties=() gpu
    shift
    for gpu; do properties+=("amd :: gfx_arch :: $gpu"); done
    ROCM_BOOTSTRAP_FORCE_GFX_ARCH=gfx942 variantlib make-variant -f "$work"/dist/hostpkg-*.whl -o "$work/variants" --no-isolation \
        --pyproject-toml "$work/pyproject.toml" --property "${properties[@]}" --variant-label "$label" >&2
}
for label in a z; do
    rm -rf "$work/variants"
    mkdir "$work/variants"
    variant gfx942 gfx942
    variant gfx1100 gfx1100
    variant "${label}_both" gfx942 gfx1100
    variantlib generate-index-json -d "$work/variants" >&2
    for gpus in gfx942 gfx1100 gfx942,gfx1100 gfx1100,gfx942; do
        echo "machine with $gpus: $(ROCM_BOOTSTRAP_FORCE_GFX_ARCH=$gpus python "$work/choose.py" "$work"/variants/*.json)"
    done
done >"$work/out"
compare "$work/out"
