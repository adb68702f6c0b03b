/* Lists the folders of runs in arguments, which may be sweeps (run_list.h).
 *
 *     SWEEP/plan.json     a sweep or a search
 *     SWEEP/NAME/         one of its runs: has recipe.yaml
 *     SWEEP/NAME.failed   why a run failed;  NAME.refused: why a recipe is not valid */
#include "report/run_list.h"
#include "core/comparisons.h"

#include "core/system/atomic_file.h"
#include "core/system/system_calls.h"
#include "core/text/json.h"
#include "report/page_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH 4096

static dt_status add_run(dt__run_list *l, const char *dir)
{
    DT__TRY(DT__RESERVE(l->ctx, l->dir, l->n, l->room));
    char *copy = l->dir[l->n] = dt__copy_string(l->ctx, dir);
    if (copy == NULL) return DT_ERR_NOMEM;
    l->n++;
    for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--) copy[n - 1] = 0;
    return DT_OK;
}

static dt_status path_of(dt_ctx *ctx, const char *dir, const char *name, char path[PATH])
{
    size_t length = strlen(dir);
    while (length > 1 && dir[length - 1] == '/') length--;
    const int n = snprintf(path, PATH, "%.*s/%s", (int)length, dir, name);
    if (n > 0 && n < PATH) return DT_OK;
    return dt_fail(ctx, DT_ERR_IO, "the path of '%s' in a sweep is too long", name);
}

/* The first line of a file; "" if it cannot be read. */
static void read_line(const char *path, char *line, size_t room)
{
    FILE *file = fopen(path, "rb");
    const size_t n = file == NULL ? 0 : fread(line, 1, room - 1, file);
    if (file != NULL) fclose(file);
    line[n] = 0;
    line[strcspn(line, "\n")] = 0;
    dt_text_clean(line);
}

/* Adds the path and message of NAME.failed or NAME.refused. */
static dt_status add_left(dt__run_list *l, const char *path, bool failed)
{
    char text[256];
    read_line(path, text, sizeof text);
    DT__TRY(DT__RESERVE(l->ctx, l->left, l->n_left, l->room_left));
    dt__left_out *left = &l->left[l->n_left];
    *left = (dt__left_out){ dt__copy_string(l->ctx, path), dt__copy_string(l->ctx, text), failed };
    l->n_left++; /* dt__run_list_close releases what is allocated so far */
    if (left->dir == NULL || left->text == NULL) return DT_ERR_NOMEM;
    *strrchr(left->dir, '.') = 0;
    return DT_OK;
}

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), k = strlen(end);
    return n > k && strcmp(name + n - k, end) == 0;
}

static dt_status take_entry(dt__run_list *l, const char *dir, const char *name)
{
    char path[PATH], recipe[PATH];
    if (name[0] == '.' || strcmp(name, "best") == 0) return DT_OK;
    DT__TRY(path_of(l->ctx, dir, name, path));
    if (ends_with(name, ".failed") || ends_with(name, ".refused")) {
        return add_left(l, path, ends_with(name, ".failed"));
    }
    if (path_of(l->ctx, path, "recipe.yaml", recipe) != DT_OK || access(recipe, F_OK) != 0) {
        return DT_OK;
    }
    return add_run(l, path);
}

/* Reads the sweep's metric and how many combinations its rules exclude, if the plan is readable. */
static dt_status read_plan(dt__run_list *l, const char *path)
{
    dt__chars t = { .ctx = l->ctx };
    dt__tree tree;
    char part[4096];
    FILE *file = fopen(path, "rb");
    if (file == NULL) return dt__file_fail(l->ctx, "open", path, errno);
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) dt__put(&t, part, n);
    fclose(file);
    dt_status s = dt__tree_read(l->ctx, path, t.bytes, t.used, &tree);
    dt__release(l->ctx, t.bytes);
    if (s != DT_OK) return s == DT_ERR_FORMAT ? DT_OK : s;
    const char *metric = dt__field_text(tree.root, "metric");
    if (l->metric == NULL && *metric != 0) {
        l->metric = dt__copy_string(l->ctx, metric);
        if (l->metric == NULL) s = DT_ERR_NOMEM;
    }
    l->hidden += dt__whole(dt__field_number(tree.root, "excluded"));
    dt__tree_free(&tree);
    return s;
}

static dt_status add_sweep(dt__run_list *l, const char *dir)
{
    const int64_t first = l->n, first_left = l->n_left;
    DIR *folder = dt__sys_open_folder(dir);
    if (folder == NULL) return dt__file_fail(l->ctx, "open", dir, errno);
    dt_status s = DT_OK;
    for (struct dirent *e; s == DT_OK && (e = dt__sys_next_entry(folder)) != NULL;) {
        s = take_entry(l, dir, e->d_name);
    }
    closedir(folder);
    l->sweeps++;
    if (s != DT_OK) return s;
    if (l->n == first && l->n_left == first_left) {
        return dt_fail(l->ctx, DT_ERR_IO, "the sweep '%s' has no run yet", dir);
    }
    if (l->n > first) qsort(l->dir + first, (size_t)(l->n - first), sizeof *l->dir, dt__by_text);
    if (l->n_left > first_left) {
        qsort(l->left + first_left, (size_t)(l->n_left - first_left), sizeof *l->left, dt__by_text);
    }
    return DT_OK;
}

dt_status dt__run_list_open(dt_ctx *ctx, const char *const *dirs, int n, dt__run_list *out)
{
    char plan[PATH];
    *out = (dt__run_list){ .ctx = ctx };
    for (int i = 0; i < n; i++) {
        DT__TRY(path_of(ctx, dirs[i], "plan.json", plan));
        if (access(plan, F_OK) != 0) {
            DT__TRY(add_run(out, dirs[i]));
        } else {
            DT__TRY(read_plan(out, plan));
            DT__TRY(add_sweep(out, dirs[i]));
        }
    }
    return DT_OK;
}

void dt__run_list_close(dt__run_list *l)
{
    for (int64_t i = 0; i < l->n; i++) dt__release(l->ctx, l->dir[i]);
    for (int64_t i = 0; i < l->n_left; i++) {
        DT__RELEASE(l->ctx, l->left[i].dir, l->left[i].text);
    }
    DT__RELEASE(l->ctx, l->dir, l->left, l->metric);
    *l = (dt__run_list){ .ctx = l->ctx };
}
