/* Files of users, opened to be read from beginning to end. */
#ifndef DT__CORE_OPEN_FILE_H
#define DT__CORE_OPEN_FILE_H

#include "core/core.h"

/* Opens a regular file, or a pipe into which somebody writes, and says its size, -1 of a pipe.
 * Errors: IO, also of folders, of devices, which may have no end, and of pipes without a writer,
 * which would block for ever. */
dt_status dt__open_file(dt_ctx *ctx, const char *path, int *descriptor, int64_t *size);
/* The bytes of a file that is mapped or read as a whole. NOMEM: the address space is smaller. */
dt_status dt__whole_size(dt_ctx *ctx, const char *path, int64_t bytes, size_t *size);

#endif
