/*
 * rocm_kpack/kpack_export.h - the attribute of exported functions. C99 and C++11.
 *
 * MIT licence.
 */
#ifndef ROCM_KPACK_KPACK_EXPORT_H
#define ROCM_KPACK_KPACK_EXPORT_H

#ifndef KPACK_API
#if defined(__GNUC__)
#define KPACK_API __attribute__((visibility("default")))
#else
#define KPACK_API
#endif
#endif

#endif
