/* Reads the folder of a run. Only its recipe is required. */
#include "report/page_run.h"

#include "core/system/atomic_file.h"
#include "core/text/json.h"
#include "core/system/system_calls.h"

#include <detent/experimental/report.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH 4096
#define RESULT_FILES 2 /* the first of the files: summary.json and machine.json */

/* ---- files ---------------------------------------------------------------------------------- */

/* Reads a file as text that ends with NUL; *bytes is -1 if there is none. */
static dt_status read_text(dt__page_run *r, const char *name, char **out, ssize_t *bytes)
{
    char path[PATH], buffer[1 << 14];
    dt__chars t = { .ctx = r->ctx };
    *out = NULL;
    *bytes = -1;
    const int length = snprintf(path, sizeof path, "%s/%s", r->dir, name);
    if (length < 0 || length >= PATH) {
        return dt_fail(r->ctx, DT_ERR_IO, "the path of '%s' in a run is too long", name);
    }
    const int file = dt__sys_open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 && (errno == ENOENT || errno == ENOTDIR)) return DT_OK;
    ssize_t n = -1;
    while (file >= 0 && (n = dt__sys_read(file, buffer, sizeof buffer)) > 0)
        dt__put(&t, buffer, (size_t)n);
    const int error = errno;
    if (file >= 0) dt__sys_close(file);
    *bytes = (ssize_t)t.used;
    *out = (char *)(uintptr_t)dt__chars_text(&t);
    if (n >= 0 && *out != NULL) return DT_OK;
    dt__release(r->ctx, t.bytes);
    *out = NULL;
    return n < 0 ? dt__file_fail(r->ctx, "read", path, error) : DT_ERR_NOMEM;
}

static void note_damage(dt__page_run *r, const char *name)
{
    const size_t used = strlen(r->damaged);
    snprintf(r->damaged + used, sizeof r->damaged - used, "%s%s", used > 0 ? ", " : "", name);
}

/* Reads a JSON file. If it is damaged, the page names it and leaves it out. */
static dt_status read_json(dt__page_run *r, const char *name, dt__tree *out)
{
    char *text;
    ssize_t bytes;
    *out = (dt__tree){ .ctx = r->ctx };
    DT__TRY(read_text(r, name, &text, &bytes));
    if (bytes < 0) return DT_OK;
    const dt_status s = dt__tree_read(r->ctx, name, text, (size_t)bytes, out);
    dt__release(r->ctx, text);
    if (s == DT_ERR_FORMAT) note_damage(r, name);
    return s == DT_ERR_FORMAT ? DT_OK : s;
}

/* ---- metrics.jsonl -------------------------------------------------------------------------- */

const dt__series *dt__page_series(const dt__page_run *r, const char *name, const char *layer,
                                  dt__page_phase phase)
{
    for (int64_t i = 0; i < r->n_series; i++) {
        const dt__series *s = &r->series[i];
        const bool same_layer =
            layer == NULL ? s->layer == NULL : s->layer != NULL && strcmp(s->layer, layer) == 0;
        if (same_layer && s->phase == phase && strcmp(s->name, name) == 0) return s;
    }
    return NULL;
}

static dt_status new_series(dt__page_run *r, const char *name, const char *layer,
                            dt__page_phase phase, dt__series **out)
{
    DT__TRY(DT__RESERVE(r->ctx, r->series, r->n_series, r->room_series));
    dt__series *s = *out = &r->series[r->n_series];
    *s = (dt__series){ .phase = phase };
    snprintf(s->name, sizeof s->name, "%s", name);
    if (layer != NULL) s->layer = dt__copy_string(r->ctx, layer);
    if (layer != NULL && s->layer == NULL) return DT_ERR_NOMEM;
    r->n_series++;
    return DT_OK;
}

typedef struct point {
    const char *layer;
    dt__page_phase phase;
    double step;
} point;

static dt_status add_point(dt__page_run *r, const point *p, const char *name, double y)
{
    dt__series *s = (dt__series *)(uintptr_t)dt__page_series(r, name, p->layer, p->phase);
    if (!isfinite(y) || !isfinite(p->step)) return DT_OK;
    if (s == NULL) DT__TRY(new_series(r, name, p->layer, p->phase, &s));
    DT__TRY(DT__RESERVE(r->ctx, s->x, s->n, s->room));
    DT__TRY(DT__RESERVE(r->ctx, s->y, s->n, s->room_y));
    s->x[s->n] = p->step;
    s->y[s->n++] = y;
    return DT_OK;
}

/* Adds the figures of a layer, such as weight.snr. */
static dt_status add_layer(dt__page_run *r, point p, const dt__branch *layer)
{
    static const char *const sides[] = { "weight", "input" };
    static const char *const figures[] = { "snr", "clipped", "dead" };
    char name[32];
    p.layer = dt__field_text(layer, "path");
    for (int i = 0; i < DT__COUNT_OF(sides); i++) {
        const dt__branch *side = dt__field(layer, sides[i]);
        for (int k = 0; k < DT__COUNT_OF(figures); k++) {
            snprintf(name, sizeof name, "%s.%s", sides[i], figures[k]);
            DT__TRY(add_point(r, &p, name, dt__field_number(side, figures[k])));
        }
    }
    return DT_OK;
}

static dt__page_phase phase_of(const char *name)
{
    if (strcmp(name, "baseline") == 0) return DT__PAGE_BASELINE;
    return strcmp(name, "qat") == 0 ? DT__PAGE_QAT : DT__PAGE_FLOAT;
}

static dt_status add_line(dt__page_run *r, const dt__branch *line)
{
    const dt__branch *layers = dt__children(dt__field(line, "layers"));
    point p = { .phase = phase_of(dt__field_text(line, "phase")),
                .step = dt__field_number(line, "step") };
    r->last_step = p.step;
    r->phase = p.phase;
    for (const dt__branch *v = dt__children(line); v != NULL; v = v->next) {
        if (v->type == DT__BRANCH_NUMBER && strcmp(v->name, "step") != 0) {
            DT__TRY(add_point(r, &p, v->name, v->number));
        }
    }
    for (; layers != NULL; layers = layers->next) DT__TRY(add_layer(r, p, layers));
    return DT_OK;
}

/* Reads a line of metrics.jsonl. The last one may not be `whole` while a run writes it. */
static dt_status read_line(dt__page_run *r, const char *line, size_t n, bool whole)
{
    dt__tree t;
    dt_status s = dt__tree_read(r->ctx, "metrics.jsonl", line, n, &t);
    if (s == DT_ERR_FORMAT || (s == DT_OK && t.root->type != DT__BRANCH_MAP)) {
        r->bad_lines += whole;
        dt__tree_free(&t);
        return DT_OK;
    }
    if (s == DT_OK) s = add_line(r, t.root);
    r->lines++;
    if (s == DT_OK && dt__children(dt__field(t.root, "samples")) != NULL) {
        s = DT__RESERVE(r->ctx, r->samples, r->n_samples, r->room_samples);
        if (s == DT_OK) r->samples[r->n_samples++] = t;
        if (s == DT_OK) return DT_OK;
    }
    dt__tree_free(&t);
    return s;
}

static dt_status read_metrics(dt__page_run *r)
{
    char *text;
    ssize_t bytes;
    dt_status s = read_text(r, "metrics.jsonl", &text, &bytes);
    if (s != DT_OK || bytes < 0) return s;
    for (const char *line = text; *line != 0 && s == DT_OK;) {
        const size_t n = strcspn(line, "\n");
        s = read_line(r, line, n, line[n] == '\n');
        line += n + (line[n] != 0);
    }
    dt__release(r->ctx, text);
    if (r->bad_lines > 0) note_damage(r, "metrics.jsonl");
    return s;
}

double dt__page_qat_step(const dt__page_run *r)
{
    const double begin = dt__field_number(r->layers_begin.root, "step");
    const dt__series *first = dt__page_series(r, "loss", NULL, DT__PAGE_QAT);
    if (isfinite(begin)) return begin - 1;
    return first == NULL ? (double)NAN : first->x[0];
}

/* ---- a run ---------------------------------------------------------------------------------- */

const char *dt__page_tail(const char *dir, int parts)
{
    const char *c = dir + strlen(dir);
    while (c > dir && c[-1] == '/') c--;
    for (; c > dir; c--) {
        if (c[-1] == '/' && *c != '/' && --parts == 0) return c;
    }
    return dir;
}

/* Whether another run's folder has the same ending as that of run i. */
static bool is_shared(const dt__page_run *runs, int64_t n, int64_t i, int parts)
{
    const char *name = dt__page_tail(runs[i].dir, parts);
    for (int64_t k = 0; k < n && name > runs[i].dir; k++) {
        const bool other = strcmp(runs[k].dir, runs[i].dir) != 0;
        if (other && strcmp(dt__page_tail(runs[k].dir, parts), name) == 0) return true;
    }
    return false;
}

static void name_runs(dt__page_run *runs, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int parts = 1;
        while (is_shared(runs, n, i, parts)) parts++;
        runs[i].name = dt__page_tail(runs[i].dir, parts);
    }
}

static bool is_folder(const char *path)
{
    const int folder = dt__sys_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) dt__sys_close(folder);
    return folder >= 0;
}

/* A sweep with run.dir=X is in X-sweep. */
static dt_status refuse(const dt__page_run *r)
{
    char sweep[PATH];
    if (is_folder(r->dir)) {
        return dt_fail(r->ctx, DT_ERR_IO, "'%s' is not a run: it has no recipe.yaml", r->dir);
    }
    snprintf(sweep, sizeof sweep, "%s-sweep", r->dir);
    if (is_folder(sweep)) {
        return dt_fail(r->ctx, DT_ERR_IO, "'%s' is not a run: there is no such folder, but '%s'",
                       r->dir, sweep);
    }
    const int file = dt__sys_open(r->dir, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0) dt__sys_close(file);
    return dt_fail(r->ctx, DT_ERR_IO, "'%s' is not a run: %s", r->dir,
                   file >= 0 ? "it is not a folder" : "there is no such folder");
}

static dt_status read_recipe(dt__page_run *r)
{
    ssize_t bytes;
    DT__TRY(read_text(r, "recipe.yaml", &r->recipe, &bytes));
    if (bytes >= 0) return dt__page_read_recipe(r);
    return refuse(r);
}

static dt_status open_run(dt_ctx *ctx, const char *dir, bool whole, dt__page_run *out)
{
    *out = (dt__page_run){ .ctx = ctx, .dir = dir, .name = dt__page_tail(dir, 1) };
    const struct {
        const char *name;
        dt__tree *tree;
    } files[] = {
        { "summary.json", &out->summary },       { "machine.json", &out->machine },
        { "confusion.json", &out->confusion },   { "layers-begin.json", &out->layers_begin },
        { "layers-end.json", &out->layers_end }, { "sensitivity.json", &out->sensitivity },
        { "examples.json", &out->examples },     { "columns.json", &out->columns },
    };
    const int n = whole ? DT__COUNT_OF(files) : RESULT_FILES;
    dt_status s = read_recipe(out);
    if (s == DT_OK && whole) s = read_metrics(out);
    for (int i = 0; i < n && s == DT_OK; i++) s = read_json(out, files[i].name, files[i].tree);
    if (s != DT_OK) dt__page_run_close(out);
    return s;
}

dt_status dt__page_run_open(dt_ctx *ctx, const char *dir, dt__page_run *out)
{
    return open_run(ctx, dir, true, out);
}

void dt__page_run_close(dt__page_run *r)
{
    dt__tree *const trees[] = { &r->summary,    &r->machine,     &r->confusion, &r->layers_begin,
                                &r->layers_end, &r->sensitivity, &r->examples,  &r->columns };
    for (int i = 0; i < DT__COUNT_OF(trees); i++) dt__tree_free(trees[i]);
    for (int64_t i = 0; i < r->n_series; i++) {
        DT__RELEASE(r->ctx, r->series[i].layer, r->series[i].x, r->series[i].y);
    }
    for (int64_t i = 0; i < r->n_samples; i++) dt__tree_free(&r->samples[i]);
    DT__RELEASE(r->ctx, r->samples, r->series, r->key, r->values, r->recipe);
    *r = (dt__page_run){ .ctx = r->ctx };
}

dt_status dt__page_runs_open(dt_ctx *ctx, const char *const *dirs, int64_t n, int64_t whole,
                             dt__page_run **out)
{
    dt__page_run *runs = dt__alloc_zero(ctx, (size_t)dt__max_i64(1, n) * sizeof *runs);
    *out = NULL;
    if (runs == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++) {
        const dt_status s = open_run(ctx, dirs[i], i < whole, &runs[i]);
        if (s == DT_OK) continue;
        dt__page_runs_close(ctx, runs, i);
        return s;
    }
    name_runs(runs, n);
    *out = runs;
    return DT_OK;
}

void dt__page_runs_close(dt_ctx *ctx, dt__page_run *runs, int64_t n)
{
    for (int64_t i = 0; i < n && runs != NULL; i++) dt__page_run_close(&runs[i]);
    dt__release(ctx, runs);
}
