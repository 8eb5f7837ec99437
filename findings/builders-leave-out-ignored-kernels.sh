#!/usr/bin/env bash
# setuptools 84.2.1, hatchling 1.33.0, scikit-build-core 1.1.2, poetry-core 2.5.0, pdm-backend 2.5.0, flit_core 4.2.0 and uv_build 0.13.6 (PyPI), with a
# package in a Git repository that holds a library, code objects and an archive, which .gitignore names, as built files usually are.
# Expected: what lies in the directory of the package comes into its wheel, or a message says what is left out.
# Seen: hatchling, scikit-build-core and poetry-core leave out what Git ignores, with exit code 0 and no message: the wheel has Python files alone, or
# the library without the code objects. The others take all. A test in the source tree finds the files, and so sees nothing.
. "$(dirname "$0")/common.sh"
recorded <<'END'
ignored: nothing; setuptools.build_meta: exit code 0, x.co x.hsaco x.kpack x.so
ignored: nothing; hatchling.build: exit code 0, x.co x.hsaco x.kpack x.so
ignored: nothing; scikit_build_core.build: exit code 0, x.co x.hsaco x.kpack x.so
ignored: nothing; poetry.core.masonry.api: exit code 0, x.co x.hsaco x.kpack x.so
ignored: nothing; pdm.backend: exit code 0, x.co x.hsaco x.kpack x.so
ignored: nothing; flit_core.buildapi: exit code 0, x.co x.hsaco x.kpack x.so
ignored: nothing; uv_build: exit code 0, x.co x.hsaco x.kpack x.so
ignored: *.hsaco *.kpack; setuptools.build_meta: exit code 0, x.co x.hsaco x.kpack x.so
ignored: *.hsaco *.kpack; hatchling.build: exit code 0, x.co x.so
ignored: *.hsaco *.kpack; scikit_build_core.build: exit code 0, x.co x.so
ignored: *.hsaco *.kpack; poetry.core.masonry.api: exit code 0, x.co x.so
ignored: *.hsaco *.kpack; pdm.backend: exit code 0, x.co x.hsaco x.kpack x.so
ignored: *.hsaco *.kpack; flit_core.buildapi: exit code 0, x.co x.hsaco x.kpack x.so
ignored: *.hsaco *.kpack; uv_build: exit code 0, x.co x.hsaco x.kpack x.so
ignored: *.hsaco *.kpack *.co *.so; setuptools.build_meta: exit code 0, x.co x.hsaco x.kpack x.so
ignored: *.hsaco *.kpack *.co *.so; hatchling.build: exit code 0, no file
ignored: *.hsaco *.kpack *.co *.so; scikit_build_core.build: exit code 0, no file
ignored: *.hsaco *.kpack *.co *.so; poetry.core.masonry.api: exit code 0, no file
ignored: *.hsaco *.kpack *.co *.so; pdm.backend: exit code 0, x.co x.hsaco x.kpack x.so
ignored: *.hsaco *.kpack *.co *.so; flit_core.buildapi: exit code 0, x.co x.hsaco x.kpack x.so
ignored: *.hsaco *.kpack *.co *.so; uv_build: exit code 0, x.co x.hsaco x.kpack x.so
END
command -v git >/dev/null || unavailable "no git"
venv "$work/venv" setuptools==84.2.1 hatchling==1.33.0 scikit-build-core==1.1.2 poetry-core==2.5.0 pdm-backend==2.5.0 flit_core==4.2.0 uv_build==0.13.6
unset PYTHONPATH
export PATH=$work/venv/bin:$PATH
backend_project "$work/project"
cd "$work/project"
git init --quiet
mkdir src/hostpkg/{kernels,.kpack}
touch src/hostpkg/libx.so src/hostpkg/kernels/{x.hsaco,x.co} src/hostpkg/.kpack/x.kpack
for ignored in "nothing" "*.hsaco *.kpack" "*.hsaco *.kpack *.co *.so"; do
    sed 's/nothing//; s/ /\n/g' <<<"$ignored" >.gitignore
    for backend in setuptools.build_meta hatchling.build scikit_build_core.build poetry.core.masonry.api pdm.backend flit_core.buildapi uv_build; do
        rm -rf out build
        mkdir out
        code=0
        python -c "import $backend; $backend.build_wheel('out')" >"$work/messages" 2>&1 || code=$?
        files=$(python -m zipfile -l out/*.whl | grep -oE 'x\.(so|hsaco|co|kpack)' | sort | xargs || true)
        ! grep -q ignore "$work/messages" || files+=" (with a message)"
        echo "ignored: $ignored; $backend: exit code $code, ${files:-no file}"
    done
done >"$work/out"
compare "$work/out"
