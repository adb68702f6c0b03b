/* Atomic writing of files: a file is written under a temporary name in the same folder, synced,
 * renamed, and the folder is synced. Until the rename an existing file of that name is unchanged. A
 * link is followed, so that it stays a link.
 *
 * The temporary file of `name` is .detent-name-<number>.tmp. Its writer holds a lock on it (flock)
 * from its creation until it is renamed or removed; the system releases the lock when the writer
 * dies. So a process that gets the lock may remove the file: its writer was killed. A process id in
 * the name would not suffice, since it may have been reused. */
#define _DEFAULT_SOURCE /* realpath, flock */
#include "core/system/atomic_file.h"

#include "core/system/system_calls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE ((size_t)8 << 20)
#define MARK ".detent-"
#define ENDING ".tmp"
#define MOST_NAME 200   /* bytes of a file's name in the name of its temporary file */
#define MOST_TRIES 1000 /* numbers of temporary files */
/* numbers that are always checked for leftovers, even if a lower one is free */
#define SWEPT 4

const char *dt__path_tail(const char *path)
{
    const size_t length = strlen(path), most = DT__MESSAGE_SIZE / 2;
    return length <= most ? path : path + (length - most);
}

static bool is_of_machine(int error)
{
    static const int reasons[] = { EIO, ENOSPC, EDQUOT, EFBIG, EMFILE, ENFILE, ENOMEM };
    for (int i = 0; i < DT__COUNT_OF(reasons); i++) {
        if (error == reasons[i]) return true;
    }
    return false;
}

dt_status dt__file_fail(dt_ctx *ctx, const char *verb, const char *path, int error)
{
    char reason[128];
    if (strerror_r(error, reason, sizeof reason) != 0) {
        snprintf(reason, sizeof reason, "error %d", error);
    }
    dt_fail(ctx, DT_ERR_IO, "%s: cannot %s: %s", dt__path_tail(path), verb, reason);
    if (ctx != NULL) ctx->of_machine = is_of_machine(error);
    return DT_ERR_IO;
}

static dt_status fail(const dt__new_file *file, const char *verb)
{
    return dt__file_fail(file->ctx, verb, file->path, errno);
}

static dt_status fail_irregular(const dt__new_file *file)
{
    return dt_fail(file->ctx, DT_ERR_IO, "%s: cannot write: it is not a regular file",
                   dt__path_tail(file->path));
}

/* ---- begin ----------------------------------------------------------------------------------- */

/* The path with links resolved, where there is a file. A device must not be replaced. */
static dt_status resolve(dt__new_file *file, char target[PATH_MAX])
{
    struct stat about;
    if (lstat(file->path, &about) == 0) {
        if (realpath(file->path, target) == NULL || stat(target, &about) != 0) {
            return fail(file, "follow the link");
        }
        if (!S_ISREG(about.st_mode)) return fail_irregular(file);
        file->mode = about.st_mode & 07777;
        return DT_OK;
    }
    if (errno != ENOENT) return fail(file, "write");
    errno = ENAMETOOLONG;
    if (strlen(file->path) >= PATH_MAX) return fail(file, "write");
    strcpy(target, file->path);
    return DT_OK;
}

static dt_status open_folder(dt__new_file *file, char target[PATH_MAX])
{
    char *slash = strrchr(target, '/');
    const char *name = slash == NULL ? target : slash + 1;
    if (*name == 0) return fail_irregular(file);
    errno = ENAMETOOLONG;
    if (strlen(name) >= sizeof file->name) return fail(file, "write");
    strcpy(file->name, name);
    if (slash != NULL) *slash = 0;
    const char *folder = slash == NULL ? "." : slash == target ? "/" : target;
    file->folder = dt__sys_open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return file->folder < 0 ? fail(file, "open the folder to write it") : DT_OK;
}

/* The name of temporary file i; a long name is cut, between two characters of UTF-8. */
static void name_temporary(const dt__new_file *file, int i, char name[DT__TEMPORARY])
{
    size_t n = strlen(file->name);
    if (n > MOST_NAME) n = MOST_NAME;
    while (n < strlen(file->name) && n > 0 && (file->name[n] & 0xc0) == 0x80) n--;
    snprintf(name, DT__TEMPORARY, MARK "%.*s-%d" ENDING, (int)n, file->name, i);
}

/* Whether `name` in the folder is the open file. */
static bool is_at(int folder, const char *name, int descriptor)
{
    struct stat named, opened;
    return fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstat(descriptor, &opened) == 0 && S_ISREG(opened.st_mode) &&
           named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

/* Removes a temporary file whose writer was killed. While this process has the lock, no other
 * process renames or removes the file, so `name` remains that file. Where the file system has no
 * locks, the file stays. The file may already have the permissions of the one that it should
 * replace, without write permission; some file systems lock only files opened for writing. */
static void remove_left(int folder, const char *name)
{
    const int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int left = dt__sys_open_at(folder, name, O_WRONLY | flags);
    if (left < 0 && errno == EACCES) left = dt__sys_open_at(folder, name, O_RDONLY | flags);
    if (left < 0) return;
    if (flock(left, LOCK_EX | LOCK_NB) == 0 && is_at(folder, name, left)) unlinkat(folder, name, 0);
    dt__sys_close(left);
}

/* Creates and locks a temporary file. False, with the reason in errno, EEXIST if the name is taken:
 * another program may remove a file that is not locked yet as a leftover. The lock has a descriptor
 * of its own, since the file is closed before it is renamed. */
static bool create(dt__new_file *file, const char *name)
{
    struct stat about;
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
    file->descriptor = dt__sys_open_at(file->folder, name, flags);
    if (file->descriptor < 0) return false;
    const bool locked = flock(file->descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (locked || (fstat(file->descriptor, &about) == 0 && about.st_nlink == 0)) {
        dt__sys_close(file->descriptor);
        file->descriptor = -1;
        errno = EEXIST;
        return false;
    }
    strcpy(file->temporary, name);
    file->lock = fcntl(file->descriptor, F_DUPFD_CLOEXEC, 0);
    return file->lock >= 0;
}

/* Takes the first free number, and removes files that killed programs left under other numbers. */
static dt_status open_temporary(dt__new_file *file)
{
    char name[DT__TEMPORARY];
    struct stat about;
    for (int i = 0; i < MOST_TRIES; i++) {
        name_temporary(file, i, name);
        const bool is_free = fstatat(file->folder, name, &about, AT_SYMLINK_NOFOLLOW) != 0;
        if (!is_free) remove_left(file->folder, name);
        if (file->descriptor < 0 && !create(file, name) && errno != EEXIST) break;
        if (is_free && file->descriptor >= 0 && i >= SWEPT) return DT_OK;
    }
    if (file->descriptor >= 0 && file->lock >= 0) return DT_OK;
    return fail(file, "create a file beside it");
}

static dt_status begin(dt__new_file *file)
{
    char target[PATH_MAX];
    DT__TRY(resolve(file, target));
    DT__TRY(open_folder(file, target));
    return open_temporary(file);
}

dt_status dt__file_begin(dt_ctx *ctx, const char *path, dt__new_file *file)
{
    *file = (dt__new_file){ .ctx = ctx, .path = path, .folder = -1, .descriptor = -1, .lock = -1 };
    const dt_status status = begin(file);
    if (status != DT_OK) dt__file_abandon(file);
    return status;
}

bool dt__file_is_same(const dt__new_file *a, const dt__new_file *b)
{
    struct stat of_a, of_b;
    return strcmp(a->name, b->name) == 0 && fstat(a->folder, &of_a) == 0 &&
           fstat(b->folder, &of_b) == 0 && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

/* ---- write, commit, abandon ------------------------------------------------------------------ */

/* Starts writing a full piece to the disk, and reports it as work that is done. */
static void tell_piece(const dt__new_file *file)
{
    if (!file->unsynced) dt__sys_write_behind(file->descriptor, (off_t)file->bytes, PIECE);
    if (file->counted) dt__did_work(file->ctx, DT__WRITE, (double)PIECE);
}

dt_status dt__file_write(dt__new_file *file, const void *data, size_t bytes)
{
    const char *from = data;
    while (bytes > 0) {
        const size_t room = PIECE - file->bytes % PIECE;
        const ssize_t n = dt__sys_write(file->descriptor, from, bytes < room ? bytes : room);
        if (n < 0) return fail(file, "write");
        from += n;
        bytes -= (size_t)n;
        file->bytes += (size_t)n;
        if (file->bytes % PIECE == 0) tell_piece(file);
    }
    return DT_OK;
}

static dt_status finish(dt__new_file *file)
{
    if (file->mode != 0 && fchmod(file->descriptor, file->mode) != 0) {
        return fail(file, "keep the permissions");
    }
    if (!file->unsynced && dt__sys_sync(file->descriptor) != 0) return fail(file, "write");
    const size_t rest = file->bytes % PIECE;
    if (file->counted) dt__did_work(file->ctx, DT__WRITE, (double)rest);
    const int closed = dt__sys_close(file->descriptor);
    file->descriptor = -1;
    return closed == 0 ? DT_OK : fail(file, "write");
}

/* The rename survives a power failure only once the folder is synced. Some file systems cannot sync
 * folders (EINVAL); that is accepted. */
static dt_status take_place(dt__new_file *file)
{
    if (renameat(file->folder, file->temporary, file->folder, file->name) != 0) {
        return fail(file, "rename the new file to it");
    }
    file->temporary[0] = 0;
    if (file->unsynced || dt__sys_sync(file->folder) == 0 || errno == EINVAL) return DT_OK;
    return fail(file, "sync its folder");
}

dt_status dt__file_commit(dt__new_file *file)
{
    dt_status status = finish(file);
    if (status == DT_OK) status = take_place(file);
    dt__file_abandon(file);
    return status;
}

void dt__file_abandon(dt__new_file *file)
{
    if (file->descriptor >= 0) dt__sys_close(file->descriptor);
    if (file->temporary[0] != 0) unlinkat(file->folder, file->temporary, 0);
    if (file->lock >= 0) dt__sys_close(file->lock);
    if (file->folder >= 0) dt__sys_close(file->folder);
    file->descriptor = file->lock = file->folder = -1;
    file->temporary[0] = 0;
}

static dt_status replace(dt_ctx *ctx, const char *path, const dt__span *span, int64_t count,
                         bool unsynced)
{
    dt__new_file file;
    DT__TRY(dt__file_begin(ctx, path, &file));
    file.unsynced = unsynced;
    size_t bytes = 0;
    for (int64_t i = 0; i < count; i++) bytes += span[i].bytes;
    file.counted = ctx != NULL && bytes >= PIECE;
    if (file.counted) dt__plan_work(ctx, DT__WRITE, (double)bytes);
    for (int64_t i = 0; i < count; i++) {
        const dt_status status = dt__file_write(&file, span[i].data, span[i].bytes);
        if (status == DT_OK) continue;
        dt__file_abandon(&file);
        return status;
    }
    return dt__file_commit(&file);
}

dt_status dt__file_replace(dt_ctx *ctx, const char *path, const dt__span *span, int64_t count)
{
    return replace(ctx, path, span, count, false);
}

dt_status dt__file_replace_unsynced(dt_ctx *ctx, const char *path, const dt__span *span,
                                    int64_t count)
{
    return replace(ctx, path, span, count, true);
}

/* ---- what was left --------------------------------------------------------------------------- */

static bool is_temporary(const char *name)
{
    const size_t n = strlen(name), mark = strlen(MARK), ending = strlen(ENDING);
    return n > mark + ending && strncmp(name, MARK, mark) == 0 &&
           strcmp(name + n - ending, ENDING) == 0;
}

void dt__file_remove_left(const char *path)
{
    DIR *folder = dt__sys_open_folder(path);
    if (folder == NULL) return;
    for (const struct dirent *e = readdir(folder); e != NULL; e = readdir(folder)) {
        if (is_temporary(e->d_name)) remove_left(dirfd(folder), e->d_name);
    }
    closedir(folder);
}

/* ---- folders --------------------------------------------------------------------------------- */

int dt__sync_around(const char *path)
{
    char around[PATH_MAX];
    size_t n = strlen(path);
    if (n >= sizeof around) return ENAMETOOLONG;
    while (n > 1 && path[n - 1] == '/') n--;
    while (n > 0 && path[n - 1] != '/') n--;
    memcpy(around, path, n);
    around[n] = 0;
    const int folder = dt__sys_open(n == 0 ? "." : around, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return errno;
    const int error = dt__sys_sync(folder) == 0 || errno == EINVAL ? 0 : errno;
    dt__sys_close(folder);
    return error;
}

int dt__make_folder(const char *path)
{
    return mkdir(path, 0777) == 0 ? dt__sync_around(path) : errno;
}
