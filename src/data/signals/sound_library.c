/* The functions of libsndfile, found by name. */
#if defined DETENT_SNDFILE
#include "data/signals/sound_library.h"

#include "core/system/library.h"

dt__sndfile_library dt__sndfile;

static const dt__function functions[] = {
#define FUNCTION(name) { "sf_" #name, offsetof(dt__sndfile_library, name) },
    DT__SNDFILE_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

DT__LIBRARY_LOADER(dt__sndfile_load, "libsndfile.so.1", dt__sndfile)
#else
typedef int dt__no_sound_library; /* ISO C requires a declaration */
#endif
