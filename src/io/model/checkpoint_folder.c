/* A folder of checkpoints, step-<10 digits>.safetensors: finds the newest good one, deletes old
 * ones. */
#include "core/system/system_calls.h"
#include "core/comparisons.h"
#include "io/safetensors/safetensors.h"

#include <detent/experimental/io.h>

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BEGIN "step-"
#define END ".safetensors"
#define DIGITS 10

typedef struct steps {
    dt_ctx *ctx;
    int64_t *at; /* sorted by dt__by_int64 */
    int64_t n, room;
} steps;

/* The step in a file's name; -1 if it is not a checkpoint's name. */
static int64_t step_of(const char *name)
{
    const size_t begin = strlen(BEGIN);
    if (strncmp(name, BEGIN, begin) != 0) return -1;
    const size_t digits = strspn(name + begin, "0123456789");
    if (digits < DIGITS || digits > 18 || strcmp(name + begin + digits, END) != 0) return -1;
    return strtoll(name + begin, NULL, 10);
}

static dt_status read_names(steps *s, DIR *dir, const char *folder)
{
    for (const struct dirent *e; (e = dt__sys_next_entry(dir)) != NULL;) {
        const int64_t step = step_of(e->d_name);
        if (step < 0) continue;
        DT__TRY(DT__RESERVE(s->ctx, s->at, s->n, s->room));
        s->at[s->n++] = step;
    }
    if (errno != 0) return dt__file_fail(s->ctx, "read the folder", folder, errno);
    if (s->n > 0) qsort(s->at, (size_t)s->n, sizeof s->at[0], dt__by_int64);
    return DT_OK;
}

static dt_status read_folder(steps *s, const char *folder)
{
    DIR *dir = dt__sys_open_folder(folder);
    if (dir == NULL) return dt__file_fail(s->ctx, "open the folder", folder, errno);
    const dt_status status = read_names(s, dir, folder);
    closedir(dir);
    return status;
}

static char *path_of(dt_ctx *ctx, const char *folder, int64_t step)
{
    return dt__format_string(ctx, "%s/" BEGIN "%0*lld" END, folder, DIGITS, (long long)step);
}

/* Called when the file of `step` is safely on disk. A checkpoint that cannot be deleted is a
 * warning. */
static dt_status prune(dt_ctx *ctx, const char *folder, int64_t step, int64_t keep)
{
    steps s = { .ctx = ctx };
    dt_status status = read_folder(&s, folder);
    int64_t older = 0;
    while (older < s.n && s.at[older] <= step) older++;
    for (int64_t i = 0; i < older - keep && status == DT_OK; i++) {
        char *path = path_of(ctx, folder, s.at[i]);
        if (path == NULL) {
            status = DT_ERR_NOMEM;
        } else if (unlink(path) != 0) {
            dt__file_fail(ctx, "delete", path, errno);
            dt__say(ctx, "warning: %s", dt_error(ctx));
        }
        dt__release(ctx, path);
    }
    dt__release(ctx, s.at);
    return status;
}

dt_status dt_checkpoint_save_step(const dt_training_state *s, const char *folder, int64_t step,
                                  int64_t keep)
{
    DT__NEED(NULL, s);
    dt_ctx *ctx = dt_module_ctx(s->module);
    DT__NEED2(ctx, ctx, folder);
    if (step < 0 || keep < 0) {
        return dt_fail(ctx, DT_ERR_ARG, "checkpoint: step %lld, keep %lld: neither may be negative",
                       (long long)step, (long long)keep);
    }
    const int error = dt__make_folder(folder);
    if (error != 0 && error != EEXIST) {
        return dt__file_fail(ctx, "make the folder", folder, error);
    }
    char *path = path_of(ctx, folder, step);
    if (path == NULL) return DT_ERR_NOMEM;
    dt_status status = dt_checkpoint_save(s, path);
    dt__release(ctx, path);
    if (status == DT_OK && keep > 0) status = prune(ctx, folder, step, keep);
    return status;
}

/* Checks structure and hash only; loading checks the rest. */
static dt_status try_file(dt_ctx *ctx, const char *path)
{
    dt_file *file;
    DT__TRY(dt_file_open(ctx, path, &file));
    const dt_status s = dt_file_check(file);
    dt_file_close(file);
    return s;
}

static dt_status find_newest(steps *s, const char *folder, char **path, int64_t *step)
{
    DT__TRY(read_folder(s, folder));
    for (int64_t i = s->n - 1; i >= 0; i--) {
        *path = path_of(s->ctx, folder, s->at[i]);
        if (*path == NULL) return DT_ERR_NOMEM;
        const dt_status status = try_file(s->ctx, *path);
        if (status == DT_OK && step != NULL) *step = s->at[i];
        const bool damaged = status == DT_ERR_FORMAT || status == DT_ERR_IO;
        if (!damaged || dt_error_of_machine(s->ctx)) return status;
        dt__say(s->ctx, "warning: %s; looking for the one before", dt_error(s->ctx));
        dt__release(s->ctx, *path);
        *path = NULL;
    }
    return dt_fail(s->ctx, DT_ERR_IO, "%s: no good checkpoint among %lld", folder, (long long)s->n);
}

dt_status dt_checkpoint_newest(dt_ctx *ctx, const char *folder, char *path, size_t size,
                               int64_t *step)
{
    DT__NEED2(ctx, ctx, folder);
    steps s = { .ctx = ctx };
    char *found = NULL;
    dt_status status = find_newest(&s, folder, &found, step);
    if (status == DT_OK && strlen(found) >= size) {
        status =
            dt_fail(ctx, DT_ERR_ARG, "checkpoint: '%s' does not fit into %zu bytes", found, size);
    }
    if (status == DT_OK) strcpy(path, found);
    DT__RELEASE(ctx, found, s.at);
    return status;
}
