#!/usr/bin/env bash
# clang, lld and liboffload 22.1.8, libomp 19.1.7 (Debian 12): OpenMP for AMD's GPUs, and for the CPU as a device, by LLVM's own plug-in, which runs here.
# Expected: the name of a kernel follows from the source and its path at most, so a copy of a source gives the same kernel, at any rate with
# -ffile-prefix-map; and kernels of two objects have two names, or the link fails.
# Seen: the name has the numbers of the file system and of the inode. Each checkout, and each editor that writes a new file, gives other code.
# Where one file holds one source after another, as generators and tests write them, kernels of static functions at one line have one name: the program
# links, with exit code 0, has one of the two kernels, and runs it for both, so 5 * 100 is 6. On the host (OMP_TARGET_OFFLOAD=DISABLED) it is 500.
. "$(dirname "$0")/common.sh"
recorded <<'END'
gfx942, a copy of the source: another name
gfx942, a copy of the source, -ffile-prefix-map: another name
gfx942, the source written again to a new file: another name
two sources, one file after another, gfx942: exit code 0, 1 kernel
    on the device: 5 + 1 = 6, 5 * 100 = 6
    on the host: 5 + 1 = 6, 5 * 100 = 500
two sources, a file each, gfx942: exit code 0, 2 kernels
    on the device: 5 + 1 = 6, 5 * 100 = 500
    on the host: 5 + 1 = 6, 5 * 100 = 500
END
hip_compiler libclang-common-22-dev=1:22.1.8-1~deb12u1 liboffload-22=1:22.1.8-1~deb12u1 liboffload-22-dev=1:22.1.8-1~deb12u1 \
    libomp-22-dev=1:22.1.8-1~deb12u1 libomp5-19=1:19.1.7-3~deb12u1 libffi8=3.4.4-1
clang() { # OPTION… FILE…
    TMPDIR=$work "$llvm/clang" -O2 -fopenmp "$@"
}
gpu=(--offload-arch=gfx942 -nogpulib)
write() { # FILE FUNCTION EXPRESSION: a source with a function that computes on the device
    cat >"$1" <<END
static void run(int *p) {
#pragma omp target map(tofrom: p[0:1])
    *p = *p $3;
}
void $2(int *p) { run(p); }
END
}
name() { # DIRECTORY OPTION…: the name of the kernel
    (cd "$1" && clang "${gpu[@]}" "${@:2}" --offload-device-only -S -emit-llvm source.c -o - | grep -o '__omp_offloading_[a-z0-9_]*_l2' | head -1)
}
compared() { # NAME NAME
    [ "$1" = "$2" ] && echo 'the same name' || echo 'another name'
}
both() { # FILE FILE: what a program of two sources computes that are written to these files
    local target
    for target in gpu cpu; do
        local options=(-fopenmp-targets=x86_64-pc-linux-gnu)
        [ $target = cpu ] || options=("${gpu[@]}")
        write "$work/$1" one '+ 1'
        clang "${options[@]}" -c "$work/$1" -o "$work/one.o"
        write "$work/$2" two '* 100'
        clang "${options[@]}" -c "$work/$2" -o "$work/two.o"
        [ $target = cpu ] || options+=(-Xoffload-linker --unresolved-symbols=ignore-all --save-temps)
        (cd "$work" && clang "${options[@]}" -fuse-ld=lld -L"$llvm/../lib" main.c one.o two.o -o program) || continue
        [ $target = cpu ] || echo "gfx942: exit code 0, $("$llvm/llvm-readelf" --notes "$work/program.amdgcn.gfx942.img" | grep -c '\.name: .*__omp_offloading') kernel"
    done | sed 's/[2-9] kernel$/&s/'
    echo "    on the device: $(OMP_TARGET_OFFLOAD=MANDATORY "$work/program")"
    echo "    on the host: $(OMP_TARGET_OFFLOAD=DISABLED "$work/program")"
}
cat >"$work/main.c" <<'END'
#include <stdio.h>
void one(int *);
void two(int *);
int main() {
    int a = 5, b = 5;
    one(&a);
    two(&b);
    printf("5 + 1 = %d, 5 * 100 = %d\n", a, b);
}
END
mkdir "$work/first" "$work/second"
for directory in first second; do write "$work/$directory/source.c" one '+ 1'; done
{
    echo "gfx942, a copy of the source: $(compared "$(name "$work/first")" "$(name "$work/second")")"
    echo "gfx942, a copy of the source, -ffile-prefix-map:" \
        "$(compared "$(name "$work/first" "-ffile-prefix-map=$work/first=.")" "$(name "$work/second" "-ffile-prefix-map=$work/second=.")")"
    before=$(name "$work/first")
    cp "$work/first/source.c" "$work/new" && mv "$work/new" "$work/first/source.c"
    echo "gfx942, the source written again to a new file: $(compared "$before" "$(name "$work/first")")"
    echo "two sources, one file after another, $(both generated.c generated.c)"
    echo "two sources, a file each, $(both first.c second.c)"
} >"$work/out"
compare "$work/out"
