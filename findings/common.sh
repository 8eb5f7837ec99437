# What the scripts of this directory share; each sources it. It makes the folder $work, which is removed at the end, and functions that
# install pinned packages there and compare what was seen with what is recorded. A package that cannot be had ends a script with code 2.
set -euo pipefail
work=$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")
server=
trap 'chmod -R u+w "$work"; [ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
export HOME=$work/home XDG_CACHE_HOME=$work/cache PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 LC_ALL=C.UTF-8
export PYTHONPATH=$(cd "$(dirname "${BASH_SOURCE[0]}")/lib" && pwd)
export PIP_CONSTRAINT=$PYTHONPATH/constraints.txt
unset PIP_TARGET PIP_REQUIRE_VIRTUALENV VIRTUAL_ENV
mkdir "$work/home"

unavailable() { # REASON
    echo "unavailable: $1" >&2
    exit 2
}

recorded() { # the output seen when the finding was recorded, on standard input
    cat >"$work/recorded"
    [ -s "$work/recorded" ] || unavailable "no output is recorded"
}

compare() { # FILE…: prints what was seen, and compares it with the record
    cat "$@" >"$work/seen"
    cat "$work/seen"
    if ! diff --unified=0 --label recorded --label seen "$work/recorded" "$work/seen" >"$work/difference"; then
        printf '\nThe behaviour is not as recorded:\n'
        tail -n +3 "$work/difference"
        exit 1
    fi
}

venv() { # DIRECTORY REQUIREMENT…: a virtual environment with these packages
    local directory=$1
    shift
    python3 -m venv "$directory" || unavailable "python3 -m venv failed (Debian's package is python3-venv)"
    [ $# = 0 ] || "$directory/bin/pip" install --quiet "$@" >&2 || unavailable "pip cannot install $*"
}

tile_compiler() { # cuda-tile and its compiler, whose packages have to be of one version; $tile is the Python that has them, $cuda the programs
    venv "$work/tile" cuda-tile==1.7.0 nvidia-cuda-tileiras==13.4.92 nvidia-cuda-nvcc==13.4.92 nvidia-nvvm==13.4.92 nvidia-cuda-crt==13.4.92 \
        nvidia-nvjitlink==13.4.92 nvidia-cuda-runtime==13.4.92 nvidia-cuda-nvdisasm==13.5.37 typing_extensions==4.16.0
    tile=$work/tile/bin/python
    cuda=$(echo "$work"/tile/lib/python3*/site-packages/nvidia/cu13/bin)
}

backend_project() { # DIRECTORY: a package in src/hostpkg with all of its files, which each backend builds; no file but __init__.py is there
    mkdir -p "$1/src/hostpkg"
    printf '"""A package."""\n__version__ = "1.0"\n' >"$1/src/hostpkg/__init__.py"
    cat >"$1/pyproject.toml" <<'END'
[build-system]
requires = []
build-backend = "uv_build"
[project]
name = "hostpkg"
version = "1.0"
description = "A package."
[tool.setuptools.package-data]
"*" = ["**/*", "**/.kpack/*"]
[tool.setuptools.packages.find]
where = ["src"]
[tool.scikit-build]
wheel.cmake = false
END
}

wheel() { # DIRECTORY OPTION… REQUIREMENT: a wheel, unpacked
    local directory=$1
    shift
    mkdir -p "$work/wheels"
    python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$work/wheels" "$@" >&2 || unavailable "pip cannot download $*"
    python3 -m zipfile -e "$work"/wheels/*.whl "$directory"
    rm -r "$work/wheels"
}

amd_runtime() { # AMD's libamdhip64 7.14, its librocm_kpack 0.1.0 ($kpack) and COMGR 3.3 ($comgr), and a fat library for 20 GPUs ($fat)
    wheel "$work/amd" --python-version 3.12 --platform manylinux_2_28_x86_64 vapoursynth-bm3dhip==2.17.5
    kpack=$(echo "$work"/amd/*.libs/librocm_kpack-*.so.*)
    comgr=$(echo "$work"/amd/*.libs/libamd_comgr-*.so.*)
    fat=$work/amd/vapoursynth/plugins/bm3dhip/libbm3dhip.so
}

kpack_python() { # DIRECTORY: runs the Python program on standard input with DIRECTORY and librocm_kpack as arguments; the output is in $work/out
    venv "$work/venv" msgpack==1.1.2 zstandard==0.25.0
    amd_runtime
    "$work/venv/bin/python" - "$1" "$kpack" >"$work/out"
}

debs() { # [--suite SUITE] PACKAGE=VERSION…: packages of Debian, unpacked to $work/root, by lists of their own; also PACKAGE:$foreign
    local suite=bookworm root=$work/root package sources=() options
    if [ "$1" = --suite ]; then
        suite=$2
        shift 2
    fi
    command -v apt-get >/dev/null || unavailable "no apt-get"
    # The mirrors that this machine uses; printed also before the first update.
    local uris mirror security key=/usr/share/keyrings/debian-archive-keyring.gpg
    uris=$(apt-get --print-uris update | sed -n "s|^'\(.*/dists/[a-z-]*\)/InRelease'.*|\1|p")
    mirror=$(sed -n 's|/dists/bookworm$||p' <<<"$uris" | head -1)
    security=$(sed -n 's|/dists/bookworm-security$||p' <<<"$uris" | head -1)
    [ -n "$mirror" ] || unavailable "apt has no source for Debian 12 (bookworm)"
    mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial" "$work/apt/empty" "$work/debs" "$root"
    sources=("deb [signed-by=$key] $mirror $suite main")
    [ -z "$security" ] || sources+=("deb [signed-by=$key] $security $suite-security main")
    printf '%s\n' "${sources[@]}" >"$work/apt/sources.list"
    options=(-o "Dir::Etc::SourceList=$work/apt/sources.list" -o "Dir::Etc::SourceParts=$work/apt/empty" -o "Dir::State::Lists=$work/apt/lists"
        -o "Dir::Cache=$work/apt/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none
        -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false)
    [ -z "${foreign:-}" ] || options+=(-o APT::Architectures::=amd64 -o "APT::Architectures::=$foreign")
    apt-get "${options[@]}" --quiet=2 update >&2 || unavailable "apt-get update failed"
    for package; do
        (cd "$work/debs" && apt-get "${options[@]}" --quiet=2 download "$package" >&2) ||
            unavailable "Debian $suite has no $package any more: set the version to one of 'apt-cache policy ${package%%=*}', and see what it does"
    done
    [ -n "${keep_packed:-}" ] || for package in "$work"/debs/*.deb; do dpkg -x "$package" "$root"; done
    export LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu
}

lavapipe() { # Mesa's Vulkan for a CPU, and all libraries that it needs, of Debian 12; no other driver is used
    debs mesa-vulkan-drivers=22.3.6-1+deb12u2 libvulkan1=1.3.239.0-1 libllvm15=1:15.0.6-4+b1 libdrm2=2.4.114-1+b1 libffi8=3.4.4-1 \
        libedit2=3.1-20221030-2 libz3-4=4.8.12-3.1 libxml2=2.9.14+dfsg-1.3~deb12u6 libicu72=72.1-3+deb12u1 libbsd0=0.11.7-2 libmd0=1.0.4-2 \
        libelf1=0.188-2.1 libx11-xcb1=2:1.8.4-2+deb12u2 libwayland-client0=1.21.0-1 libxcb1=1.15-1 libxcb-dri3-0=1.15-1 \
        libxcb-present0=1.15-1 libxcb-randr0=1.15-1 libxcb-sync1=1.15-1 libxcb-xfixes0=1.15-1 libxcb-shm0=1.15-1 libxshmfence1=1.3-1 \
        libxau6=1:1.0.9-1 libxdmcp6=1:1.1.2-3
    sed "s|/usr/lib|$work/root&|" "$work/root/usr/share/vulkan/icd.d/lvp_icd.x86_64.json" >"$work/driver.json"
    export VK_ICD_FILENAMES=$work/driver.json
}

hip_compiler() { # [PACKAGE=VERSION…]: clang 22, which needs no HIP runtime, lld 22 and other packages of Debian; $llvm has the programs
    debs clang-22=1:22.1.8-1~deb12u1 lld-22=1:22.1.8-1~deb12u1 llvm-22=1:22.1.8-1~deb12u1 clang-tools-22=1:22.1.8-1~deb12u1 \
        libllvm22=1:22.1.8-1~deb12u1 libclang-cpp22=1:22.1.8-1~deb12u1 "$@"
    llvm=$work/root/usr/lib/llvm-22/bin
}

mlir_tools() { # MLIR 22 and lld 22 of Debian; $llvm has the programs, and $toolkit is what MLIR takes for ROCm, without device libraries
    debs mlir-22-tools=1:22.1.8-1~deb12u1 libmlir-22=1:22.1.8-1~deb12u1 libllvm22=1:22.1.8-1~deb12u1 lld-22=1:22.1.8-1~deb12u1 \
        llvm-22=1:22.1.8-1~deb12u1
    llvm=$work/root/usr/lib/llvm-22/bin
    toolkit=$work/toolkit
    mkdir -p "$toolkit/amdgcn/bitcode" "$toolkit/llvm/bin"
    ln -s "$llvm/ld.lld" "$toolkit/llvm/bin"
}

hip() { # OPTION… FILE…: calls clang for HIP
    TMPDIR=$work "$llvm/clang" -nogpulib -no-hip-rt -fPIC -nostdlib -fuse-ld=lld -Wno-unused-command-line-argument "$@"
}

hip_source() { # OPTION… FILE…: calls clang for HIP with what lib/kernel.hip declares before its kernel
    grep -v KERNEL "$PYTHONPATH/kernel.hip" >"$work/base.h"
    hip -x hip -nogpuinc -fno-exceptions -include "$work/base.h" "$@"
}

hip_compile() { # OBJECT KERNEL OPTION…: compiles lib/kernel.hip to an object with this kernel
    hip -x hip -nogpuinc -fno-exceptions -DKERNEL="$2" "${@:3}" -c "$PYTHONPATH/kernel.hip" -o "$work/$1"
}

kernel_code() { # FILE OPTION…: compiles $work/kernel.hip for a GPU, by these options and those in $options
    (cd "$work" && hip -x hip "${options[@]}" --offload-device-only --no-gpu-bundle-output "${@:2}" -c kernel.hip -o "$1")
}

through_spirv() { # llvm|amd OPTION…: makes $work/code of $work/kernel.hip by way of SPIR-V of one of the two compilers, by options as kernel_code
    local source=$work/kernel.hip
    if [ "$1" = llvm ]; then
        source=$work/bundle
        kernel_code bundle --offload-arch=amdgcnspirv -use-spirv-backend "${@:2}"
    fi
    env -u LD_LIBRARY_PATH python3 -m through_spirv "$comgr" gfx942 "$1" "$source" "$work/code" "${options[@]}" "${@:2}" 2>/dev/null
}

first_code() { # FILE: makes $work/code of the first code object in it
    python3 - "$1" "$work/code" <<'END'
import sys

import comgr

bundle = next(comgr.bundles(open(sys.argv[1], "rb").read()))
open(sys.argv[2], "wb").write(next(code for name, code in bundle if not name.startswith("host-")))
END
}

hip_code() { # LIBRARY: the code objects in each of its fat binaries, with their kernels
    python3 - "$1" <<'END'
import re
import sys

import comgr

fat_binaries = []
for bundle in comgr.bundles(open(sys.argv[1], "rb").read()):
    codes = []
    for name, code in bundle:
        if not name.startswith("host-"):
            kernels = sorted(set(re.findall(r"\0(\w+)\.kd(?=\0)", code.decode("latin1"))))
            codes.append(f"{name.partition('--')[2]} with {' and '.join(kernels) or 'no kernel'}")
    fat_binaries.append(", ".join(codes))
print(" | ".join(fat_binaries) or "no fat binary")
END
}

kernel_metadata() { # CODE-OBJECT FIELD…: a line for each kernel, with its name and these fields of its metadata
    "$llvm/llvm-readelf" --notes "$1" | python3 -m metadata "${@:2}"
}

skopeo_copy() { # FROM TO OPTION…: copies an image, as a user without rights, since skopeo run by root keeps a cache outside of $HOME
    local from=$1 to=$2 user=()
    shift 2
    if [ "$(id -u)" = 0 ]; then
        chown -R 65534:65534 "$work"
        user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    fi
    echo '{"default":[{"type":"insecureAcceptAnything"}]}' >"$work/policy.json"
    "${user[@]}" env LD_LIBRARY_PATH="$LD_LIBRARY_PATH" "$work/root/usr/bin/skopeo" --policy "$work/policy.json" --tmpdir "$work" \
        copy --quiet --dest-compress "$@" "oci:$from:latest" "oci:$to:latest" >&2
}

serve_by() { # COMMAND…: runs a server that prints its address, which is $url until the script ends
    : >"$work/server"
    "$@" >"$work/server" 2>&1 &
    server=$!
    until grep -q 'http://' "$work/server"; do
        kill -0 $server 2>/dev/null || unavailable "the server does not start: $(tail -1 "$work/server")"
        sleep 0.1
    done
    url=$(grep -o 'http://[0-9.:]*' "$work/server" | head -1)
}

serve() { # DIRECTORY: serves it at $url
    serve_by python3 -u -m http.server --bind 127.0.0.1 --directory "$1" 0
}

serve_ranges() { # DIRECTORY LOG [digests]: serves it at $url by lib/ranges.py, which says what LOG gets
    serve_by python3 "${BASH_SOURCE[0]%/*}/lib/ranges.py" "$@"
}

web_servers() { # [REQUIREMENT…]: what lib/servers.py runs, from Debian 12 and PyPI, and other packages of PyPI; $work/venv has the Python for it
    debs busybox=1:1.35.0-4+deb12u1+b1 h2o=2.2.5+dfsg2-7 lighttpd=1.4.69-1 webfs=1.21+ds1-12+b1 libyaml-0-2=0.2.5-1 libpcre2-8-0=10.42-1+deb12u2
    venv "$work/venv" aiohttp==3.14.5 bottle==0.13.4 CherryPy==18.10.0 Flask==3.1.3 Werkzeug==3.1.9 rangehttpserver==1.4.0 starlette==1.10.0 \
        uvicorn==0.54.0 tornado==6.6.1 Twisted==26.10.0 "$@"
}
