/* Atomic creation of folders: filled under a temporary name, synced, renamed. An existing empty
 * folder is replaced, anything else is refused. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "io/new_folder.h"

#include "core/atomic_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_TRIES 1000

static dt_status too_long(const dt__new_folder *f)
{
    return dt_fail(f->ctx, DT_ERR_IO, "%s: the path is too long", dt__path_tail(f->path));
}

static dt_status check_empty(const dt__new_folder *f)
{
    DIR *folder = opendir(f->target);
    if (folder == NULL) return dt__file_fail(f->ctx, "write", f->path, errno);
    bool empty = true;
    for (const struct dirent *e = readdir(folder); e != NULL && empty; e = readdir(folder)) {
        empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    }
    closedir(folder);
    if (empty) return DT_OK;
    return dt_fail(f->ctx, DT_ERR_IO, "%s: is there and not empty; give a new folder",
                   dt__path_tail(f->path));
}

static dt_status resolve(dt__new_folder *f)
{
    struct stat about;
    size_t n = strlen(f->path);
    if (n == 0) return dt_fail(f->ctx, DT_ERR_IO, "the path of a new folder is empty");
    while (n > 1 && f->path[n - 1] == '/') n--;
    if (n >= sizeof f->target) return too_long(f);
    memcpy(f->target, f->path, n);
    f->target[n] = 0;
    if (lstat(f->target, &about) != 0) {
        return errno == ENOENT ? DT_OK : dt__file_fail(f->ctx, "write", f->path, errno);
    }
    if (realpath(f->path, f->target) == NULL)
        return dt__file_fail(f->ctx, "follow the link", f->path, errno);
    if (stat(f->target, &about) != 0) return dt__file_fail(f->ctx, "write", f->path, errno);
    if (S_ISDIR(about.st_mode)) return check_empty(f);
    return dt_fail(f->ctx, DT_ERR_IO, "%s: is there and no folder", dt__path_tail(f->path));
}

dt_status dt__folder_begin(dt_ctx *ctx, const char *path, dt__new_folder *f)
{
    *f = (dt__new_folder){ .ctx = ctx, .path = path };
    DT__TRY(resolve(f));
    for (int i = 0; i < MOST_TRIES; i++) {
        const int n = snprintf(f->temporary, sizeof f->temporary, "%s.tmp-%ld-%d", f->target,
                               (long)getpid(), i);
        if (n < 0 || (size_t)n >= sizeof f->temporary) break;
        if (mkdir(f->temporary, 0777) == 0) return DT_OK;
        if (errno == EEXIST) continue;
        f->temporary[0] = 0;
        return dt__file_fail(ctx, "create a folder beside it", path, errno);
    }
    f->temporary[0] = 0;
    return too_long(f);
}

const char *dt__folder_file(dt__new_folder *f, const char *name)
{
    const int n = snprintf(f->file, sizeof f->file, "%s/%s", f->temporary, name);
    if (n < 0 || (size_t)n >= sizeof f->file || f->n == DT__FOLDER_FILES) {
        too_long(f);
        return NULL;
    }
    f->name[f->n++] = name;
    return f->file;
}

/* The name survives a power failure once the parent folder is synced. Some file systems cannot sync
 * folders (EINVAL); that is accepted. */
static dt_status sync_around(dt__new_folder *f)
{
    char *slash = strrchr(f->target, '/');
    if (slash != NULL) slash[slash == f->target ? 1 : 0] = 0;
    const int folder = open(slash == NULL ? "." : f->target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return dt__file_fail(f->ctx, "open the folder around", f->path, errno);
    const bool good = fsync(folder) == 0 || errno == EINVAL;
    const dt_status s =
        good ? DT_OK : dt__file_fail(f->ctx, "make sure that it lasts", f->path, errno);
    close(folder);
    return s;
}

dt_status dt__folder_commit(dt__new_folder *f)
{
    if (rename(f->temporary, f->target) != 0) {
        return dt__file_fail(f->ctx, "rename the new folder to it", f->path, errno);
    }
    f->temporary[0] = 0;
    return sync_around(f);
}

void dt__folder_abandon(dt__new_folder *f)
{
    if (f->temporary[0] == 0) return;
    for (int i = 0; i < f->n; i++) {
        const int n = snprintf(f->file, sizeof f->file, "%s/%s", f->temporary, f->name[i]);
        if (n > 0 && (size_t)n < sizeof f->file) unlink(f->file);
    }
    rmdir(f->temporary);
    f->temporary[0] = 0;
}
