// Stands in for libamdhip64: writes a line to $REGISTRATIONS for each wrapper that a binary registers: the binary's name,
// the wrapper's address in it, magic, version, index, and what its pointer leads to.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HIPK = 0x4b504948 };

struct wrapper {
    uint32_t magic, version;
    const void *binary;
    uint64_t index;
};

static const char *leads_to(const struct wrapper *wrapper) {
    const char *bytes = wrapper->binary;
    if (!bytes)
        return "nothing";
    if (wrapper->magic == HIPK) { // a marker: MessagePack, at most the rest of the page is looked at
        size_t length = 4096 - ((uintptr_t)bytes & 4095);
        return memmem(bytes, length < 256 ? length : 256, "kpack_search_paths", 18) ? "marker" : "other";
    }
    return !memcmp(bytes, "__CLANG_OFFLOAD_BUNDLE__", 24) || !memcmp(bytes, "CCOB", 4) ? "bundle" : "other";
}

void **__hipRegisterFatBinary(const void *data) {
    static void *module[4];
    const struct wrapper *wrapper = data;
    Dl_info information = {0};
    struct link_map *map = NULL;
    dladdr1(data, &information, (void **)&map, RTLD_DL_LINKMAP);
    const char *name = information.dli_fname ? information.dli_fname : "?";
    const char *slash = strrchr(name, '/');
    const char *path = getenv("REGISTRATIONS");
    FILE *log = path ? fopen(path, "a") : NULL;
    if (log) {
        fprintf(log, "%s %lx %x %u %lx %s\n", slash ? slash + 1 : name, (unsigned long)((uintptr_t)data - (map ? map->l_addr : 0)),
                wrapper->magic, wrapper->version, (unsigned long)wrapper->index, leads_to(wrapper));
        fclose(log);
    }
    return module;
}

void __hipUnregisterFatBinary(void **module) { (void)module; }
void __hipRegisterFunction(void) {}
void __hipRegisterVar(void) {}
void __hipRegisterManagedVar(void) {}
int hipLaunchKernel(void) { return 0; }
int __hipPushCallConfiguration(void) { return 0; }
int __hipPopCallConfiguration(void) { return 0; }
