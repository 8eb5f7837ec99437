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
 * If the size or modification time of an archive changes after it was opened, reading it fails with KPACK_ERROR_IO_ERROR
 * from then on. To replace an archive, rename a new file over it. If another process truncates a mapped archive while a
 * thread loads from it, SIGBUS can still end this process.
 *
 * MIT licence.
 */
#ifndef ROCM_KPACK_KPACK_H
#define ROCM_KPACK_KPACK_H

#include "rocm_kpack/kpack_export.h"
#include "rocm_kpack/kpack_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Opens an archive. Costs as much as reading its table of contents once; code objects are not touched.
 * Fails with 1, 2, 3, 4, 7, 9 (also for an empty file) or 10.
 */
KPACK_API kpack_error_t kpack_open(const char *path, kpack_archive_t *archive);

/* Closes an archive, and frees the strings that belong to it. Null is harmless. */
KPACK_API void kpack_close(kpack_archive_t archive);

/* The targets that an archive lists, in its order. The string belongs to the archive. Fail with 1. */
KPACK_API kpack_error_t kpack_get_architecture_count(kpack_archive_t archive, size_t *count);
KPACK_API kpack_error_t kpack_get_architecture(kpack_archive_t archive, size_t index, const char **arch);

/*
 * The names under which an archive has code objects, sorted: "lib/libx.so#0" is wrapper 0 of lib/libx.so. The string
 * belongs to the archive. Fail with 1; with 3 if a name cannot be a C string, and with 9 if the archive was changed.
 */
KPACK_API kpack_error_t kpack_get_binary_count(kpack_archive_t archive, size_t *count);
KPACK_API kpack_error_t kpack_get_binary(kpack_archive_t archive, size_t index, const char **binary);

/*
 * Copies the code object of a name and exactly this target. The memory is freed by kpack_free_kernel. An empty code object is
 * a success of size 0. Fails with 1, 3, 5, 6, 7, 9 or 10.
 */
KPACK_API kpack_error_t kpack_get_kernel(kpack_archive_t archive, const char *binary, const char *arch, void **kernel, size_t *size);
KPACK_API void kpack_free_kernel(void *kernel);

/*
 * Makes a cache. The environment is read here, once:
 *   ROCM_KPACK_PATH         archives, separated by colons, that are searched instead of those that metadata names
 *   ROCM_KPACK_PATH_PREFIX  archives, separated by colons, that are searched before those that metadata names
 *   ROCM_KPACK_DISABLE      if it begins with anything but 0, every load fails with 8
 *   ROCM_KPACK_DEBUG        if it begins with anything but 0, searches are logged on stderr
 * Fails with 1.
 */
KPACK_API kpack_error_t kpack_cache_create(kpack_cache_t *cache);

/* Closes all archives of a cache. Null is harmless. Loaded code objects stay valid. */
KPACK_API void kpack_cache_destroy(kpack_cache_t cache);

/*
 * Finds the path of the file that is mapped at an address, and unless `offset` is null, the address's offset in that file.
 * Fails with 1 or 11.
 */
KPACK_API kpack_error_t kpack_discover_binary_path(const void *address, char *path, size_t path_size, size_t *offset);

/*
 * Finds and copies the code object that a wrapper of a split binary asks for. The memory is freed by kpack_free_code_object.
 *
 *   metadata     what the wrapper points at: MessagePack without a length. At most 64 KiB are read, up to the end of the
 *                segment of the loaded object that contains it, or elsewhere as far as memory can be read.
 *   binary_path  the file that contains the wrapper; relative search paths start at its directory
 *   index        the wrapper's number
 *   archs        what the device supports, in order of priority: a target ID with or without "amdgcn-amd-amdhsa--", perhaps
 *                the generic one after it. Null entries are left out.
 *
 * Each of archs stands for its own name and for those with fewer features, the most specific first: gfx942:sramecc+:xnack-,
 * gfx942:sramecc+, gfx942:xnack-, gfx942. In search paths, @GFXARCH@ stands for each of these. For each of these names in
 * order, the archives that list it are searched, in the order of search paths, until one has the code object. Archives
 * that are missing or malformed are passed over.
 *
 * Fails with 1, 8, 12, 13 or 14, or with the error of the last archive that was searched: 5, or why it could not be read.
 */
KPACK_API kpack_error_t kpack_load_code_object(kpack_cache_t cache, const void *metadata, const char *binary_path, uint32_t index,
                                     const char *const *archs, size_t arch_count, void **code_object, size_t *size);
KPACK_API void kpack_free_code_object(void *code_object);

/*
 * Calls a function with each target that an archive lists, until it returns false, which is also a success. The function
 * must not throw, and must not keep the string. Fails as kpack_open does.
 */
KPACK_API kpack_error_t kpack_enumerate_architectures(const char *path, kpack_arch_callback_t callback, void *user_data);

#ifdef __cplusplus
}
#endif

#endif
