/* Atomic creation of files: a file is written under a temporary name in the same folder, synced,
 * renamed, and the folder is synced. Until the rename an existing file of that name is
 * unchanged. */
#include "core/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ATTEMPTS 100

dt_status dt__file_fail(dt_ctx *ctx, const char *verb, const char *path, int error)
{
    char reason[128];
    if (strerror_r(error, reason, sizeof reason) != 0) {
        snprintf(reason, sizeof reason, "error %d", error);
    }
    return dt_fail(ctx, DT_ERR_IO, "cannot %s '%s': %s", verb, path, reason);
}

/* A killed program may have left its temporary file; then the next number is tried. */
static dt_status open_temporary(dt__new_file *file)
{
    int error = EEXIST;
    for (int attempt = 0; attempt < ATTEMPTS && error == EEXIST; attempt++) {
        file->temporary =
            dt__format_string(file->ctx, "%s.tmp-%ld-%d", file->path, (long)getpid(), attempt);
        if (file->temporary == NULL) return DT_ERR_NOMEM;
        file->descriptor = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file->descriptor >= 0) return DT_OK;
        error = errno;
        dt__release(file->ctx, file->temporary);
        file->temporary = NULL;
    }
    return dt__file_fail(file->ctx, "create a temporary file beside", file->path, error);
}

dt_status dt__file_begin(dt_ctx *ctx, const char *path, dt__new_file *file)
{
    *file = (dt__new_file){ .ctx = ctx, .path = path, .descriptor = -1 };
    struct stat old;
    if (stat(path, &old) == 0 && !S_ISREG(old.st_mode)) {
        return dt_fail(ctx, DT_ERR_IO, "cannot write '%s': it is no regular file", path);
    }
    return open_temporary(file);
}

dt_status dt__file_write(dt__new_file *file, const void *data, size_t bytes)
{
    const char *from = data;
    while (bytes > 0) {
        const ssize_t n = write(file->descriptor, from, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return dt__file_fail(file->ctx, "write", file->path, errno);
        from += n;
        bytes -= (size_t)n;
    }
    return DT_OK;
}

/* The rename survives a power failure only once the folder is synced. Some file systems cannot sync
 * folders (EINVAL); that is accepted. */
static dt_status sync_folder(dt__new_file *file)
{
    const char *slash = strrchr(file->path, '/');
    const size_t length = slash == NULL ? 0 : (size_t)(slash - file->path) + 1;
    char *folder = file->temporary; /* starts with the folder; not needed as a name any more */
    if (length > 0) folder[length] = '\0';
    const int descriptor = open(length > 0 ? folder : ".", O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return dt__file_fail(file->ctx, "open the folder of", file->path, errno);
    const int error = fsync(descriptor) == 0 ? 0 : errno;
    close(descriptor);
    if (error != 0 && error != EINVAL) {
        return dt__file_fail(file->ctx, "sync the folder of", file->path, error);
    }
    return DT_OK;
}

static void forget(dt__new_file *file)
{
    if (file->descriptor >= 0) close(file->descriptor);
    file->descriptor = -1;
    dt__release(file->ctx, file->temporary);
    file->temporary = NULL;
}

void dt__file_abandon(dt__new_file *file)
{
    if (file->temporary == NULL) return;
    unlink(file->temporary);
    forget(file);
}

dt_status dt__file_commit(dt__new_file *file)
{
    int error = fsync(file->descriptor) == 0 ? 0 : errno;
    if (close(file->descriptor) != 0 && error == 0) error = errno;
    file->descriptor = -1;
    if (error == 0 && rename(file->temporary, file->path) != 0) error = errno;
    if (error != 0) {
        dt__file_abandon(file);
        return dt__file_fail(file->ctx, "write", file->path, error);
    }
    const dt_status status = sync_folder(file);
    forget(file);
    return status;
}
