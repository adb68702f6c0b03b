/* libsndfile, loaded when a sound file first needs it, since loading it also loads six codec
 * libraries. */
#ifndef DT__DATA_SOUND_LIBRARY_H
#define DT__DATA_SOUND_LIBRARY_H

#include "core/core.h"

#include <sndfile.h>

#define DT__SNDFILE_FUNCTIONS(F)                                                                   \
    F(open_virtual) F(close) F(error) F(strerror) F(readf_short) F(readf_int) F(readf_float)

/* Its functions, by their names without "sf_". */
typedef struct dt__sndfile_library {
#define DT__SNDFILE_FUNCTION(name) __typeof__(sf_##name) *name;
    DT__SNDFILE_FUNCTIONS(DT__SNDFILE_FUNCTION)
#undef DT__SNDFILE_FUNCTION
} dt__sndfile_library;

extern dt__sndfile_library dt__sndfile; /* after dt__sndfile_load */

/* NULL, or why the library cannot be loaded. */
const char *dt__sndfile_load(void);

#endif
