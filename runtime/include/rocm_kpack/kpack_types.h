/*
 * rocm_kpack/kpack_types.h - the types of rocm_kpack/kpack.h. C99 and C++11.
 *
 * MIT licence.
 */
#ifndef ROCM_KPACK_KPACK_TYPES_H
#define ROCM_KPACK_KPACK_TYPES_H

#ifndef __cplusplus
#include <stdbool.h>
#endif
#include <stddef.h>
#include <stdint.h>

/* The first bytes of an archive, and the version in the four bytes after them (little-endian). */
#define KPACK_MAGIC "KPAK"
#define KPACK_MAGIC_SIZE 4
#define KPACK_CURRENT_VERSION 1

/* An open archive. */
typedef struct kpack_archive *kpack_archive_t;

/* Archives that stay open, and what the environment said when the cache was made. */
typedef struct kpack_cache *kpack_cache_t;

typedef enum kpack_error {
    KPACK_SUCCESS = 0,
    KPACK_ERROR_INVALID_ARGUMENT = 1,      /* a null pointer, an index that is too large, a buffer that is too small */
    KPACK_ERROR_FILE_NOT_FOUND = 2,        /* there is no such file */
    KPACK_ERROR_INVALID_FORMAT = 3,        /* not an archive, or one that contradicts itself */
    KPACK_ERROR_UNSUPPORTED_VERSION = 4,   /* an archive of a version other than 1 */
    KPACK_ERROR_KERNEL_NOT_FOUND = 5,      /* archives list the target, but have no such code object */
    KPACK_ERROR_DECOMPRESSION_FAILED = 6,  /* a stored code object is not what the table of contents promises */
    KPACK_ERROR_OUT_OF_MEMORY = 7,
    KPACK_ERROR_NOT_IMPLEMENTED = 8,       /* ROCM_KPACK_DISABLE is set */
    KPACK_ERROR_IO_ERROR = 9,              /* a file is empty, is not a regular file, cannot be read, or was changed */
    KPACK_ERROR_MSGPACK_PARSE_FAILED = 10, /* a table of contents is not MessagePack, or has values of wrong types */
    KPACK_ERROR_PATH_DISCOVERY_FAILED = 11,/* an address is in no mapped file */
    KPACK_ERROR_INVALID_METADATA = 12,     /* metadata is not a MessagePack map with kernel_name and kpack_search_paths */
    KPACK_ERROR_ARCHIVE_NOT_FOUND = 13,    /* there is no usable archive at any search path */
    KPACK_ERROR_ARCH_NOT_FOUND = 14        /* there are archives, but none lists any of the targets */
} kpack_error_t;

/* Receives a target, and what the caller passed. Returns whether to go on. */
typedef bool (*kpack_arch_callback_t)(const char *arch, void *user_data);

#endif
