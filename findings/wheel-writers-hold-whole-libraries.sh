#!/usr/bin/env bash
# setuptools 84.2.1, pdm-backend 2.5.0, poetry-core 2.5.0, hatchling 1.33.0, flit_core 4.2.0, uv_build 0.13.6 and wheel 0.48.0 (PyPI), with a package that
# has a library of 256 MiB.
# Expected: what writes a wheel copies a file through a buffer, so its memory does not depend on the size of a library.
# Seen: setuptools, pdm-backend, poetry-core and `wheel pack` read a file whole, and `wheel tags`, which only renames a wheel, holds it twice: for a fat
# library of 3 GB, 3 and 6 GB of memory. hatchling, flit_core, uv_build and `wheel unpack` copy.
. "$(dirname "$0")/common.sh"
recorded <<'END'
setuptools.build_meta: memory for 1 times the library
pdm.backend: memory for 1 times the library
poetry.core.masonry.api: memory for 1 times the library
hatchling.build: memory for 0 times the library
flit_core.buildapi: memory for 0 times the library
uv_build: memory for 0 times the library
wheel unpack: memory for 0 times the library
wheel pack: memory for 1 times the library
wheel tags: memory for 2 times the library
END
venv "$work/venv" setuptools==84.2.1 pdm-backend==2.5.0 poetry-core==2.5.0 hatchling==1.33.0 flit_core==4.2.0 uv_build==0.13.6 wheel==0.48.0
unset PYTHONPATH
backend_project "$work/project"
cd "$work/project"
mkdir out
truncate -s 256M src/hostpkg/libx.so
show() { # NAME COMMAND…
    python3 - "$@" <<'END'
import resource
import subprocess
import sys

with open("../messages", "w") as messages:
    subprocess.run(sys.argv[2:], stdout=messages, stderr=messages, check=True)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(f"{sys.argv[1]}: memory for {round(peak / 2**18)} times the library")
END
}
export PATH=$work/venv/bin:$PATH
{
    for backend in setuptools.build_meta pdm.backend poetry.core.masonry.api hatchling.build flit_core.buildapi uv_build; do
        rm -rf out/* build
        show $backend python -c "import $backend; $backend.build_wheel('out')"
        python -m zipfile -l out/*.whl >../members
        grep --quiet libx.so ../members
    done
    show "wheel unpack" wheel unpack --dest .. out/*.whl
    show "wheel pack" wheel pack --dest-dir .. ../hostpkg-1.0
    show "wheel tags" wheel tags --platform-tag linux_x86_64 out/*.whl
} >"$work/out"
compare "$work/out"
