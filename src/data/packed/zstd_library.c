/* The functions of libzstd, found by name. */
#if defined DETENT_ZSTD
#include "data/packed/zstd_library.h"

#include "core/system/library.h"

#include <pthread.h>
#include <stddef.h>

dt__zstd_library dt__zstd;

static char why[256]; /* it could not be loaded; "": it is */

static const dt__function functions[] = {
#define FUNCTION(name) { "ZSTD_" #name, offsetof(dt__zstd_library, name) },
    DT__ZSTD_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

static void load(void)
{
    dt__library_load("libzstd.so.1", functions, DT__COUNT_OF(functions), &dt__zstd, why);
}

const char *dt__zstd_load(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return why[0] == 0 ? NULL : why;
}
#else
typedef int dt__no_zstd_library; /* ISO C wants a declaration */
#endif
