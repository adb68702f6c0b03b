/* A folder of format c: what its header declares, and its compilation. */
#ifndef DT__EXPORT_EXPORTED_FOLDER_H
#define DT__EXPORT_EXPORTED_FOLDER_H

#include "core/core.h"

#define DT__FOLDER_NAME 128

/* An input or output: its extents without the batch. */
typedef struct dt__folder_end {
    int rank;
    int64_t dims[DT_MAX_RANK], count;
    bool last; /* channels last; the model has them first */
} dt__folder_end;

typedef struct dt__folder_about {
    char name[DT__FOLDER_NAME]; /* of the files and functions */
    dt__folder_end in, out;
    int64_t arena; /* bytes */
    bool codes;    /* inputs and outputs are int8 codes */
} dt__folder_about;

/* Reads NAME.h of a folder. Errors: IO; FORMAT (not a folder of format c, or damaged); UNSUPPORTED
 * (a language model, several inputs or outputs); NOMEM. */
dt_status dt__folder_read(dt_ctx *ctx, const char *folder, const char *shown,
                          dt__folder_about *out);
/* Compiles NAME.c with $CC, else cc, and loads it; *library is for dlclose. Errors: IO (no
 * compiler, no space for temporary files), FORMAT (a compiler error), NOMEM. */
dt_status dt__folder_compile(dt_ctx *ctx, const char *folder, const dt__folder_about *about,
                             void **library);

#endif
