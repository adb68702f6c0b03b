/* Files of users, opened to be read from beginning to end. */
#ifndef DT__CORE_OPEN_FILE_H
#define DT__CORE_OPEN_FILE_H

#include "core/core.h"

/* The beginning of the text file that Git LFS leaves in place of a file that was not fetched. */
#define DT__LFS_POINTER "version https://git-lfs.github.com/spec/"
/* FORMAT if the file, which begins with these n bytes, is such a text: readers of data must not
 * accept it as data. */
dt_status dt__check_fetched(dt_ctx *ctx, const char *path, const void *bytes, size_t n);

/* Whether something lies at a path; whether a folder does. */
bool dt__exists(const char *path);
bool dt__is_folder(const char *path);
/* Opens a regular file, or a pipe that has a writer, and returns its size, -1 for a pipe. Errors:
 * IO, also for folders, for devices, which may have no end, and for pipes without a writer, which
 * would block for ever. */
dt_status dt__open_file(dt_ctx *ctx, const char *path, int *descriptor, int64_t *size);
/* The bytes of a file that is mapped or read as a whole. NOMEM: the address space is too small. */
dt_status dt__whole_size(dt_ctx *ctx, const char *path, int64_t bytes, size_t *size);

#endif
