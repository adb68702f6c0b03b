/* The functions of libsndfile, found by name. */
#if defined DETENT_SNDFILE
#include "data/signals/sound_library.h"

#include "core/system/library.h"

#include <pthread.h>
#include <stddef.h>

dt__sndfile_library dt__sndfile;

static char why[256]; /* it could not be loaded; "": it is */

static const dt__function functions[] = {
#define FUNCTION(name) { "sf_" #name, offsetof(dt__sndfile_library, name) },
    DT__SNDFILE_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

static void load(void)
{
    dt__library_load("libsndfile.so.1", functions, DT__COUNT_OF(functions), &dt__sndfile, why);
}

const char *dt__sndfile_load(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return why[0] == 0 ? NULL : why;
}
#else
typedef int dt__no_sound_library; /* ISO C wants a declaration */
#endif
