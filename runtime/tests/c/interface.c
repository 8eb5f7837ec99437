/*
 * Calls every function of rocm_kpack/kpack.h, and gets every error code. Compiled as C99 and as C++11.
 * usage: interface DIRECTORY, with the archives that interface.rs writes.
 */
#define _GNU_SOURCE 1
#include <rocm_kpack/kpack_types.h>
#include <rocm_kpack/kpack_export.h>
#include <rocm_kpack/kpack.h>
#include <rocm_kpack.h> /* its earlier name */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static const char *directory;
static int failures;

#define IS(expected, expression)                                                                         \
    do {                                                                                                 \
        long is = (long)(expression), wanted = (long)(expected);                                         \
        if (is != wanted) {                                                                              \
            printf("%s:%d: %s is %ld instead of %ld\n", __FILE__, __LINE__, #expression, is, wanted);    \
            failures++;                                                                                  \
        }                                                                                                \
    } while (0)
#define HOLDS(expression) IS(1, !!(expression))

/* A path in the directory; good until the next but three. */
static const char *at(const char *name) {
    static char paths[4][4096];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static kpack_archive_t opened(const char *name) {
    kpack_archive_t archive = NULL;
    IS(KPACK_SUCCESS, kpack_open(at(name), &archive));
    HOLDS(archive);
    return archive;
}

static void opening(void) {
    kpack_archive_t archive = NULL;
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_open(NULL, &archive));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_open(at("good.kpack"), NULL));
    IS(KPACK_ERROR_FILE_NOT_FOUND, kpack_open(at("nothing"), &archive));
    IS(KPACK_ERROR_FILE_NOT_FOUND, kpack_open("", &archive));
    IS(KPACK_ERROR_FILE_NOT_FOUND, kpack_open(at("good.kpack/below"), &archive));
    IS(KPACK_ERROR_INVALID_FORMAT, kpack_open(at("short"), &archive));
    IS(KPACK_ERROR_INVALID_FORMAT, kpack_open(at("magic"), &archive));
    IS(KPACK_ERROR_UNSUPPORTED_VERSION, kpack_open(at("version"), &archive));
    IS(KPACK_ERROR_IO_ERROR, kpack_open(at("empty"), &archive));
    IS(KPACK_ERROR_INVALID_FORMAT, kpack_open(directory, &archive));
    IS(KPACK_ERROR_IO_ERROR, kpack_open(at("fifo"), &archive));
    IS(KPACK_ERROR_MSGPACK_PARSE_FAILED, kpack_open(at("msgpack"), &archive));
    IS(KPACK_ERROR_MSGPACK_PARSE_FAILED, kpack_open(at("ordinal.kpack"), &archive));
    HOLDS(!archive);
    kpack_close(NULL);
    kpack_close(opened("good.kpack"));
    IS(KPACK_MAGIC_SIZE, strlen(KPACK_MAGIC));
    IS(1, KPACK_CURRENT_VERSION);
}

static void listing(void) {
    kpack_archive_t archive = opened("good.kpack");
    size_t count = 99;
    const char *text = NULL, *again = NULL;
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_get_architecture_count(NULL, &count));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_get_architecture_count(archive, NULL));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_get_architecture(NULL, 0, &text));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_get_architecture(archive, 0, NULL));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_get_binary_count(NULL, &count));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_get_binary_count(archive, NULL));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_get_binary(NULL, 0, &text));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_get_binary(archive, 0, NULL));

    IS(KPACK_SUCCESS, kpack_get_architecture_count(archive, &count));
    IS(2, count);
    IS(KPACK_SUCCESS, kpack_get_architecture(archive, 0, &text));
    IS(0, strcmp(text, "gfx942"));
    IS(KPACK_SUCCESS, kpack_get_architecture(archive, 1, &text));
    IS(0, strcmp(text, "gfx942:xnack+"));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_get_architecture(archive, 2, &text));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_get_architecture(archive, (size_t)-1, &text));

    IS(KPACK_SUCCESS, kpack_get_binary_count(archive, &count));
    IS(3, count);
    IS(KPACK_SUCCESS, kpack_get_binary(archive, 0, &text));
    IS(0, strcmp(text, "lib/x.so#0"));
    IS(KPACK_SUCCESS, kpack_get_binary(archive, 2, &again));
    IS(0, strcmp(again, "lib/z.so#0"));
    IS(0, strcmp(text, "lib/x.so#0"));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_get_binary(archive, 3, &text));
    kpack_close(archive);
}

static void getting(void) {
    kpack_archive_t archive = opened("good.kpack");
    void *kernel = NULL;
    size_t size = 99;
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_get_kernel(NULL, "lib/x.so#0", "gfx942", &kernel, &size));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_get_kernel(archive, NULL, "gfx942", &kernel, &size));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_get_kernel(archive, "lib/x.so#0", NULL, &kernel, &size));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_get_kernel(archive, "lib/x.so#0", "gfx942", NULL, &size));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_get_kernel(archive, "lib/x.so#0", "gfx942", &kernel, NULL));
    IS(KPACK_ERROR_KERNEL_NOT_FOUND, kpack_get_kernel(archive, "lib/x.so", "gfx942", &kernel, &size));
    IS(KPACK_ERROR_KERNEL_NOT_FOUND, kpack_get_kernel(archive, "lib/x.so#0", "gfx90a", &kernel, &size));
    IS(KPACK_ERROR_KERNEL_NOT_FOUND, kpack_get_kernel(archive, "lib/x.so#0", "gfx942:xnack+", &kernel, &size));
    HOLDS(!kernel && !size);
    IS(KPACK_SUCCESS, kpack_get_kernel(archive, "lib/x.so#0", "gfx942", &kernel, &size));
    IS(11, size);
    IS(0, memcmp(kernel, "first unit\n", 11));
    memset(kernel, 0, size); /* it is the caller's */
    kpack_free_kernel(kernel);
    IS(KPACK_SUCCESS, kpack_get_kernel(archive, "lib/z.so#0", "gfx942", &kernel, &size));
    HOLDS(kernel && !size);
    kpack_free_kernel(kernel);
    kpack_free_kernel(NULL);
    kpack_close(archive);

    archive = opened("damaged.kpack");
    IS(KPACK_ERROR_DECOMPRESSION_FAILED, kpack_get_kernel(archive, "lib/x.so#0", "gfx942", &kernel, &size));
    HOLDS(!kernel && !size);
    kpack_close(archive);
    archive = opened("blob.kpack");
    IS(KPACK_ERROR_INVALID_FORMAT, kpack_get_kernel(archive, "lib/x.so#0", "gfx942", &kernel, &size));
    kpack_close(archive);
    archive = opened("little.kpack");
    IS(KPACK_SUCCESS, kpack_get_kernel(archive, "lib/x.so#0", "gfx942", &kernel, &size));
    IS(4, size);
    IS(0, memcmp(kernel, "code", 4));
    kpack_free_kernel(kernel);
    kpack_close(archive);
}

/* A file that changes while it is open is an error, not a signal. */
static void changing(void) {
    kpack_archive_t archive = opened("changing.kpack");
    void *kernel = NULL;
    size_t size = 0;
    const char *text = NULL;
    IS(0, truncate(at("changing.kpack"), 64));
    IS(KPACK_ERROR_IO_ERROR, kpack_get_kernel(archive, "lib/x.so#0", "gfx942", &kernel, &size));
    IS(KPACK_ERROR_IO_ERROR, kpack_get_binary(archive, 0, &text));
    kpack_close(archive);
}

/* The most that anything asked to be zeroed. C++ declares calloc in another way. */
static size_t largest_zeroed;
#ifndef __cplusplus
void *calloc(size_t count, size_t size) {
    size_t i, all = count * size;
    volatile char *memory;
    if (size && count > (size_t)-1 / size)
        return NULL;
    if (all > largest_zeroed)
        largest_zeroed = all;
    memory = (volatile char *)malloc(all);
    for (i = 0; memory && i < all; i++)
        memory[i] = 0;
    return (void *)memory;
}
#endif

static void without_memory(void) {
    kpack_archive_t archive = opened("large.kpack");
    void *kernel = NULL;
    size_t size = 0, pages = 0;
    struct rlimit before, little;
    FILE *file = fopen("/proc/self/statm", "r");
    IS(1, fscanf(file, "%zu", &pages));
    fclose(file);
    getrlimit(RLIMIT_AS, &before);
    little = before;
    little.rlim_cur = pages * (size_t)sysconf(_SC_PAGESIZE) + (16u << 20);
    IS(0, setrlimit(RLIMIT_AS, &little));
    IS(KPACK_ERROR_OUT_OF_MEMORY, kpack_get_kernel(archive, "lib/x.so#0", "gfx942", &kernel, &size));
    HOLDS(!kernel && !size);
    IS(0, setrlimit(RLIMIT_AS, &before));
    IS(KPACK_SUCCESS, kpack_get_kernel(archive, "lib/x.so#0", "gfx942", &kernel, &size));
    IS(64 << 20, size);
    HOLDS(largest_zeroed < size);
    kpack_free_kernel(kernel);
    kpack_close(archive);
}

static bool collect(const char *arch, void *user_data) {
    strcat((char *)user_data, arch);
    strcat((char *)user_data, " ");
    return strcmp(arch, "gfx942:xnack+") != 0;
}

static bool stop(const char *arch, void *user_data) {
    (void)arch;
    ++*(int *)user_data;
    return false;
}

static void enumerating(void) {
    char all[100] = "";
    int calls = 0;
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_enumerate_architectures(NULL, collect, all));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_enumerate_architectures(at("good.kpack"), NULL, all));
    IS(KPACK_ERROR_FILE_NOT_FOUND, kpack_enumerate_architectures(at("nothing"), collect, all));
    IS(KPACK_ERROR_INVALID_FORMAT, kpack_enumerate_architectures(at("magic"), collect, all));
    IS(KPACK_SUCCESS, kpack_enumerate_architectures(at("good.kpack"), collect, all));
    IS(0, strcmp(all, "gfx942 gfx942:xnack+ "));
    IS(KPACK_SUCCESS, kpack_enumerate_architectures(at("good.kpack"), stop, &calls));
    IS(1, calls);
}

static const char constant[] = "a constant";

static void discovering(const char *program) {
    char path[4096], own[4096], word[11];
    size_t offset = 0;
    FILE *file;
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_discover_binary_path(NULL, path, sizeof path, &offset));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_discover_binary_path(constant, NULL, sizeof path, &offset));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_discover_binary_path(constant, path, 0, &offset));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_discover_binary_path(constant, path, 4, &offset));
    IS(KPACK_ERROR_PATH_DISCOVERY_FAILED, kpack_discover_binary_path(path, path, sizeof path, &offset));
    IS(KPACK_ERROR_PATH_DISCOVERY_FAILED, kpack_discover_binary_path((void *)16, path, sizeof path, &offset));
    IS(KPACK_SUCCESS, kpack_discover_binary_path(constant, path, sizeof path, NULL));
    IS(KPACK_SUCCESS, kpack_discover_binary_path(constant, path, sizeof path, &offset));
    HOLDS(realpath(program, own));
    IS(0, strcmp(path, own));
    file = fopen(path, "rb");
    IS(0, fseek(file, (long)offset, SEEK_SET));
    IS(11, fread(word, 1, 11, file));
    IS(0, memcmp(word, constant, 11));
    fclose(file);
    /* Exactly as large as it has to be. */
    IS(KPACK_SUCCESS, kpack_discover_binary_path(constant, path, strlen(own) + 1, NULL));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_discover_binary_path(constant, path, strlen(own), NULL));
}

/* {"kernel_name": "lib/x.so", "kpack_search_paths": ["../t_@GFXARCH@.kpack"]}, written by hand. */
static const char marker[] =
    "\x82\xabkernel_name\xa8lib/x.so\xb2kpack_search_paths\x91\xb4../t_@GFXARCH@.kpack\xc1 not read";

static kpack_cache_t cache_with(const char *path, const char *prefix, const char *disable) {
    kpack_cache_t cache = NULL;
    if (path) setenv("ROCM_KPACK_PATH", path, 1); else unsetenv("ROCM_KPACK_PATH");
    if (prefix) setenv("ROCM_KPACK_PATH_PREFIX", prefix, 1); else unsetenv("ROCM_KPACK_PATH_PREFIX");
    if (disable) setenv("ROCM_KPACK_DISABLE", disable, 1); else unsetenv("ROCM_KPACK_DISABLE");
    IS(KPACK_SUCCESS, kpack_cache_create(&cache));
    return cache;
}

static kpack_error_t load(kpack_cache_t cache, const void *metadata, const char *arch, const char *expected) {
    void *code = NULL;
    size_t size = 0;
    const char *archs[3] = {NULL, arch, "gfx11-generic"};
    kpack_error_t error = kpack_load_code_object(cache, metadata, at("lib/libx.so"), 0, archs, 3, &code, &size);
    if (expected && !error) {
        IS(strlen(expected), size);
        IS(0, memcmp(code, expected, size));
    }
    HOLDS(!error == !!code);
    kpack_free_code_object(code);
    return error;
}

static void loading(void) {
    kpack_cache_t cache = cache_with(NULL, NULL, NULL);
    const char *archs[1] = {"gfx942"};
    const char *lib = at("lib/libx.so");
    void *code = NULL;
    size_t size = 0;
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_cache_create(NULL));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_load_code_object(NULL, marker, lib, 0, archs, 1, &code, &size));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_load_code_object(cache, NULL, lib, 0, archs, 1, &code, &size));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_load_code_object(cache, marker, NULL, 0, archs, 1, &code, &size));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_load_code_object(cache, marker, lib, 0, NULL, 1, &code, &size));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_load_code_object(cache, marker, lib, 0, archs, 0, &code, &size));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_load_code_object(cache, marker, lib, 0, archs, (size_t)-1, &code, &size));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_load_code_object(cache, marker, lib, 0, archs, 1, NULL, &size));
    IS(KPACK_ERROR_INVALID_ARGUMENT, kpack_load_code_object(cache, marker, lib, 0, archs, 1, &code, NULL));

    IS(KPACK_SUCCESS, load(cache, marker, "amdgcn-amd-amdhsa--gfx942:sramecc+", "t, gfx942"));
    IS(KPACK_SUCCESS, load(cache, marker, "gfx1100", "t, gfx11-generic"));
    IS(KPACK_ERROR_KERNEL_NOT_FOUND, kpack_load_code_object(cache, marker, lib, 7, archs, 1, &code, &size));
    archs[0] = "gfx900";
    IS(KPACK_ERROR_ARCHIVE_NOT_FOUND, kpack_load_code_object(cache, marker, lib, 0, archs, 1, &code, &size));
    archs[0] = NULL;
    IS(KPACK_ERROR_ARCHIVE_NOT_FOUND, kpack_load_code_object(cache, marker, lib, 0, archs, 1, &code, &size));
    IS(KPACK_ERROR_INVALID_METADATA, load(cache, "\xc1", "gfx942", NULL));
    IS(KPACK_ERROR_INVALID_METADATA, load(cache, "\x93\x01\x02\x03", "gfx942", NULL));
    IS(KPACK_ERROR_INVALID_METADATA, load(cache, "\x81\xabkernel_name\xa1x", "gfx942", NULL));
    IS(KPACK_ERROR_INVALID_METADATA, load(cache, "\x81\xb2kpack_search_paths\x91\xa1x", "gfx942", NULL));
    IS(KPACK_ERROR_INVALID_METADATA, load(cache, "\x82\xabkernel_name\x07\xb2kpack_search_paths\x91\xa1x", "gfx942", NULL));
    IS(KPACK_ERROR_INVALID_METADATA, load(cache, "\x82\xabkernel_name\xa1x\xb2kpack_search_paths\xa1x", "gfx942", NULL));
    IS(KPACK_ERROR_INVALID_METADATA, load(cache, "\x82\xabkernel_name\xa1x\xb2kpack_search_paths\x91\x07", "gfx942", NULL));
    IS(KPACK_ERROR_INVALID_METADATA, load(cache, "\x82\xabkernel_name\xa1x\xb2kpack_search_paths\x90", "gfx942", NULL));
    IS(KPACK_ERROR_INVALID_METADATA, load(cache, "\xdf\xff\xff\xff\xff", "gfx942", NULL));
    IS(KPACK_ERROR_INVALID_METADATA, load(cache, "\x82\xabkernel_name\xdb\xff\xff\xff\xff", "gfx942", NULL));
    IS(KPACK_ERROR_INVALID_METADATA, load(cache, (void *)16, "gfx942", NULL));
    kpack_free_code_object(NULL);
    kpack_cache_destroy(cache);
    kpack_cache_destroy(NULL);
}

/* Metadata at the very end of what can be read: all of it, and a part of it. */
static void at_the_end_of_memory(void) {
    kpack_cache_t cache = cache_with(NULL, NULL, NULL);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), length = sizeof marker - sizeof "\xc1 not read", cut;
    char *memory = (char *)mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HOLDS(memory != MAP_FAILED);
    IS(0, mprotect(memory + page, page, PROT_NONE));
    memcpy(memory + page - length, marker, length);
    IS(KPACK_SUCCESS, load(cache, memory + page - length, "gfx942", "t, gfx942"));
    for (cut = 1; cut <= length; cut++) {
        memmove(memory + page - length + cut, marker, length - cut);
        IS(KPACK_ERROR_INVALID_METADATA, load(cache, memory + page - length + cut, "gfx942", NULL));
    }
    IS(KPACK_ERROR_INVALID_METADATA, load(cache, memory + page, "gfx942", NULL));
    munmap(memory, 2 * page);
    kpack_cache_destroy(cache);
}

/* Metadata that a program has copied, when no file can be opened: /proc/self/maps is none that has to be. */
static void on_the_heap(void) {
    kpack_cache_t cache = cache_with(NULL, NULL, NULL);
    struct rlimit before, none;
    char *copy = (char *)malloc(sizeof marker);
    memcpy(copy, marker, sizeof marker);
    IS(KPACK_SUCCESS, load(cache, copy, "gfx942", "t, gfx942"));
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = 0;
    IS(0, setrlimit(RLIMIT_NOFILE, &none));
    HOLDS(!fopen("/proc/self/maps", "r"));
    IS(KPACK_SUCCESS, load(cache, copy, "gfx942", "t, gfx942"));
    IS(0, setrlimit(RLIMIT_NOFILE, &before));
    free(copy);
    kpack_cache_destroy(cache);
}

static void environment(void) {
    char both[8192];
    size_t number;
    static const char *const off[] = {"", "0", "0 or so"}, *const on[] = {"1", "yes", "false"};
    kpack_cache_t cache = cache_with(at("other.kpack"), NULL, NULL);
    IS(KPACK_SUCCESS, load(cache, marker, "gfx942", "other"));
    /* Read once, when the cache is made. */
    setenv("ROCM_KPACK_PATH", at("nothing"), 1);
    setenv("ROCM_KPACK_DISABLE", "1", 1);
    IS(KPACK_SUCCESS, load(cache, marker, "gfx942", "other"));
    IS(KPACK_ERROR_ARCH_NOT_FOUND, load(cache, marker, "gfx900", NULL));
    kpack_cache_destroy(cache);

    snprintf(both, sizeof both, ":%s::%s:", at("nothing"), at("other.kpack"));
    cache = cache_with(both, NULL, NULL);
    IS(KPACK_SUCCESS, load(cache, marker, "gfx942", "other"));
    kpack_cache_destroy(cache);
    cache = cache_with(NULL, both, NULL);
    IS(KPACK_SUCCESS, load(cache, marker, "gfx942", "other"));
    IS(KPACK_SUCCESS, load(cache, marker, "gfx1100", "t, gfx11-generic"));
    kpack_cache_destroy(cache);
    cache = cache_with("", ":", NULL);
    IS(KPACK_SUCCESS, load(cache, marker, "gfx942", "t, gfx942"));
    kpack_cache_destroy(cache);
    for (number = 0; number < 3; number++) {
        cache = cache_with(NULL, NULL, off[number]);
        IS(KPACK_SUCCESS, load(cache, marker, "gfx942", "t, gfx942"));
        kpack_cache_destroy(cache);
        cache = cache_with(NULL, NULL, on[number]);
        IS(KPACK_ERROR_NOT_IMPLEMENTED, load(cache, marker, "gfx942", NULL));
        IS(KPACK_ERROR_NOT_IMPLEMENTED, load(cache, "\xc1", "gfx942", NULL));
        kpack_cache_destroy(cache);
    }
    setenv("ROCM_KPACK_DEBUG", "1", 1);
    cache = cache_with(NULL, NULL, NULL);
    IS(KPACK_SUCCESS, load(cache, marker, "gfx942", "t, gfx942"));
    kpack_cache_destroy(cache);
    unsetenv("ROCM_KPACK_DEBUG");
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    directory = argv[1];
    opening();
    listing();
    getting();
    changing();
    without_memory();
    enumerating();
    discovering(argv[0]);
    loading();
    at_the_end_of_memory();
    on_the_heap();
    environment();
    if (!failures)
        printf("all fine\n");
    return failures != 0;
}
