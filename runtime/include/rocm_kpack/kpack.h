/*
 * rocm_kpack/kpack.h - loads GPU code objects from .kpack archives. C99 and C++11.
 *
 * The interface is that of rocm-kpack's runtime library: the same names, order of arguments, error codes and environment
 * variables, in librocm_kpack.so.0.
 *
 * Strings are UTF-8 and end with NUL. Everything can be called from many threads at once, except that an archive or a cache
 * must not be created, destroyed or closed while it is in use. Nothing unwinds or aborts into the caller, whatever an
 * archive or metadata contains: every defect has an error code. When a function fails, its results are null and 0.
 *
 * Archives are taken for immutable. They are mapped if they are on a local filesystem, and otherwise (FUSE, NFS, ...) read.
 * One whose size or time changes after it was opened answers KPACK_ERROR_IO_ERROR from then on; to replace an archive, rename
 * a new file over it. A process that truncates a mapped archive while a thread loads from it can still end this
 * process with SIGBUS.
 *
 * MIT licence.
 */
#ifndef ROCM_KPACK_KPACK_H
#define ROCM_KPACK_KPACK_H

#ifndef __cplusplus
#include <stdbool.h>
#endif
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The first bytes of an archive, and the version in the four bytes behind them (little-endian). */
#define KPACK_MAGIC "KPAK"
#define KPACK_MAGIC_SIZE 4
#define KPACK_CURRENT_VERSION 1

/* An archive that is open. */
typedef struct kpack_archive *kpack_archive_t;

/* Archives that stay open, and what the environment said when the cache was made. */
typedef struct kpack_cache *kpack_cache_t;

typedef enum kpack_error {
    KPACK_SUCCESS = 0,
    KPACK_ERROR_INVALID_ARGUMENT = 1,      /* null where there has to be something, an index too large, a buffer too small */
    KPACK_ERROR_FILE_NOT_FOUND = 2,        /* there is no such file */
    KPACK_ERROR_INVALID_FORMAT = 3,        /* no archive, or one that contradicts itself */
    KPACK_ERROR_UNSUPPORTED_VERSION = 4,   /* an archive of a version other than 1 */
    KPACK_ERROR_KERNEL_NOT_FOUND = 5,      /* archives are for the target, but have no such code object */
    KPACK_ERROR_DECOMPRESSION_FAILED = 6,  /* a stored code object is not what the table of contents promises */
    KPACK_ERROR_OUT_OF_MEMORY = 7,
    KPACK_ERROR_NOT_IMPLEMENTED = 8,       /* ROCM_KPACK_DISABLE is set */
    KPACK_ERROR_IO_ERROR = 9,              /* a file is empty, is no regular file, cannot be read, or was changed */
    KPACK_ERROR_MSGPACK_PARSE_FAILED = 10, /* a table of contents is no MessagePack, or has values of other types */
    KPACK_ERROR_PATH_DISCOVERY_FAILED = 11,/* an address is in no mapped file */
    KPACK_ERROR_INVALID_METADATA = 12,     /* metadata is no MessagePack map of a kernel_name and kpack_search_paths */
    KPACK_ERROR_ARCHIVE_NOT_FOUND = 13,    /* there is no usable archive at any search path */
    KPACK_ERROR_ARCH_NOT_FOUND = 14        /* there are archives, but none is for one of the targets */
} kpack_error_t;

/*
 * Opens an archive. Costs as much as reading its table of contents once; code objects are not touched.
 * Fails with 1, 2, 3, 4, 7, 9 (an empty file, too) or 10.
 */
kpack_error_t kpack_open(const char *path, kpack_archive_t *archive);

/* Closes an archive, and frees the strings that belong to it. Null is harmless. */
void kpack_close(kpack_archive_t archive);

/* The targets that an archive is for, in its order. The string belongs to the archive. Fail with 1. */
kpack_error_t kpack_get_architecture_count(kpack_archive_t archive, size_t *count);
kpack_error_t kpack_get_architecture(kpack_archive_t archive, size_t index, const char **arch);

/*
 * The names under which an archive has code objects, sorted: "lib/libx.so#0" is wrapper 0 of lib/libx.so. The string
 * belongs to the archive. Fail with 1; with 3 if a name cannot be a C string, and with 9 if the archive was changed.
 */
kpack_error_t kpack_get_binary_count(kpack_archive_t archive, size_t *count);
kpack_error_t kpack_get_binary(kpack_archive_t archive, size_t index, const char **binary);

/*
 * Copies the code object of a name and exactly this target. The memory is freed by kpack_free_kernel. An empty code object is
 * a success of size 0. Fails with 1, 3, 5, 6, 7, 9 or 10.
 */
kpack_error_t kpack_get_kernel(kpack_archive_t archive, const char *binary, const char *arch, void **kernel, size_t *size);
void kpack_free_kernel(void *kernel);

/*
 * Makes a cache. The environment is read here, once:
 *   ROCM_KPACK_PATH         archives, separated by colons, that are searched instead of those that metadata names
 *   ROCM_KPACK_PATH_PREFIX  archives, separated by colons, that are searched before those that metadata names
 *   ROCM_KPACK_DISABLE      if it begins with anything but 0, every load fails with 8
 *   ROCM_KPACK_DEBUG        if it begins with anything but 0, searches are logged on stderr
 * Fails with 1.
 */
kpack_error_t kpack_cache_create(kpack_cache_t *cache);

/* Closes all archives of a cache. Null is harmless. Code objects that were loaded stay. */
void kpack_cache_destroy(kpack_cache_t cache);

/*
 * Tells the path of the file that is mapped at an address, and optionally (null otherwise) the address's offset in that file.
 * Fails with 1 or 11.
 */
kpack_error_t kpack_discover_binary_path(const void *address, char *path, size_t path_size, size_t *offset);

/*
 * Finds and copies the code object that a wrapper of a split binary asks for. The memory is freed by kpack_free_code_object.
 *
 *   metadata     what the wrapper points at: MessagePack without a length. It is read no further than the segment of the loaded
 *                object reaches that holds it, or anywhere else no further than memory can be read; 64 KiB at most.
 *   binary_path  the file that holds the wrapper; relative search paths start at its directory
 *   index        the wrapper's number
 *   archs        what the device answers to, in order of priority: a target ID with or without "amdgcn-amd-amdhsa--", perhaps
 *                the generic one after it. Null entries are left out.
 *
 * Each of archs stands for its own name and for those with fewer features, the most specific first: gfx942:sramecc+:xnack-,
 * gfx942:sramecc+, gfx942:xnack-, gfx942. In search paths, @GFXARCH@ stands for each of these. For each of these names in
 * order, the archives that list it are looked into, in the order of search paths, until one has the code object. Archives
 * that are missing or malformed are passed over.
 *
 * Fails with 1, 8, 12, 13 or 14, or with what the last archive said that was looked into: 5, or why it could not be read.
 */
kpack_error_t kpack_load_code_object(kpack_cache_t cache, const void *metadata, const char *binary_path, uint32_t index,
                                     const char *const *archs, size_t arch_count, void **code_object, size_t *size);
void kpack_free_code_object(void *code_object);

/*
 * Calls a function with each target that an archive is for, until it returns false, which is a success as well. The function
 * must not throw, and must not keep the string. Fails as kpack_open does.
 */
typedef bool (*kpack_arch_callback_t)(const char *arch, void *user_data);
kpack_error_t kpack_enumerate_architectures(const char *path, kpack_arch_callback_t callback, void *user_data);

#ifdef __cplusplus
}
#endif

#endif
