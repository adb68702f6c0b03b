/* Folders that appear whole or not at all. */
#ifndef DT__IO_NEW_FOLDER_H
#define DT__IO_NEW_FOLDER_H

#include "core/core.h"

#include <limits.h>

#define DT__FOLDER_FILES 16

/* A folder being filled beside the name that it will have. */
typedef struct dt__new_folder {
    dt_ctx *ctx;
    const char *path;         /* as the caller wrote it, for messages */
    char target[PATH_MAX];    /* links followed, no slash at its end */
    char temporary[PATH_MAX]; /* "" while there is none */
    char file[PATH_MAX];      /* what dt__folder_file gave last */
    const char *name[DT__FOLDER_FILES];
    int n;
} dt__new_folder;

/* Makes the temporary folder. IO, also where `path` is there and no empty folder. */
dt_status dt__folder_begin(dt_ctx *ctx, const char *path, dt__new_folder *f);
/* The path of a file that is about to be written into it, lent until the next call; `name` is lent
 * to f. NULL with IO where it is too long. */
const char *dt__folder_file(dt__new_folder *f, const char *name);
/* Gives it its name. */
dt_status dt__folder_commit(dt__new_folder *f);
/* Removes what was made, unless it was committed. */
void dt__folder_abandon(dt__new_folder *f);

#endif
