/* Atomic replacement of files, and messages of the operating system's errors. */
#ifndef DT__IO_REPLACE_FILE_H
#define DT__IO_REPLACE_FILE_H

#include "core/core.h"

/* IO: "PATH: cannot WHAT: text of errno". */
dt_status dt__fail_os(dt_ctx *ctx, const char *path, const char *what);

/* The end of a path, cut so that a message has room for more. */
const char *dt__path_tail(const char *path);
/* IO if `to` is the file `from` (under any name), or a model's file in the folder `from`: the
 * output would overwrite the input. NULL: no file. */
dt_status dt__file_apart(dt_ctx *ctx, const char *to, const char *from);

typedef struct dt__span {
    const void *data;
    size_t bytes;
} dt__span;

/* Writes the spans, one after the other, as the file `path`, atomically: into a temporary file
 * beside it, which is then renamed; also after a power failure the file is either the old or the
 * new one. Follows a link; keeps the permissions of an old file; leaves no temporary file behind.
 * Errors: IO, also if `path` is a device, a folder or a pipe. */
dt_status dt__replace_file(dt_ctx *ctx, const char *path, const dt__span *span, int64_t count);

#endif
