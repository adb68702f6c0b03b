/* Files mapped into memory, to read. */
#ifndef DT__DATA_FILE_MAP_H
#define DT__DATA_FILE_MAP_H

#include "core/core.h"

/* Maps a regular file; *bytes is NULL if it is empty. The file must stay as it is until the caller
 * unmaps it with munmap. Errors, naming the file: IO. */
dt_status dt__map_file(dt_ctx *ctx, const char *path, void **bytes, size_t *size);

#endif
