/* Small files of a Hugging Face folder. Files outside of it are not read: a name contains no
 * separators, and a link must lead to a file in the folder itself or in `blobs`, where the hub's
 * cache keeps the targets of links in `snapshots/REVISION`. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "core/text/byte_mark.h"
#include "core/system/system_calls.h"
#include "io/hf/hf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether `path` is inside `folder`; both have no links. */
static bool is_within(const char *path, const char *folder)
{
    const size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && path[n] == '/';
}

/* For FOLDER = CACHE/snapshots/REVISION gives CACHE/blobs; else false. */
static bool find_blobs(const char *folder, char blobs[PATH_MAX])
{
    static const char snapshots[] = "/snapshots";
    const char *last = strrchr(folder, '/');
    const size_t n = last == NULL ? 0 : (size_t)(last - folder), tail = sizeof snapshots - 1;
    if (n <= tail || strncmp(folder + n - tail, snapshots, tail) != 0) return false;
    snprintf(blobs, PATH_MAX, "%.*s/blobs", (int)(n - tail), folder);
    return true;
}

static dt_status check_place(dt_ctx *ctx, const char *folder, const char *path)
{
    char base[PATH_MAX], target[PATH_MAX], blobs[PATH_MAX];
    if (realpath(folder, base) == NULL) return dt__file_fail(ctx, "open", folder, errno);
    if (realpath(path, target) == NULL) return dt__file_fail(ctx, "open", path, errno);
    if (is_within(target, base)) return DT_OK;
    if (find_blobs(base, blobs) && is_within(target, blobs)) return DT_OK;
    return dt_fail(ctx, DT_ERR_FORMAT, "%s: leads out of the folder, which is not followed",
                   dt__path_tail(path));
}

dt_status dt__hf_path(dt_ctx *ctx, const char *folder, const char *name, char **out)
{
    struct stat about;
    *out = NULL;
    char *path = dt__format_string(ctx, "%s/%s", folder, name);
    if (path == NULL) return DT_ERR_NOMEM;
    dt_status s = DT_OK;
    if (lstat(path, &about) != 0) {
        if (errno != ENOENT) s = dt__file_fail(ctx, "open", path, errno);
    } else {
        s = check_place(ctx, folder, path);
        if (s == DT_OK) *out = path;
    }
    if (*out == NULL) dt__release(ctx, path);
    return s;
}

static dt_status read_all(dt_ctx *ctx, const char *path, int descriptor, char *to, size_t bytes)
{
    size_t at = 0;
    while (at < bytes) {
        const ssize_t n = dt__sys_read(descriptor, to + at, bytes - at);
        if (n < 0) return dt__file_fail(ctx, "read", path, errno);
        if (n == 0)
            return dt_fail(ctx, DT_ERR_IO, "%s: became shorter while it was read",
                           dt__path_tail(path));
        at += (size_t)n;
    }
    to[bytes] = 0;
    return DT_OK;
}

static dt_status read_descriptor(dt_ctx *ctx, int descriptor, size_t most, dt__hf_text *out)
{
    struct stat about;
    if (fstat(descriptor, &about) != 0) return dt__file_fail(ctx, "read", out->path, errno);
    if (!S_ISREG(about.st_mode)) {
        return dt_fail(ctx, DT_ERR_IO, "%s: cannot read: not a regular file",
                       dt__path_tail(out->path));
    }
    if (about.st_size < 0 || (unsigned long long)about.st_size > most) {
        return dt_fail(ctx, DT_ERR_FORMAT, "%s: %lld bytes; %zu are the most that it may have",
                       dt__path_tail(out->path), (long long)about.st_size, most);
    }
    out->bytes = (size_t)about.st_size;
    char *text = dt__alloc(ctx, out->bytes + 1);
    out->text = text;
    if (text == NULL) return DT_ERR_NOMEM;
    return read_all(ctx, out->path, descriptor, text, out->bytes);
}

dt_status dt__hf_text_read(dt_ctx *ctx, const char *folder, const char *name, size_t most,
                           dt__hf_text *out)
{
    char *path;
    *out = (dt__hf_text){ .path = NULL };
    DT__TRY(dt__hf_path(ctx, folder, name, &path));
    if (path == NULL) return DT_OK;
    out->path = path;
    const int descriptor = dt__sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    dt_status s = descriptor < 0 ? dt__file_fail(ctx, "open", path, errno)
                                 : read_descriptor(ctx, descriptor, most, out);
    if (descriptor >= 0) dt__sys_close(descriptor);
    if (s != DT_OK) dt__hf_text_free(ctx, out);
    return s;
}

void dt__hf_text_free(dt_ctx *ctx, dt__hf_text *text)
{
    DT__RELEASE(ctx, (void *)(uintptr_t)text->text, (void *)(uintptr_t)text->path);
    *text = (dt__hf_text){ .path = NULL };
}

dt_status dt__hf_scan(dt_ctx *ctx, const dt__hf_text *text, dt__json *j, char **strings)
{
    size_t mark;
    *strings = NULL;
    DT__TRY(dt__skip_mark(ctx, dt__path_tail(text->path), text->text, text->bytes, &mark));
    *strings = dt__alloc_array(ctx, 2, text->bytes + 1); /* a text may be scanned twice */
    if (*strings == NULL) return DT_ERR_NOMEM;
    const unsigned char *begin = (const unsigned char *)text->text;
    *j = (dt__json){ .ctx = ctx,
                     .path = dt__path_tail(text->path),
                     .what = "the file",
                     .begin = begin + mark,
                     .at = begin + mark,
                     .end = begin + text->bytes,
                     .strings = *strings };
    return DT_OK;
}
