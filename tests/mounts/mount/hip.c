/*
 * Stands in for libamdhip64: for each wrapper that a binary registers and each device in $HIP_DEVICES, loads the code object
 * as HIP does, through librocm_kpack. Devices are separated by ";", and what one answers to by ",".
 *
 * Writes to $HIP_OUTPUT/log a line for each: magic, the wrapper's address, its index, the device, the error code, a number, the
 * binary's path. The number is that of the file in $HIP_OUTPUT with the code object; for a fat binary, the offset in it of the
 * bundle that the pointer leads to.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <rocm_kpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HIPK = 0x4b504948, MOST = 8 };

struct wrapper {
    uint32_t magic, version;
    const void *binary;
    uint64_t index;
};

static kpack_cache_t cache;
static size_t number;

static int create(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("HIP_OUTPUT"), name);
    return open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
}

static void store(const char *bytes, size_t size) {
    char name[32];
    snprintf(name, sizeof name, "%zu", number);
    int file = create(name);
    for (ssize_t written; size > 0 && (written = write(file, bytes, size)) > 0; size -= written)
        bytes += written;
    close(file);
}

static kpack_error_t load(const struct wrapper *wrapper, const char *path, char *device) {
    const char *archs[MOST];
    size_t count = 0, size = 0;
    void *code = NULL;
    char *rest = NULL;
    for (char *arch = strtok_r(device, ",", &rest); arch && count < MOST; arch = strtok_r(NULL, ",", &rest))
        archs[count++] = arch;
    kpack_error_t error =
        kpack_load_code_object(cache, wrapper->binary, path, (uint32_t)wrapper->index, archs, count, &code, &size);
    if (!error)
        store(code, size);
    kpack_free_code_object(code);
    return error;
}

void **__hipRegisterFatBinary(const struct wrapper *wrapper) {
    static void *module[4];
    char path[4096] = "?", devices[1024], *rest = NULL;
    if (!cache)
        kpack_cache_create(&cache);
    kpack_error_t found = kpack_discover_binary_path(wrapper, path, sizeof path, NULL);
    snprintf(devices, sizeof devices, "%s", getenv("HIP_DEVICES"));
    int log = create("log");
    for (char *device = strtok_r(devices, ";", &rest); device; device = strtok_r(NULL, ";", &rest)) {
        char name[256];
        size_t what = number;
        snprintf(name, sizeof name, "%s", device);
        kpack_error_t error = found;
        if (!error && wrapper->magic == HIPK)
            error = load(wrapper, path, device);
        else if (!error) {
            char other[4096];
            error = kpack_discover_binary_path(wrapper->binary, other, sizeof other, &what);
        }
        dprintf(log, "%x %lx %lu %s %d %zu %s\n", wrapper->magic, (unsigned long)wrapper, (unsigned long)wrapper->index, name, error,
                what, path);
        number++;
    }
    close(log);
    return module;
}

void __hipUnregisterFatBinary(void **module) { (void)module; }
void __hipRegisterFunction(void) {}
void __hipRegisterVar(void) {}
void __hipRegisterManagedVar(void) {}
int hipLaunchKernel(void) { return 0; }
int __hipPushCallConfiguration(void) { return 0; }
int __hipPopCallConfiguration(void) { return 0; }
