/* Replaces a file atomically: writes a new one beside it, syncs it, renames it, and syncs the
 * folder. Until the rename the old file is unchanged. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "io/replace_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_TRIES 1000

const char *dt__path_tail(const char *path)
{
    const size_t length = strlen(path), most = DT__MESSAGE_SIZE / 2;
    return length <= most ? path : path + (length - most);
}

dt_status dt__fail_os(dt_ctx *ctx, const char *path, const char *what)
{
    const int error = errno;
    char text[128];
    if (strerror_r(error, text, sizeof text) != 0) snprintf(text, sizeof text, "error %d", error);
    return dt_fail(ctx, DT_ERR_IO, "%s: cannot %s: %s", dt__path_tail(path), what, text);
}

typedef struct work {
    dt_ctx *ctx;
    const char *path;      /* as the caller gave it, for messages */
    char target[PATH_MAX]; /* the folder, links resolved; then the name */
    const char *name;      /* within target, after the folder */
    char temporary[64];    /* name in the same folder; "" if there is none */
    mode_t mode;           /* permissions of the old file; 0: none */
    int folder, descriptor;
} work;

static dt_status no_file(const work *w)
{
    return dt_fail(w->ctx, DT_ERR_IO, "%s: cannot write: there is something that is no file",
                   dt__path_tail(w->path));
}

/* Resolves the path of the new file. A device must not be replaced, and neither should a link. */
static dt_status resolve(work *w)
{
    struct stat about;
    if (lstat(w->path, &about) == 0) {
        if (realpath(w->path, w->target) == NULL || stat(w->target, &about) != 0) {
            return dt__fail_os(w->ctx, w->path, "follow the link");
        }
        if (!S_ISREG(about.st_mode)) return no_file(w);
        w->mode = about.st_mode & 07777;
        return DT_OK;
    }
    if (errno != ENOENT) return dt__fail_os(w->ctx, w->path, "write");
    errno = ENAMETOOLONG;
    if (strlen(w->path) >= sizeof w->target) return dt__fail_os(w->ctx, w->path, "write");
    strcpy(w->target, w->path);
    return DT_OK;
}

static dt_status open_folder(work *w)
{
    char *slash = strrchr(w->target, '/');
    w->name = slash == NULL ? w->target : slash + 1;
    if (*w->name == 0) return no_file(w);
    const char *folder = slash == NULL ? "." : slash == w->target ? "/" : w->target;
    if (slash != NULL) *slash = 0;
    w->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return w->folder < 0 ? dt__fail_os(w->ctx, w->path, "open the folder") : DT_OK;
}

static dt_status open_temporary(work *w)
{
    for (int i = 0; i < MOST_TRIES; i++) {
        snprintf(w->temporary, sizeof w->temporary, ".detent-%ld-%d.tmp", (long)getpid(), i);
        w->descriptor =
            openat(w->folder, w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->descriptor >= 0 || errno != EEXIST) break;
    }
    if (w->descriptor >= 0) return DT_OK;
    w->temporary[0] = 0;
    return dt__fail_os(w->ctx, w->path, "create a file beside it");
}

static dt_status write_span(const work *w, const dt__span *span)
{
    const char *at = span->data;
    size_t left = span->bytes;
    while (left > 0) {
        const ssize_t n = write(w->descriptor, at, left);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return dt__fail_os(w->ctx, w->path, "write");
        at += n;
        left -= (size_t)n;
    }
    return DT_OK;
}

static dt_status write_spans(work *w, const dt__span *span, int64_t count)
{
    for (int64_t i = 0; i < count; i++) DT__TRY(write_span(w, &span[i]));
    if (w->mode != 0 && fchmod(w->descriptor, w->mode) != 0) {
        return dt__fail_os(w->ctx, w->path, "keep the permissions");
    }
    if (fsync(w->descriptor) != 0) return dt__fail_os(w->ctx, w->path, "write");
    const int closed = close(w->descriptor);
    w->descriptor = -1;
    return closed == 0 ? DT_OK : dt__fail_os(w->ctx, w->path, "write");
}

/* Some file systems cannot sync a folder (EINVAL); that is accepted. */
static dt_status take_place(work *w)
{
    if (renameat(w->folder, w->temporary, w->folder, w->name) != 0) {
        return dt__fail_os(w->ctx, w->path, "rename the new file to it");
    }
    w->temporary[0] = 0;
    if (fsync(w->folder) == 0 || errno == EINVAL) return DT_OK;
    return dt__fail_os(w->ctx, w->path, "make sure that the new name lasts");
}

static dt_status replace(work *w, const dt__span *span, int64_t count)
{
    DT__TRY(resolve(w));
    DT__TRY(open_folder(w));
    DT__TRY(open_temporary(w));
    DT__TRY(write_spans(w, span, count));
    return take_place(w);
}

dt_status dt__replace_file(dt_ctx *ctx, const char *path, const dt__span *span, int64_t count)
{
    work w = { .ctx = ctx, .path = path, .folder = -1, .descriptor = -1 };
    const dt_status status = replace(&w, span, count);
    if (w.descriptor >= 0) close(w.descriptor);
    if (w.temporary[0] != 0) unlinkat(w.folder, w.temporary, 0);
    if (w.folder >= 0) close(w.folder);
    return status;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether a folder holds `file`, under any name, among those that models and tokenizers are read
 * from. */
static bool holds(const char *folder, const struct stat *file)
{
    DIR *open = opendir(folder);
    bool found = false;
    for (struct dirent *e = NULL; open != NULL && !found && (e = readdir(open)) != NULL;) {
        struct stat s;
        const char *end = strrchr(e->d_name, '.');
        if (end == NULL || (strcmp(end, ".safetensors") != 0 && strcmp(end, ".json") != 0))
            continue;
        found = fstatat(dirfd(open), e->d_name, &s, 0) == 0 && is_same(&s, file);
    }
    if (open != NULL) closedir(open);
    return found;
}

dt_status dt__file_apart(dt_ctx *ctx, const char *to, const char *from)
{
    struct stat a, b;
    if (from == NULL || stat(to, &a) != 0 || stat(from, &b) != 0) return DT_OK;
    const bool is_folder = S_ISDIR(b.st_mode);
    if (is_folder ? !holds(from, &a) : !is_same(&a, &b)) return DT_OK;
    return dt_fail(ctx, DT_ERR_IO,
                   "%s: would be written over: it is %sread; another output is wanted",
                   dt__path_tail(to), is_folder ? "in the folder that is " : "");
}
