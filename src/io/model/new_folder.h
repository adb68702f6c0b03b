/* Atomic creation of folders. */
#ifndef DT__IO_NEW_FOLDER_H
#define DT__IO_NEW_FOLDER_H

#include "core/core.h"

#include <limits.h>

#define DT__FOLDER_FILES 16

/* A folder that is being filled under a temporary name. */
typedef struct dt__new_folder {
    dt_ctx *ctx;
    const char *path;         /* as the caller gave it, for messages */
    char target[PATH_MAX];    /* links resolved, no slash at its end */
    char temporary[PATH_MAX]; /* "" if there is none */
    char file[PATH_MAX];      /* the latest result of dt__folder_file */
    const char *name[DT__FOLDER_FILES];
    int n;
    int lock; /* the temporary folder, locked while it is filled; -1: none */
} dt__new_folder;

/* Creates the temporary folder, and removes those that killed programs left for `path`. IO, also if
 * `path` exists and is not an empty folder. */
dt_status dt__folder_begin(dt_ctx *ctx, const char *path, dt__new_folder *f);
/* The path for a new file in it, lent until the next call; `name` must outlive f. NULL with IO if
 * it is too long. */
const char *dt__folder_file(dt__new_folder *f, const char *name);
/* Syncs the folder and renames it to `path`. */
dt_status dt__folder_commit(dt__new_folder *f);
/* Removes what was created, unless it was committed. */
void dt__folder_abandon(dt__new_folder *f);

#endif
