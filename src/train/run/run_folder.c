/* run.dir: created with the resolved recipe, or opened again with the same recipe; and
 * metrics.jsonl, which is append-only, but truncated to the checkpoint when a run resumes. */
#include "core/system/atomic_file.h"
#include "core/text/json.h"
#include "core/system/system_calls.h"
#include "train/run/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- small files ---------------------------------------------------------------------------- */

dt_status dt__run_write(dt__run *r, const char *name, const char *text, size_t bytes)
{
    char path[DT__RUN_PATH];
    DT__TRY(dt__run_path(r, name, path));
    return dt__file_replace(r->ctx, path, &(const dt__span){ text, bytes }, 1);
}

dt_status dt__run_write_shown(dt__run *r, const char *name, const dt__chars *text)
{
    char path[DT__RUN_PATH];
    if (text->failed) return DT_ERR_NOMEM;
    DT__TRY(dt__run_path(r, name, path));
    return dt__file_replace_unsynced(r->ctx, path, &(const dt__span){ text->bytes, text->used }, 1);
}

/* The recipe with every value and its origin, as text. */
static dt_status resolve(dt__run *r, char **out)
{
    dt__chars t = { .ctx = r->ctx };
    const dt_status status = dt_recipe_show(r->recipe, dt__collect, &t);
    *out = status == DT_OK ? (char *)(uintptr_t)dt__chars_text(&t) : NULL;
    if (*out != NULL) return DT_OK;
    dt__release(r->ctx, t.bytes);
    return status == DT_OK ? DT_ERR_NOMEM : status;
}

/* ---- a new folder --------------------------------------------------------------------------- */

dt_status dt__run_make_parents(dt_ctx *ctx, const char *path)
{
    char part[DT__RUN_PATH];
    for (size_t i = 1; path[i] != 0; i++) {
        if (path[i] != '/' || i >= sizeof part) continue;
        if (path[i + strspn(path + i, "/")] == 0) break;
        memcpy(part, path, i);
        part[i] = 0;
        const int error = dt__make_folder(part);
        if (error != 0 && error != EEXIST) {
            return dt__file_fail(ctx, "make the folder", part, error);
        }
    }
    return DT_OK;
}

dt_status dt__run_is_unbegun(dt_ctx *ctx, const char *dir, bool *unbegun)
{
    DIR *folder = dt__sys_open_folder(dir);
    const struct dirent *e = NULL;
    *unbegun = false;
    if (folder == NULL && (errno == ENOENT || errno == ENOTDIR)) return DT_OK;
    if (folder == NULL) return dt__file_fail(ctx, "open the folder", dir, errno);
    while ((e = dt__sys_next_entry(folder)) != NULL) {
        const char *name = e->d_name;
        const bool parent = strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
        if (!parent && strncmp(name, ".detent-", 8) != 0) break;
    }
    const int error = e == NULL ? errno : 0;
    closedir(folder);
    *unbegun = e == NULL;
    return error == 0 ? DT_OK : dt__file_fail(ctx, "read the folder", dir, error);
}

#define EXISTS "'%s' exists; --resume goes on with it, run.dir=NAME begins another"

void dt__run_predict_folder(dt__run *r)
{
    const char *dir = r->o->run.dir;
    struct stat found;
    if (stat(dir, &found) == 0) dt__say(r->ctx, "without --dry-run, an error: " EXISTS, dir);
}

static dt_status begin(dt__run *r)
{
    r->summary->begun = true;
    DT__TRY(resolve(r, &r->files.resolved));
    return dt__run_write(r, "recipe.yaml", r->files.resolved, strlen(r->files.resolved));
}

static dt_status make_folder(dt__run *r)
{
    const char *dir = r->o->run.dir;
    struct stat found;
    r->summary->begun = true;
    if (stat(dir, &found) == 0) errno = EEXIST;
    else {
        DT__TRY(dt__run_make_parents(r->ctx, dir));
        errno = dt__make_folder(dir);
    }
    if (errno == EEXIST) {
        return dt_recipe_refuse(r->recipe, "run.dir", EXISTS, dir);
    }
    if (errno != 0) return dt__file_fail(r->ctx, "make the folder", dir, errno);
    const dt_status status = begin(r);
    if (status != DT_OK) rmdir(dir);
    return status;
}

/* ---- an existing folder -------------------------------------------------------------------- */

static dt_status read_recipe(dt__run *r, dt_recipe **out)
{
    char path[DT__RUN_PATH];
    struct stat found;
    DT__TRY(dt__run_path(r, "recipe.yaml", path));
    if (stat(path, &found) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        return dt_recipe_refuse(r->recipe, "run.dir", "'%s' has no run to resume: there is no %s",
                                r->o->run.dir, path);
    }
    const dt_recipe_source source = { .path = path, .leave_files = true, .saved = true };
    return dt_recipe_read(r->ctx, &source, out);
}

static dt_status take_text(dt__run *r, const dt_recipe *before)
{
    r->files.rewrite = *dt__recipe_difference(r->recipe, before, true) != 0;
    if (r->files.rewrite) return resolve(r, &r->files.resolved);
    dt__chars t = { .ctx = r->ctx };
    char path[DT__RUN_PATH], buffer[4096];
    DT__TRY(dt__run_path(r, "recipe.yaml", path));
    const int file = dt__sys_open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = -1;
    while (file >= 0 && (n = dt__sys_read(file, buffer, sizeof buffer)) > 0)
        dt__put(&t, buffer, (size_t)n);
    const int error = errno;
    if (file >= 0) dt__sys_close(file);
    r->files.resolved = (char *)(uintptr_t)dt__chars_text(&t);
    if (n < 0) return dt__file_fail(r->ctx, "read", path, error);
    return r->files.resolved == NULL ? DT_ERR_NOMEM : DT_OK;
}

dt_status dt__run_keep_recipe(dt__run *r)
{
    if (!r->files.rewrite || !dt__run_writes(r)) return DT_OK;
    return dt__run_write(r, "recipe.yaml", r->files.resolved, strlen(r->files.resolved));
}

static dt_status find_folder(dt__run *r)
{
    dt_recipe *before = NULL;
    dt_status status = read_recipe(r, &before);
    if (status == DT_OK) {
        const char *path = dt__recipe_difference(r->recipe, before, false);
        if (*path != 0) {
            status = dt_recipe_refuse(r->recipe, path,
                                      "'%s' differs from the run's; resuming, only %s may change",
                                      path, dt__recipe_resumable(r->recipe));
        }
    }
    r->summary->begun = status == DT_OK;
    if (status == DT_OK) status = take_text(r, before);
    dt_recipe_free(before);
    return status;
}

/* ---- metrics.jsonl -------------------------------------------------------------------------- */

static dt_status open_metrics(dt__run *r)
{
    char path[DT__RUN_PATH];
    struct stat found;
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    DT__TRY(dt__run_path(r, "metrics.jsonl", path));
    r->files.metrics = dt__sys_open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC);
    if (r->files.metrics < 0) return dt__file_fail(r->ctx, "open", path, errno);
    if (fstat(r->files.metrics, &found) != 0 || !S_ISREG(found.st_mode)) {
        return dt_fail(r->ctx, DT_ERR_IO, "cannot write '%s': it is not a regular file", path);
    }
    if (fcntl(r->files.metrics, F_SETLK, &whole) != 0 && (errno == EACCES || errno == EAGAIN)) {
        return dt_fail(r->ctx, DT_ERR_STATE,
                       "another process trains in '%s'; wait for its end, or give another run.dir",
                       r->o->run.dir);
    }
    return DT_OK;
}

static dt_status go_on(dt__run *r)
{
    bool unbegun;
    DT__TRY(dt__run_is_unbegun(r->ctx, r->o->run.dir, &unbegun));
    return unbegun ? begin(r) : find_folder(r);
}

dt_status dt__run_folder(dt__run *r)
{
    if (!r->control.resume) DT__TRY(make_folder(r));
    else DT__TRY(go_on(r));
    DT__TRY(open_metrics(r));
    const char *const folders[] = { r->o->run.dir, r->files.checkpoints[DT__MAIN],
                                    r->files.checkpoints[DT__BASELINE] };
    for (int i = 0; i < DT__COUNT_OF(folders) && r->control.resume; i++) {
        dt__file_remove_left(folders[i]);
    }
    return DT_OK;
}

dt_status dt__run_name_folders(dt__run *r)
{
    const char *dir = r->o->run.dir;
    r->files.checkpoints[DT__MAIN] = dt__format_string(r->ctx, "%s/checkpoints", dir);
    r->files.checkpoints[DT__BASELINE] = dt__format_string(r->ctx, "%s/checkpoints/baseline", dir);
    return r->files.checkpoints[0] == NULL || r->files.checkpoints[1] == NULL ? DT_ERR_NOMEM
                                                                              : DT_OK;
}

dt_status dt__run_append(dt__run *r, const char *line, size_t bytes)
{
    if (!dt__run_writes(r)) return DT_OK;
    while (bytes > 0) {
        const ssize_t n = dt__sys_write(r->files.metrics, line, bytes);
        if (n < 0) return dt__file_fail(r->ctx, "write", "metrics.jsonl", errno);
        line += n;
        bytes -= (size_t)n;
    }
    return DT_OK;
}

dt_status dt__run_sync(dt__run *r)
{
    if (dt__sys_sync(r->files.metrics) == 0) return DT_OK;
    return dt__file_fail(r->ctx, "write", "metrics.jsonl", errno);
}

/* The offset after `lines` lines, or after the last line if there are fewer. */
static dt_status find_line(dt__run *r, int64_t lines, off_t *end)
{
    char buffer[4096];
    off_t at = 0;
    *end = 0;
    while (lines > 0) {
        const ssize_t n = dt__sys_read_at(r->files.metrics, buffer, sizeof buffer, at);
        if (n < 0) return dt__file_fail(r->ctx, "read", "metrics.jsonl", errno);
        if (n == 0) break;
        for (ssize_t i = 0; i < n && lines > 0; i++) {
            if (buffer[i] != '\n') continue;
            *end = at + i + 1;
            lines--;
        }
        at += n;
    }
    if (lines > 0)
        dt__say(r->ctx, "metrics.jsonl lacks %lld line%s", (long long)lines, lines == 1 ? "" : "s");
    return DT_OK;
}

dt_status dt__run_truncate(dt__run *r, int64_t lines)
{
    off_t end;
    if (!dt__run_writes(r)) return DT_OK;
    DT__TRY(find_line(r, lines, &end));
    if (dt__sys_truncate(r->files.metrics, end) == 0) return DT_OK;
    return dt__file_fail(r->ctx, "cut", "metrics.jsonl", errno);
}
