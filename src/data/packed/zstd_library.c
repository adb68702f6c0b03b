/* The functions of libzstd, found by name. */
#if defined DETENT_ZSTD
#include "data/packed/zstd_library.h"

#include "core/system/library.h"

dt__zstd_library dt__zstd;

static const dt__function functions[] = {
#define FUNCTION(name) { "ZSTD_" #name, offsetof(dt__zstd_library, name) },
    DT__ZSTD_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

DT__LIBRARY_LOADER(dt__zstd_load, "libzstd.so.1", dt__zstd)
#else
typedef int dt__no_zstd_library; /* ISO C requires a declaration */
#endif
