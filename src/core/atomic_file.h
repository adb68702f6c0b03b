/* Atomic creation of files: complete or not at all. */
#ifndef DT__CORE_ATOMIC_FILE_H
#define DT__CORE_ATOMIC_FILE_H

#include "core/core.h"

/* A file that is being written under a temporary name. */
typedef struct dt__new_file {
    dt_ctx *ctx;
    const char *path; /* lent */
    char *temporary;  /* NULL: not begun, committed or abandoned */
    int descriptor;
} dt__new_file;

/* Creates the temporary file. Errors, naming `path`: IO (also where `path` exists and is no regular
 * file), NOMEM. */
dt_status dt__file_begin(dt_ctx *ctx, const char *path, dt__new_file *file);
dt_status dt__file_write(dt__new_file *file, const void *data, size_t bytes);
/* Syncs the file, renames it to `path`, syncs the folder. After an error the temporary file is
 * removed, too. */
dt_status dt__file_commit(dt__new_file *file);
/* Removes the temporary file, if there is one. */
void dt__file_abandon(dt__new_file *file);

/* Records IO: "cannot <verb> '<path>': <the system's reason for `error`>". */
dt_status dt__file_fail(dt_ctx *ctx, const char *verb, const char *path, int error);

#endif
