#include "core/open_file.h"

#include "core/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATIENCE 5000 /* milliseconds that a pipe's writer has to begin */

/* Opening a pipe must not wait for a writer, reading from it must. */
static dt_status await_writer(dt_ctx *ctx, const char *path, int descriptor)
{
    struct pollfd pipe = { .fd = descriptor, .events = POLLIN };
    if (poll(&pipe, 1, PATIENCE) < 1) {
        return dt_fail(ctx, DT_ERR_IO, "'%s': a pipe into which nobody writes", path);
    }
    const int flags = fcntl(descriptor, F_GETFL);
    if (flags >= 0 && fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK) == 0) return DT_OK;
    return dt__file_fail(ctx, "read", path, errno);
}

static dt_status check(dt_ctx *ctx, const char *path, int descriptor, int64_t *size)
{
    struct stat about;
    if (fstat(descriptor, &about) != 0) return dt__file_fail(ctx, "read", path, errno);
    *size = S_ISREG(about.st_mode) ? (int64_t)about.st_size : -1;
    if (S_ISREG(about.st_mode)) return DT_OK;
    if (S_ISDIR(about.st_mode)) return dt__file_fail(ctx, "read", path, EISDIR);
    if (S_ISFIFO(about.st_mode)) return await_writer(ctx, path, descriptor);
    return dt_fail(ctx, DT_ERR_IO, "'%s': a device; a file is wanted", path);
}

dt_status dt__open_file(dt_ctx *ctx, const char *path, int *descriptor, int64_t *size)
{
    do *descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    while (*descriptor < 0 && errno == EINTR);
    if (*descriptor < 0) return dt__file_fail(ctx, "open", path, errno);
    const dt_status s = check(ctx, path, *descriptor, size);
    if (s == DT_OK) return DT_OK;
    close(*descriptor);
    *descriptor = -1;
    return s;
}
