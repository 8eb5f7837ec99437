// Stands before AMD's libamdhip64 and writes a line to $REGISTRATIONS for each wrapper that a binary registers: its file, its magic, and
// whether the runtime gave a module.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void **__hipRegisterFatBinary(const uint32_t *wrapper) {
    void **(*next)(const void *) = dlsym(RTLD_NEXT, "__hipRegisterFatBinary");
    void **module = next ? next(wrapper) : NULL;
    Dl_info place = {0};
    dladdr(wrapper, &place);
    FILE *log = fopen(getenv("REGISTRATIONS"), "a");
    fprintf(log, "%x %s %s\n", *wrapper, module ? "module" : "none", place.dli_fname ? place.dli_fname : "?");
    fclose(log);
    return module;
}

// A constructor of onnxruntime asks for the properties of the first GPU. There is none, and it does not expect the error.
int hipGetDevicePropertiesR0600(void *properties, int device) {
    (void)properties, (void)device;
    return 0;
}
