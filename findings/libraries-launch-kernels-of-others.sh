#!/usr/bin/env bash
# clang and lld 22.1.8 (Debian 12): two libraries with device code, made of two versions of a header with a kernel that is a template. A stand-in for
# the HIP runtime notes which library registers a kernel at which address, and by which address a kernel is launched.
# Expected: each library registers and launches its own kernel, also if both are in one process: its code object is in the library. With
# -fvisibility=hidden nothing of a kernel is exported anyway.
# Seen: a kernel is launched by the address of a variable (a handle), which is a weak symbol. It is exported also with -fvisibility=hidden. If both
# libraries are in the global scope, as libraries that a program is linked with are, the second one registers its code under the handle of the first
# one, so the runtime has one kernel for both. It depends on the order of the libraries whose code, and for which GPUs, is launched. In local scopes,
# as of Python's extension modules, with -Bsymbolic and with a version script, each library has its own; not with -Bsymbolic-functions.
. "$(dirname "$0")/common.sh"
recorded <<'END'
global scope, no option: 1 handle for 2 kernels, library 2 launches by that of library 1
global scope, -fvisibility=hidden: 1 handle for 2 kernels, library 2 launches by that of library 1
global scope, -Wl,-Bsymbolic-functions: 1 handle for 2 kernels, library 2 launches by that of library 1
global scope, -Wl,-Bsymbolic: 2 handles for 2 kernels, library 2 launches by that of library 2
global scope, -Wl,--version-script=script: 2 handles for 2 kernels, library 2 launches by that of library 2
local scopes, no option: 2 handles for 2 kernels, library 2 launches by that of library 2
END
hip_compiler
cd "$work"
cat >fill.hip <<'END'
typedef __SIZE_TYPE__ size_t;
typedef struct hipStream *hipStream_t;
struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, size_t, hipStream_t);
extern "C" int __hipPushCallConfiguration(dim3, dim3, size_t, hipStream_t);
template <typename T> __attribute__((global)) void fill(T *p) { *p = VERSION; }
extern "C" __attribute__((visibility("default"))) void launch(int *p) { fill<<<dim3{1, 1, 1}, dim3{1, 1, 1}, 0, 0>>>(p); }
END
cat >runtime.c <<'END'
const void *registered[2], *launched[2];
static int registrations, launches;
int atexit(void (*f)(void)) { return 0; }
void *__hipRegisterFatBinary(void *code) { return registered; }
void __hipUnregisterFatBinary(void *module) {}
void __hipRegisterFunction(void *module, const void *handle) { registered[registrations++] = handle; }
int __hipPushCallConfiguration(void) { return 0; }
int __hipPopCallConfiguration(void) { return 0; }
int hipLaunchKernel(const void *handle) { launched[launches++] = handle; return 0; }
END
cat >run.py <<'END'
import ctypes
import sys

scope = ctypes.RTLD_GLOBAL if sys.argv[1] == "global" else ctypes.RTLD_LOCAL
runtime = ctypes.CDLL("./runtime.so", ctypes.RTLD_GLOBAL)
for library in [ctypes.CDLL(f"./{number}.so", scope) for number in (1, 2)]:
    library.launch(None)
registered, launched = (list((ctypes.c_void_p * 2).in_dll(runtime, name)) for name in ("registered", "launched"))
count = len(set(registered))
print(f"{count} handle{'s' * (count > 1)} for 2 kernels, library 2 launches by that of library {1 + registered.index(launched[1])}")
END
echo '{ global: launch; local: *; };' >script
hip -shared -fno-builtin -w runtime.c -o runtime.so
show() { # SCOPE OPTION
    local number
    for number in 1 2; do
        hip -x hip -nogpuinc -fno-exceptions --offload-arch=gfx942 -DVERSION=$number ${2:+"$2"} -shared fill.hip -o $number.so
    done
    echo "${1/_/ }, ${2:-no option}: $(python3 run.py "${1%_*}")"
}
{
    show global_scope ''
    for option in -fvisibility=hidden -Wl,-Bsymbolic-functions -Wl,-Bsymbolic -Wl,--version-script=script; do show global_scope $option; done
    show local_scopes ''
} >out
compare out
