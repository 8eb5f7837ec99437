#!/usr/bin/env bash
# clang and lld 22.1.8 (Debian 12) by options that distributions and guides set for all C++ sources: those of dpkg-buildflags 1.22.22 (Debian 13), and
# others one by one.
# Expected: options against attacks on programs of a CPU are for the host. Clang leaves them out of the compilation for a GPU, as it does with those
# for the stack, or says that it ignores them.
# Seen: by the options of Debian 13 no HIP source compiles: -fcf-protection is an error for the GPU, as -fzero-call-used-regs is. Others change kernels
# without a word: variables that a kernel sets itself are set to zero first, a register holds a frame pointer, and each code object has unwind
# tables. One is ignored by the warning and in the code object all the same, so that it does not link. Behind -Xarch_host, each leaves kernels as they are.
. "$(dirname "$0")/common.sh"
recorded <<'END'
no option: 342 instructions, 39 SGPRs, 4936 bytes
of dpkg-buildflags: option 'cf-protection=return' cannot be specified on this target
of dpkg-buildflags, -fcf-protection behind -Xarch_host: 342 instructions, 39 SGPRs, 6576 bytes
-fstack-protector-strong: as without
-fstack-clash-protection: as without
-fcf-protection: option 'cf-protection=return' cannot be specified on this target
-fzero-call-used-regs=used-gpr: unsupported option '-fzero-call-used-regs=used-gpr' for target 'amdgcn-amd-amdhsa'
-ftrivial-auto-var-init=zero: 356 instructions, 39 SGPRs, 5000 bytes
-fno-omit-frame-pointer: 358 instructions, 40 SGPRs, 5000 bytes
-fasynchronous-unwind-tables: 342 instructions, 39 SGPRs, 5272 bytes
-fsanitize-coverage=trace-pc-guard: undefined symbol: __sanitizer_cov_trace_pc_guard, ignoring '-fsanitize-coverage=trace-pc-guard'
these behind -Xarch_host: as without, ignoring '-fsanitize-coverage=trace-pc-guard'
END
hip_compiler
debs --suite trixie dpkg=1.22.22 dpkg-dev=1.22.22 libdpkg-perl=1.22.22
cd "$work"
cat >kernel.hip <<'END'
__attribute__((device)) __attribute__((noinline)) void fill(int *chosen, const int *table, int count) {
    for (int k = 0; k < count; k++) chosen[k] = table[k];
}
__attribute__((global)) void kernel(int *p, const int *table, int i) {
    int chosen[8];
    fill(chosen, table, i);
    p[i] = chosen[i - 1];
}
END
flags=$(env -u LD_LIBRARY_PATH PERL5LIB="$work/root/usr/share/perl5" DPKG_DATADIR="$work/root/usr/share/dpkg" DEB_VENDOR=Debian \
    perl root/usr/bin/dpkg-buildflags --get CXXFLAGS)
behind=()
options=(-nogpulib -nogpuinc -fuse-cuid=none --offload-arch=gfx942 -O2)
show() { # NAME OPTION…
    local result
    if ! kernel_code code "${@:2}" 2>message; then
        result=$(grep -oPm1 "error: \K.*" message)
    elif [ -f plain ] && cmp -s code plain; then
        result='as without'
    else
        result="$("$llvm/llvm-objdump" -d code | grep -c //) instructions, $(kernel_metadata code sgpr_count | sed 's/.* //') SGPRs, $(stat -c %s code) bytes"
    fi
    echo "$1: $result$(grep -oPm1 'warning: \K.*(?= option)' message | sed 's/^/, /')"
    [ -f plain ] || cp code plain
}
{
    show 'no option'
    show 'of dpkg-buildflags' $flags
    show 'of dpkg-buildflags, -fcf-protection behind -Xarch_host' ${flags/-fcf-protection/-Xarch_host -fcf-protection}
    for option in -fstack-protector-strong -fstack-clash-protection -fcf-protection -fzero-call-used-regs=used-gpr -ftrivial-auto-var-init=zero \
        -fno-omit-frame-pointer -fasynchronous-unwind-tables -fsanitize-coverage=trace-pc-guard; do
        show "$option" "$option"
        behind+=(-Xarch_host "$option")
    done
    show 'these behind -Xarch_host' "${behind[@]}"
} >out
compare out
