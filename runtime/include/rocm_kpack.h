/* The earlier name of rocm_kpack/kpack.h. */
#include "rocm_kpack/kpack.h"
