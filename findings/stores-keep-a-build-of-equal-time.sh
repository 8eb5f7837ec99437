#!/usr/bin/env bash
# dvc 3.67.1 with dvc-data 3.18.3, and git-annex 10.20261026 (PyPI), with two builds of a library that have one size and one time, as
# reproducible builds do (SOURCE_DATE_EPOCH). The second is laid over the first by cp -p, some seconds later.
# Expected: stores that name files by a digest of their bytes notice another build: the inode has changed (ctime), which Git looks at.
# Seen: both compare time, size and number of the inode alone. git-annex says that there is nothing to add or to commit, and so does Git,
# which asks it about such files. DVC takes a pipeline for up to date, and with --force records the digest of the old build for the new one.
# If a status has looked at one build, `dvc add` of the next keeps its bytes under the digest of the first. A user who adds that first build
# later gets the other bytes, in the working tree too, with exit code 0.
. "$(dirname "$0")/common.sh"
recorded <<'END'
Git: libx.so, which is build 2, is modified
git-annex, libx.so is build 2: git annex add exit code 0, git commit "nothing to commit, working tree clean", committed is build 1
DVC, the input is build 2: dvc status "Data and pipelines are up to date.", dvc repro "Stage 'pack' didn't change, skipping", the output is of build 1
DVC, dvc repro --force: the output is of build 2, the digest of the input of build 1
DVC, libx.so is build 2: dvc add exit code 0, digest of build 1, kept under it: build 2
DVC, liby.so is build 1: dvc add exit code 0, digest of build 1, kept under it: build 2, and liby.so is now build 2
END
command -v git >/dev/null || unavailable "no git"
venv "$work/venv" dvc==3.67.1 dvc-data==3.18.3 dvc-objects==5.2.0 git-annex==10.20261026
unset PYTHONPATH
export PATH=$work/venv/bin:$PATH DVC_NO_ANALYTICS=1 DVC_SITE_CACHE_DIR=$work/site DVC_GLOBAL_CONFIG_DIR=$work/dvc DVC_SYSTEM_CONFIG_DIR=$work/dvc
export GIT_AUTHOR_NAME=finding GIT_AUTHOR_EMAIL=finding@example.org GIT_COMMITTER_NAME=finding GIT_COMMITTER_EMAIL=finding@example.org
for build in 1 2; do
    mkdir "$work/$build"
    head -c 100000 /dev/zero | tr '\0' $build >"$work/$build/libx.so"
    touch --date=@1700000000 "$work/$build/libx.so"
done
build() { # FILE: which build it is
    for build in 1 2; do
        if cmp --quiet "$1" "$work/$build/libx.so"; then echo "build $build"; fi
    done
}
named() { # FILE COMMAND: the build whose digest by COMMAND is in the file
    local sum
    for build in 1 2; do
        sum=$("$2" <"$work/$build/libx.so")
        if grep --quiet "${sum%% *}" "$1"; then echo "build $build"; fi
    done
}
project() { # NAME COMMAND…: goes to a new repository, which has been prepared by COMMAND, with build 1
    mkdir "$work/$1"
    cd "$work/$1"
    git init --quiet
    "${@:2}" >&2
    cp -p "$work/1/libx.so" libx.so
}
next_build() {
    sleep 2
    cp -p "$work/2/libx.so" libx.so
}
add() { # FILE: to DVC
    local before code=0 sum
    before=$(build "$1")
    dvc add --quiet "$1" >&2 || code=$?
    sum=$(md5sum <"$work/1/libx.so")
    echo "DVC, $1 is $before: dvc add exit code $code, digest of $(named "$1.dvc" md5sum)," \
        "kept under it: $(build ".dvc/cache/files/md5/${sum:0:2}/${sum:2:30}")"
}
{
    project plain true
    git add libx.so
    git commit --quiet --message one
    next_build
    if [ "$(git status --short)" = " M libx.so" ]; then echo "Git: libx.so, which is $(build libx.so), is modified"; fi

    project annex git annex init --quiet finding
    git config annex.addunlocked true
    git annex add --quiet libx.so
    git commit --quiet --message one
    next_build
    code=0
    git annex add --quiet libx.so || code=$?
    said=$(git commit --all --message two | tail -1) || true
    git show HEAD:libx.so >"$work/pointer"
    echo "git-annex, libx.so is $(build libx.so): git annex add exit code $code, git commit \"$said\", committed is $(named "$work/pointer" sha256sum)"

    project pipeline dvc init --quiet
    printf 'stages:\n  pack:\n    cmd: cp libx.so packed\n    deps: [libx.so]\n    outs: [packed]\n' >dvc.yaml
    dvc repro --quiet >&2
    next_build
    status=$(dvc status)
    said=$(dvc repro)
    echo "DVC, the input is $(build libx.so): dvc status \"$status\", dvc repro \"${said%%$'\n'*}\", the output is of $(build packed)"
    dvc repro --quiet --force >&2
    sed '/outs:/,$d' dvc.lock >"$work/inputs"
    echo "DVC, dvc repro --force: the output is of $(build packed), the digest of the input of $(named "$work/inputs" md5sum)"

    project output dvc init --quiet
    echo "an older build" >libx.so
    dvc add --quiet libx.so >&2
    cp -p "$work/1/libx.so" libx.so
    dvc status --quiet >&2 || true
    next_build
    add libx.so
    cp -p "$work/1/libx.so" liby.so
    echo "$(add liby.so), and liby.so is now $(build liby.so)"
} >"$work/out"
compare "$work/out"
