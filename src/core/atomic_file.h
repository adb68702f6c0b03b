/* Files that appear whole or not at all. */
#ifndef DT__CORE_ATOMIC_FILE_H
#define DT__CORE_ATOMIC_FILE_H

#include "core/core.h"

/* A file being written beside the name that it will have. */
typedef struct dt__new_file {
    dt_ctx *ctx;
    const char *path; /* lent */
    char *temporary;  /* NULL: not begun, or over */
    int descriptor;
} dt__new_file;

/* Creates the temporary file. Errors, naming `path`: IO (also where `path` exists and is no regular
 * file), NOMEM. */
dt_status dt__file_begin(dt_ctx *ctx, const char *path, dt__new_file *file);
dt_status dt__file_write(dt__new_file *file, const void *data, size_t bytes);
/* Syncs the file, gives it its name, syncs the folder. Whatever the result, the file is over. */
dt_status dt__file_commit(dt__new_file *file);
/* Removes the temporary file. Nothing happens where the file is over. */
void dt__file_abandon(dt__new_file *file);

/* Records IO: "cannot <verb> '<path>': <the system's reason for `error`>". */
dt_status dt__file_fail(dt_ctx *ctx, const char *verb, const char *path, int error);

#endif
