#!/usr/bin/env bash
# poetry 2.5.1, pdm 2.29.4, pip-tools 7.6.2, uv 0.13.9 and pip 26.3 (PyPI), with a local index: one release in five wheels of 1 MB, for Linux and
# Windows and several versions of Python. The links of its page have digests, or none, as in listings of directories.
# Expected: to write a lock file, a tool reads the metadata of a wheel, or one wheel at most.
# Seen: lock files of poetry, pdm and pip-tools have a digest of each wheel of the release, for all systems and versions of Python. Where the page has
# none, they download all of them, pdm and pip-tools one of them twice. So a lock with one fat package of 3 GB for five versions of Python costs 15 GB.
# With digests in the page, poetry reads the end of one wheel, and pdm one; pip-tools downloads all the same. pip takes the one that it
# would install, and uv the end of one.
. "$(dirname "$0")/common.sh"
recorded <<'END'
page with no digests, uv: 1 answers, 0.0 of 5.0 MB
page with no digests, pip: 1 answers, 1.0 of 5.0 MB
page with no digests, pip-tools: 6 answers, 6.0 of 5.0 MB
page with no digests, poetry: 6 answers, 5.0 of 5.0 MB
page with no digests, pdm: 6 answers, 6.0 of 5.0 MB
page with digests, uv: 1 answers, 0.0 of 5.0 MB
page with digests, pip: 1 answers, 1.0 of 5.0 MB
page with digests, pip-tools: 6 answers, 6.0 of 5.0 MB
page with digests, poetry: 1 answers, 0.0 of 5.0 MB
page with digests, pdm: 1 answers, 1.0 of 5.0 MB
END
python3 - "$work/dist/hostpkg" <<'END'
import random
import shutil
import sys

import wheels

files = {"hostpkg/__init__.py": b"", "hostpkg/libx.so": random.Random(0).randbytes(1_000_000)}
made = wheels.wheel(sys.argv[1], "hostpkg", "1.0", files)
for tag in "cp312-cp312-manylinux_2_28_x86_64", "cp313-cp313-manylinux_2_28_x86_64", "cp312-cp312-win_amd64", "cp313-cp313-win_amd64":
    shutil.copy(made, made.replace("py3-none-any", tag))
END
venv "$work/poetry" poetry==2.5.1
venv "$work/pdm" pdm==2.29.4 hishel==1.4.0
venv "$work/pip-tools" pip==26.3 pip-tools==7.6.2 uv==0.13.9
unset PYTHONPATH
export no_proxy=127.0.0.1 NO_PROXY=127.0.0.1
megabytes() { awk '{sum += $NF} END {printf "%.1f", sum / 1e6}'; }
pip() { "$work/pip-tools/bin/pip" lock --index-url "$url" hostpkg; }
pip-tools() { echo hostpkg | "$work/pip-tools/bin/pip-compile" --strip-extras --generate-hashes --index-url "$url" --output-file lock -; }
uv() { "$work/pip-tools/bin/uv" lock; }
pdm() { "$work/pdm/bin/pdm" lock; }
poetry() { "$work/poetry/bin/poetry" lock; }
for page in "no digests" digests; do
    serve_ranges "$work/dist" "$work/log" "$page"
    for tool in uv pip pip-tools poetry pdm; do
        rm -rf "$work/project" "$HOME" "$XDG_CACHE_HOME" "$work/log"
        mkdir "$work/project" "$HOME"
        cat >"$work/project/pyproject.toml" <<END
[project]
name = "project"
version = "0"
requires-python = ">=3.11"
dependencies = ["hostpkg==1.0"]
[tool.pdm]
distribution = false
[[tool.pdm.source]]
name = "pypi"
url = "$url"
[tool.poetry]
package-mode = false
[[tool.poetry.source]]
name = "local"
url = "$url"
[[tool.uv.index]]
url = "$url"
default = true
END
        touch "$work/log"
        (cd "$work/project" && $tool >&2)
        of=$(cat "$work"/dist/hostpkg/*.whl | wc -c | megabytes)
        echo "page with $page, $tool: $(wc -l <"$work/log") answers, $(megabytes <"$work/log") of $of MB"
    done
    kill $server
done >"$work/out"
server=
compare "$work/out"
