#define _GNU_SOURCE /* tee */
#include "core/system/open_file.h"

#include "core/system/atomic_file.h"
#include "core/system/system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATIENCE 2000 /* milliseconds within which a pipe's writer must open it */
#define PAUSE 20

/* Whether the pipe contains bytes or a process has it open for writing. tee copies a byte to the
 * pipe `scratch` and leaves the bytes of `from` in place: for an empty pipe it returns 0 without a
 * writer and EAGAIN with one. */
static bool has_writer(int from, int scratch)
{
    const ssize_t n = tee(from, scratch, 1, SPLICE_F_NONBLOCK);
    return n > 0 || (n < 0 && errno == EAGAIN);
}

static bool writer_comes(int from, int scratch)
{
    for (int waited = 0; waited <= PATIENCE; waited += PAUSE) {
        if (has_writer(from, scratch)) return true;
        poll(NULL, 0, PAUSE);
    }
    return false;
}

/* Opening a pipe must not wait for a writer, but reading must: a writer may be slow, while a pipe
 * without a writer is refused. */
static dt_status await_writer(dt_ctx *ctx, const char *path, int descriptor)
{
    int scratch[2];
    if (pipe2(scratch, O_CLOEXEC) != 0) return dt__file_fail(ctx, "read", path, errno);
    const bool comes = writer_comes(descriptor, scratch[1]);
    dt__sys_close(scratch[0]);
    dt__sys_close(scratch[1]);
    if (!comes) {
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
    return dt_fail(ctx, DT_ERR_IO, "'%s': a device; expected a file", path);
}

bool dt__exists(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0;
}

bool dt__is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

dt_status dt__check_fetched(dt_ctx *ctx, const char *path, const void *bytes, size_t n)
{
    const size_t m = sizeof DT__LFS_POINTER - 1;
    if (n < m || memcmp(bytes, DT__LFS_POINTER, m) != 0) return DT_OK;
    return dt_fail(ctx, DT_ERR_FORMAT,
                   "'%s' is a pointer of Git LFS, not the file itself, which git lfs pull fetches",
                   path);
}

dt_status dt__open_file(dt_ctx *ctx, const char *path, int *descriptor, int64_t *size)
{
    *descriptor = dt__sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*descriptor < 0) return dt__file_fail(ctx, "open", path, errno);
    const dt_status s = check(ctx, path, *descriptor, size);
    if (s == DT_OK) return DT_OK;
    dt__sys_close(*descriptor);
    *descriptor = -1;
    return s;
}

dt_status dt__whole_size(dt_ctx *ctx, const char *path, int64_t bytes, size_t *size)
{
    if (dt__mul_size((uint64_t)bytes, 1, size)) return DT_OK;
    return dt_fail(ctx, DT_ERR_NOMEM, "%s: %lld bytes; the addresses of this machine end at %zu",
                   path, (long long)bytes, SIZE_MAX);
}
