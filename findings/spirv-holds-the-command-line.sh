#!/usr/bin/env bash
# clang 22.1.8 (Debian 12), SPIR-V for AMD's GPUs by LLVM's back end.
# Expected: device code holds kernels and what they use, whatever target it is for; the command line and the directory of the build are in
# no code object without debug information.
# Seen: for the target amdgcnspirv, clang calls itself with -fembed-bitcode=marker, so that the later compilation of the SPIR-V knows the options.
# So a constant of each module is its whole command line: the directory of the build, those of headers and of the compiler, and all macros with
# their values. -ffile-prefix-map does not help: it becomes a part of the line. So builds in two directories differ.
# -Xclang -fembed-bitcode=off leaves the line out; without -Xclang the option has no effect. Native code objects hold nothing of it.
. "$(dirname "$0")/common.sh"
recorded <<'END'
gfx942: nothing of the command line; the same in another directory
amdgcnspirv: command line, directory of the build, directory of the compiler, value of a macro; different in another directory
amdgcnspirv, -ffile-prefix-map: command line, directory of the build, directory of the compiler, value of a macro; different in another directory
amdgcnspirv, -fembed-bitcode=off: command line, directory of the build, directory of the compiler, value of a macro; different in another directory
amdgcnspirv, -Xclang -fembed-bitcode=off: nothing of the command line; the same in another directory
END
hip_compiler
cat >"$work/look.py" <<'END'
import struct
import sys

import comgr

content, build, compiler = open(sys.argv[1], "rb").read(), sys.argv[2].encode(), sys.argv[3].encode()
if content.startswith(comgr.MAGIC):
    content = next(code for name, code in next(comgr.bundles(content)) if not name.startswith("host-"))
texts = content
if content.startswith(b"\3\2\x23\7"):
    # Constants that are made of bytes: OpConstantComposite (44) of results of OpConstant (43) and OpConstantNull (46).
    values, place = {}, 20
    while place < len(content):
        opcode, count = struct.unpack_from("<HH", content, place)
        words = struct.unpack_from(f"<{count - 1}I", content, place + 4)
        if opcode == 43:
            values[words[1]] = words[2] & 255
        elif opcode == 44:
            texts += bytes(values.get(word, 0) for word in words[2:]) + b"\n"
        place += 4 * count
found = {
    "command line": b"-main-file-name" in texts,
    "directory of the build": build in texts,
    "directory of the compiler": compiler in texts,
    "value of a macro": b"some-value" in texts,
}
print(", ".join(name for name, there in found.items() if there) or "nothing of the command line")
END
for directory in first second; do
    mkdir "$work/$directory"
    cp "$PYTHONPATH/kernel.hip" "$work/$directory"
done
build() { # DIRECTORY TARGET OPTION…
    (cd "$work/$1" && hip -x hip -nogpuinc -fno-exceptions -O2 -DKERNEL=one -DNAME=some-value --offload-arch="$2" --offload-device-only \
        -fuse-cuid=none "${@:3}" -c kernel.hip -o kernel.out)
}
show() { # NAME TARGET OPTION…
    local what="the same in another directory"
    build first "${@:2}"
    build second "${@:2}"
    cmp -s "$work/first/kernel.out" "$work/second/kernel.out" || what="different in another directory"
    echo "$1: $(python3 "$work/look.py" "$work/first/kernel.out" "$work/first" "${llvm%/bin}/lib/clang" | sed 's/$/; /')$what"
}
{
    show gfx942 gfx942
    show amdgcnspirv amdgcnspirv -use-spirv-backend
    show "amdgcnspirv, -ffile-prefix-map" amdgcnspirv -use-spirv-backend "-ffile-prefix-map=$work/first=." "-ffile-prefix-map=$work/second=."
    show "amdgcnspirv, -fembed-bitcode=off" amdgcnspirv -use-spirv-backend -fembed-bitcode=off
    show "amdgcnspirv, -Xclang -fembed-bitcode=off" amdgcnspirv -use-spirv-backend -Xclang -fembed-bitcode=off
} >"$work/out"
compare "$work/out"
