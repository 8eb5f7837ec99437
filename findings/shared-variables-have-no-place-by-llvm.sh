#!/usr/bin/env bash
# clang 22.1.8 (Debian 12), and COMGR 3.3 in vapoursynth-bm3dhip 2.17.5 (PyPI), which is AMD's clang, for one kernel of OpenCL and for the
# same in HIP.
# Expected: with -g the debug data say where each variable of a kernel is. For one in the memory of a workgroup (LDS: __local, __shared__)
# that is an address, with the number of its memory (3), as 0 is the address of something else for the host.
# Seen: AMD's clang says so, by an operation of its own. LLVM's says nothing for HIP: the variable is there, with its type and line, and
# without a place, with and without optimization, and for OpenCL it says so with -O2 alone. So a debugger has nothing to read where AMD's
# finds the tile that the threads of a workgroup share, and a build without optimization, which is made for debuggers, has less than one
# with it. Of the variables in global memory LLVM states the memory for __device__, and none for __constant__.
. "$(dirname "$0")/common.sh"
recorded <<'END'
OpenCL by AMD, -O0: tile lit0 lit0 plus lit3 LLVM_form_aspace_address
OpenCL by LLVM, -O0: tile has no place
HIP by LLVM, -O0: table addrx lit1 swap xderef; fixed addrx; tile has no place
OpenCL by AMD, -O2: tile lit0 lit3 LLVM_form_aspace_address lit0 lit0 plus lit3 LLVM_form_aspace_address
OpenCL by LLVM, -O2: tile addrx lit3 swap xderef
HIP by LLVM, -O2: table addrx lit1 swap xderef; fixed addrx; tile has no place
END
hip_compiler
amd_runtime
cat >"$work/kernel.cl" <<'END'
__kernel void k(__global int *p) {
    __local int tile[64];
    tile[p[0]] = p[1];
    __builtin_amdgcn_s_barrier();
    p[2] = tile[p[3]];
}
END
cat >"$work/kernel.hip" <<'END'
__attribute__((device)) int table[4];
__attribute__((constant)) int fixed[4] = {1};
extern "C" __attribute__((global)) void k(int *p) {
    __attribute__((shared)) static int tile[64];
    tile[p[0]] = p[1];
    __builtin_amdgcn_s_barrier();
    p[2] = tile[p[3]] + table[p[4]] + fixed[p[5]];
}
END
cat >"$work/amd.py" <<'END'
import sys

import comgr

library, level = sys.argv[1:]
open("native", "wb").write(comgr.Comgr(library).compile("gfx942", open("kernel.cl").read(), [level, "-g"]))
END
cat >"$work/places.py" <<'END'
import re
import sys

places = []
for entry in sys.stdin.read().split("\n\n"):
    name = "DW_TAG_variable" in entry and re.search(r'DW_AT_name\t\("(tile|table|fixed)"\)', entry)
    if name:
        place = re.search(r"DW_AT_location\t\((.*)\)", entry)
        operations = re.findall(r"DW_OP_(?!LLVM_user)(\w+)", place[1]) if place else ["has no place"]
        places.append(" ".join([name[1], *operations]))
print("; ".join(places))
END
cd "$work"
places() { # WHAT FILE
    echo "$1: $("$llvm/llvm-dwarfdump" --debug-info "$2" | python3 places.py)"
}
options=(-nogpuinc -g)
for level in -O0 -O2; do
    env -u LD_LIBRARY_PATH python3 amd.py "$comgr" $level 2>/dev/null
    places "OpenCL by AMD, $level" native
    "$llvm/clang" -x cl -cl-std=CL2.0 -cl-no-stdinc --target=amdgcn-amd-amdhsa -mcpu=gfx942 -nogpulib -g $level -c kernel.cl -o opencl
    places "OpenCL by LLVM, $level" opencl
    kernel_code hip --offload-arch=gfx942 $level
    places "HIP by LLVM, $level" hip
done >"$work/out"
compare "$work/out"
