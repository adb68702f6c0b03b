/* Atomic creation of folders: a folder is filled under a temporary name, synced, renamed. An
 * existing empty folder is replaced; any other path that exists is an error. */
#define _DEFAULT_SOURCE /* realpath, flock */
#include "io/model/new_folder.h"

#include "core/system/atomic_file.h"
#include "core/system/system_calls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_TRIES 1000
/* in a temporary folder's name, between the target's name and the process id */
#define MARK ".tmp-"

static dt_status too_long(const dt__new_folder *f)
{
    return dt_fail(f->ctx, DT_ERR_IO, "%s: the path is too long", dt__path_tail(f->path));
}

static dt_status check_empty(const dt__new_folder *f)
{
    DIR *folder = dt__sys_open_folder(f->target);
    if (folder == NULL) return dt__file_fail(f->ctx, "write", f->path, errno);
    bool empty = true;
    const struct dirent *e = NULL;
    while (empty && (e = dt__sys_next_entry(folder)) != NULL) {
        empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    }
    const int error = empty ? errno : 0;
    closedir(folder);
    if (error != 0) return dt__file_fail(f->ctx, "read the folder", f->path, error);
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
    return dt_fail(f->ctx, DT_ERR_IO, "%s: is there, and is not a folder", dt__path_tail(f->path));
}

/* Opens the folder and locks it; -1 if another program is filling it, or it is not a temporary
 * folder of this user. */
static int lock_folder(const char *path)
{
    const int folder = dt__sys_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 || flock(folder, LOCK_EX | LOCK_NB) == 0) return folder;
    dt__sys_close(folder);
    return -1;
}

/* Whether `name` is a temporary folder's for the target `base`. */
static bool is_temporary(const char *name, const char *base)
{
    const size_t n = strlen(base);
    if (strncmp(name, base, n) != 0 || strncmp(name + n, MARK, strlen(MARK)) != 0) return false;
    const char *at = name + n + strlen(MARK);
    const size_t first = strspn(at, "0123456789");
    if (first == 0 || at[first] != '-') return false;
    at += first + 1;
    return *at != 0 && at[strspn(at, "0123456789")] == 0;
}

/* Removes a temporary folder and its files, if the program that made it was killed. */
static void remove_left(const char *path)
{
    const int lock = lock_folder(path);
    DIR *folder = lock < 0 ? NULL : fdopendir(lock);
    if (folder == NULL) {
        if (lock >= 0) dt__sys_close(lock);
        return;
    }
    for (const struct dirent *e = readdir(folder); e != NULL; e = readdir(folder)) {
        unlinkat(lock, e->d_name, 0);
    }
    rmdir(path);
    closedir(folder);
}

/* Removes such folders beside the target. Errors are ignored. */
static void remove_all_left(const dt__new_folder *f)
{
    char around[PATH_MAX], path[PATH_MAX];
    const char *slash = strrchr(f->target, '/'), *base = slash == NULL ? f->target : slash + 1;
    const int n = slash == NULL ? 1 : (int)(slash - f->target + 1);
    snprintf(around, sizeof around, "%.*s", n, slash == NULL ? "." : f->target);
    DIR *folder = dt__sys_open_folder(around);
    if (folder == NULL) return;
    for (const struct dirent *e = readdir(folder); e != NULL; e = readdir(folder)) {
        if (!is_temporary(e->d_name, base)) continue;
        const int bytes = snprintf(path, sizeof path, "%s/%s", around, e->d_name);
        if (bytes > 0 && (size_t)bytes < sizeof path) remove_left(path);
    }
    closedir(folder);
}

static void unlock(dt__new_folder *f)
{
    if (f->lock >= 0) dt__sys_close(f->lock);
    f->lock = -1;
}

/* Makes and locks f->temporary. False, with the reason in errno. EEXIST: the name is taken, or
 * another program removed the folder before it was locked, as if its program had been killed. */
static bool create(dt__new_folder *f)
{
    struct stat about;
    if (mkdir(f->temporary, 0777) != 0) return false;
    f->lock = lock_folder(f->temporary);
    int reason = EEXIST;
    if (f->lock < 0 && errno != ENOENT && errno != EWOULDBLOCK) reason = errno;
    else if (f->lock >= 0 && fstat(f->lock, &about) != 0) reason = errno;
    else if (f->lock >= 0 && about.st_nlink > 0) return true;
    unlock(f);
    rmdir(f->temporary);
    errno = reason;
    return false;
}

dt_status dt__folder_begin(dt_ctx *ctx, const char *path, dt__new_folder *f)
{
    *f = (dt__new_folder){ .ctx = ctx, .path = path, .lock = -1 };
    DT__TRY(resolve(f));
    remove_all_left(f);
    for (int i = 0; i < MOST_TRIES; i++) {
        const int n = snprintf(f->temporary, sizeof f->temporary, "%s" MARK "%ld-%d", f->target,
                               (long)getpid(), i);
        if (n < 0 || (size_t)n >= sizeof f->temporary) break;
        if (create(f)) return DT_OK;
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

dt_status dt__folder_commit(dt__new_folder *f)
{
    if (rename(f->temporary, f->target) != 0) {
        return dt__file_fail(f->ctx, "rename the new folder to it", f->path, errno);
    }
    f->temporary[0] = 0;
    unlock(f);
    const int error = dt__sync_around(f->target);
    return error == 0 ? DT_OK : dt__file_fail(f->ctx, "make sure that it lasts", f->path, error);
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
    unlock(f);
}
