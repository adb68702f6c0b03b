/* Files that are replaced whole, and the operating system's errors. */
#ifndef DT__IO_REPLACE_FILE_H
#define DT__IO_REPLACE_FILE_H

#include "core/core.h"

/* IO: "PATH: cannot WHAT: what errno says". */
dt_status dt__fail_os(dt_ctx *ctx, const char *path, const char *what);

/* The end of a path, short enough to leave room for the rest of a message. */
const char *dt__path_tail(const char *path);
/* IO where `to` is the file `from`, by whatever name, or a model's file in the folder `from`: what
 * is written would take the place of what is read. NULL: no file. */
dt_status dt__file_apart(dt_ctx *ctx, const char *to, const char *from);

typedef struct dt__span {
    const void *data;
    size_t bytes;
} dt__span;

/* Writes the spans, one after the other, as the file `path`: first into a temporary file beside
 * it, which then takes its place, so that there is the old file or the whole new one, also after a
 * power failure. A link is followed; permissions of an old file stay. No temporary file is left
 * behind. Errors: IO, also where `path` is a device, a folder or a pipe. */
dt_status dt__replace_file(dt_ctx *ctx, const char *path, const dt__span *span, int64_t count);

#endif
