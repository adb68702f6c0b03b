#define _GNU_SOURCE /* sync_file_range */
#include "core/system/system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define ALL 8 /* pieces after which all earlier ones are waited for */

/* result = call, repeated while a signal interrupts it. */
#define AGAIN(result, call)                                                                        \
    do result = (call);                                                                            \
    while (result < 0 && errno == EINTR)

int dt__sys_open(const char *path, int flags) { return dt__sys_open_at(AT_FDCWD, path, flags); }

int dt__sys_open_at(int folder, const char *name, int flags)
{
    int file;
    AGAIN(file, openat(folder, name, flags, 0666));
    return file;
}

DIR *dt__sys_open_folder(const char *path)
{
    DIR *folder;
    do folder = opendir(path);
    while (folder == NULL && errno == EINTR);
    return folder;
}

struct dirent *dt__sys_next_entry(DIR *folder)
{
    errno = 0;
    return readdir(folder);
}

ssize_t dt__sys_read(int file, void *to, size_t bytes)
{
    ssize_t n;
    AGAIN(n, read(file, to, bytes));
    return n;
}

ssize_t dt__sys_read_at(int file, void *to, size_t bytes, off_t from)
{
    ssize_t n;
    AGAIN(n, pread(file, to, bytes, from));
    return n;
}

ssize_t dt__sys_write(int file, const void *data, size_t bytes)
{
    ssize_t n;
    AGAIN(n, write(file, data, bytes));
    return n;
}

int dt__sys_sync(int file)
{
    int status;
    AGAIN(status, fsync(file));
    return status;
}

void dt__sys_write_behind(int file, off_t end, off_t bytes)
{
#ifdef SYNC_FILE_RANGE_WRITE
    const unsigned wait = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER;
    if (end / bytes % ALL == 0) fdatasync(file);
    else sync_file_range(file, end - bytes, bytes, SYNC_FILE_RANGE_WRITE);
    if (end >= 2 * bytes) {
        sync_file_range(file, end - 2 * bytes, bytes, SYNC_FILE_RANGE_WRITE | wait);
    }
#else
    (void)file;
    (void)end;
    (void)bytes;
#endif
}

int dt__sys_truncate(int file, off_t size)
{
    int status;
    AGAIN(status, ftruncate(file, size));
    return status;
}

int dt__sys_close(int file)
{
    const int status = close(file);
    return status < 0 && errno == EINTR ? 0 : status;
}
