#!/usr/bin/env bash
# clang-offload-bundler and llvm-offload-binary 22.1.8 (Debian 12).
# Expected: two tools of one release that extract the code for a GPU agree on the code objects that it can run, and fail where there is none.
# Seen: clang-offload-bundler takes what runs on the GPU in the mode that is asked for: the entry gfx90a for gfx90a:xnack+. llvm-offload-binary
# compares names. For the same target and code it extracts nothing, writes no file, and ends with exit code 0.
. "$(dirname "$0")/common.sh"
recorded <<'END'
code for gfx90a, asked for gfx90a: clang-offload-bundler the code, exit code 0; llvm-offload-binary the code, exit code 0
code for gfx90a, asked for gfx90a:xnack+: clang-offload-bundler the code, exit code 0; llvm-offload-binary nothing, exit code 0
code for gfx90a:xnack+, asked for gfx90a:sramecc+:xnack+: clang-offload-bundler the code, exit code 0; llvm-offload-binary nothing, exit code 0
code for gfx90a:xnack+, asked for gfx90a:xnack-: clang-offload-bundler nothing, exit code 1; llvm-offload-binary nothing, exit code 0
code for gfx11-generic, asked for gfx1100: clang-offload-bundler nothing, exit code 1; llvm-offload-binary nothing, exit code 0
END
hip_compiler
: >"$work/host"
echo code >"$work/code"
show() { # TARGET-OF-THE-CODE TARGET-ASKED-FOR
    local code what=() tool
    rm -f "$work/binary" "$work/bundle"
    "$llvm/llvm-offload-binary" -o "$work/binary" --image=file="$work/code",triple=amdgcn-amd-amdhsa,arch="$1",kind=hip
    "$llvm/clang-offload-bundler" -type=o -targets="host-x86_64-unknown-linux-gnu-,hip-amdgcn-amd-amdhsa--$1" \
        -input="$work/host" -input="$work/code" -output="$work/bundle"
    for tool in bundler binary; do
        code=0
        rm -f "$work/extracted"
        case $tool in
        bundler) "$llvm/clang-offload-bundler" -unbundle -type=o -targets="hip-amdgcn-amd-amdhsa--$2" -input="$work/bundle" -output="$work/extracted" ;;
        binary) "$llvm/llvm-offload-binary" "$work/binary" --image=file="$work/extracted",triple=amdgcn-amd-amdhsa,arch="$2" ;;
        esac 2>/dev/null || code=$?
        if cmp -s "$work/code" "$work/extracted"; then what+=("the code, exit code $code"); else what+=("nothing, exit code $code"); fi
    done
    echo "code for $1, asked for $2: clang-offload-bundler ${what[0]}; llvm-offload-binary ${what[1]}"
}
{
    show gfx90a gfx90a
    show gfx90a gfx90a:xnack+
    show gfx90a:xnack+ gfx90a:sramecc+:xnack+
    show gfx90a:xnack+ gfx90a:xnack-
    show gfx11-generic gfx1100
} >"$work/out"
compare "$work/out"
