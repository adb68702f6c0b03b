/* Groups runs by recipe (run_cells.h). A hash of keys and values is compared first. */
#include "core/text/row_named.h"
#include "report/run_cells.h"

#include <detent/experimental/report.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Keys in which the runs of a cell may differ. */
static bool is_free(const char *path)
{
    static const char *const paths[] = { "run.dir", "run.seed", "run.threads", "data.split.fold",
                                         "run.report" };
    return DT__IS_ONE_OF(path, paths);
}

static uint64_t hash_text(uint64_t hash, const char *text) /* FNV-1a, with the NUL */
{
    do hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    while (*text++ != 0);
    return hash;
}

static uint64_t hash_of(const dt__page_run *r)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int64_t k = 0; k < r->n_keys; k++) {
        if (is_free(r->key[k].path)) continue;
        hash = hash_text(hash_text(hash, r->key[k].path), r->key[k].value);
    }
    return hash;
}

/* Whether all keys of a have the same values in b. */
static bool is_within(const dt__page_run *a, const dt__page_run *b)
{
    for (int64_t k = 0; k < a->n_keys; k++) {
        const dt__page_key *key = &a->key[k];
        if (is_free(key->path)) continue;
        if (strcmp(key->value, dt__page_key_of(b, key->path)) != 0) return false;
    }
    return true;
}

static bool same_repeat(const dt__page_run *a, const dt__page_run *b)
{
    static const char *const paths[] = { "run.seed", "data.split.fold" };
    for (int i = 0; i < DT__COUNT_OF(paths); i++) {
        if (strcmp(dt__page_key_of(a, paths[i]), dt__page_key_of(b, paths[i])) != 0) return false;
    }
    return true;
}

/* The run's name without "-seed3" or "-fold0" at its end. A long name is cut at its beginning. */
static void name_cell(dt__cell *cell, const dt__page_run *r, bool with_sweep)
{
    static const char *const repeats[] = { "-seed", "-fold" };
    const char *name = with_sweep ? dt__page_tail(r->dir, 2) : r->name;
    size_t n = strlen(name);
    for (int i = 0; i < DT__COUNT_OF(repeats); i++) {
        const char *at = strstr(dt__page_tail(name, 1), repeats[i]);
        const size_t digits = at == NULL ? 0 : strspn(at + 5, "-0123456789");
        if (at != NULL && at > name && at[5 + digits] == 0) n = (size_t)(at - name);
    }
    for (; n >= sizeof cell->name || ((unsigned char)*name & 0xc0) == 0x80; n--) name++;
    snprintf(cell->name, sizeof cell->name, "%.*s", (int)n, name);
}

/* Finds the cell of each run; -1: it is a copy of an earlier run. */
static dt_status group(dt__cells *c, const dt__page_run *runs, int64_t n, int64_t *cell_of)
{
    for (int64_t i = 0; i < n; i++) {
        const uint64_t hash = hash_of(&runs[i]);
        int64_t k = 0;
        while (k < c->n && (c->cell[k].hash != hash || !is_within(&runs[i], c->cell[k].run) ||
                            !is_within(c->cell[k].run, &runs[i]))) {
            k++;
        }
        if (k == c->n) {
            DT__TRY(DT__RESERVE(c->ctx, c->cell, c->n, c->room));
            c->cell[c->n] = (dt__cell){ .run = &runs[i], .hash = hash };
            name_cell(&c->cell[c->n++], &runs[i], c->list->sweeps > 1);
        }
        cell_of[i] = k;
        for (int64_t j = 0; j < i && cell_of[i] >= 0; j++) {
            if (cell_of[j] == k && same_repeat(&runs[i], &runs[j])) cell_of[i] = -1;
        }
        c->copies += cell_of[i] < 0;
    }
    return DT_OK;
}

static double result_of(const dt__page_run *r, int model, const char *metric)
{
    if (model == DT__CELL_FINAL) return dt__page_result(r, metric);
    return dt__page_row_result(r, model == DT__CELL_FLOAT ? "float" : "ptq", metric);
}

static void take_results(dt__cells *c, const dt__page_run *runs, int64_t n, const int64_t *cell_of,
                         double *value)
{
    for (int64_t k = 0; k < c->n; k++) {
        dt__cell *cell = &c->cell[k];
        for (int model = 0; model < DT__CELL_MODELS; model++) {
            int64_t found = 0;
            for (int64_t i = 0; i < n; i++) {
                if (cell_of[i] == k) value[found++] = result_of(&runs[i], model, c->metric.name);
            }
            cell->result[model] = dt__page_spread_of(value, found);
            cell->runs = found;
        }
        for (int64_t i = 0; i < n && cell->bytes == 0; i++) {
            if (cell_of[i] == k) cell->bytes = dt__page_bytes(&runs[i]);
        }
        cell->unfinished = cell->runs - cell->result[DT__CELL_FINAL].n;
    }
}

static void find_metric(dt__cells *c, const dt__page_run *runs, int64_t n)
{
    c->metric = (dt__page_metric){ "", "", "", 1, 4, false };
    for (int64_t i = 0; i < n && *c->metric.name == 0; i++) {
        c->metric = dt__page_first_metric(&runs[i]);
    }
    if (c->list->metric != NULL) c->metric = dt__page_metric_of(c->list->metric);
}

static void find_best(dt__cells *c)
{
    c->best = -1;
    if (!dt__page_metric_is_known(c->metric.name)) return;
    for (int64_t k = 0; k < c->n; k++) {
        const double mean = c->cell[k].result[DT__CELL_FINAL].mean;
        const double best =
            c->best < 0 ? (double)NAN : c->cell[c->best].result[DT__CELL_FINAL].mean;
        const bool better = c->metric.larger_is_better ? mean > best : mean < best;
        if (c->cell[k].result[DT__CELL_FINAL].n > 0 && (c->best < 0 || better)) c->best = k;
    }
}

static bool is_listed(const dt__cells *c, const char *path)
{
    return dt__row_named(c->key, c->n_keys, sizeof *c->key, path) != NULL;
}

static bool differs(const dt__cells *c, const char *path)
{
    const char *first = dt__page_key_of(c->cell[0].run, path);
    for (int64_t i = 1; i < c->n; i++) {
        if (strcmp(first, dt__page_key_of(c->cell[i].run, path)) != 0) return true;
    }
    return false;
}

static dt_status find_keys(dt__cells *c)
{
    for (int64_t i = 0; i < c->n; i++) {
        const dt__page_run *r = c->cell[i].run;
        for (int64_t k = 0; k < r->n_keys; k++) {
            const char *path = r->key[k].path;
            if (is_free(path) || is_listed(c, path) || !differs(c, path)) continue;
            DT__TRY(DT__RESERVE(c->ctx, c->key, c->n_keys, c->room_keys));
            c->key[c->n_keys++] = path;
        }
    }
    for (int64_t i = 0; i < c->n * c->n_keys && !c->lacks; i++) {
        c->lacks = *dt__page_key_of(c->cell[i / c->n_keys].run, c->key[i % c->n_keys]) == 0;
    }
    return DT_OK;
}

const char *dt__cells_heading(const dt__cells *c, int64_t key)
{
    const char *path = c->key[key], *dot = strrchr(path, '.'), *last = dot == NULL ? path : dot + 1;
    for (int64_t i = 0; i < c->n_keys; i++) {
        const char *other = c->key[i], *behind = strrchr(other, '.');
        if (i != key && strcmp(behind == NULL ? other : behind + 1, last) == 0) return path;
    }
    return last;
}

const char *dt__cells_value(const dt__cell *cell, const char *path)
{
    const char *value = dt__page_key_of(cell->run, path);
    return *value != 0 ? value : "–";
}

bool dt__cells_note(const dt__cells *c, int64_t i, char text[DT__CELLS_NOTE])
{
    const dt__run_list *l = c->list;
    text[0] = 0;
    if (i < l->n_left) {
        const dt__left_out *left = &l->left[i];
        snprintf(text, DT__CELLS_NOTE, "%s %s: %s", dt__page_tail(left->dir, l->sweeps > 1 ? 2 : 1),
                 left->failed ? "failed" : "cannot be", left->text);
    }
    i -= l->n_left;
    for (int64_t k = 0; k < c->n; k++) {
        const dt__cell *cell = &c->cell[k];
        if (cell->unfinished == 0 || i-- != 0) continue;
        snprintf(text, DT__CELLS_NOTE, "%s: %lld of %lld runs without a result", cell->name,
                 (long long)cell->unfinished, (long long)cell->runs);
    }
    if (c->copies > 0 && i-- == 0) {
        const bool one = c->copies == 1;
        snprintf(text, DT__CELLS_NOTE, "%lld run%s recipe and seed of %s, and %s counted once",
                 (long long)c->copies, one ? " repeats" : "s repeat", one ? "another" : "others",
                 one ? "is" : "are");
    }
    if (l->hidden > 0 && i-- == 0) {
        snprintf(text, DT__CELLS_NOTE, "%lld combination%s of values left out by exclude",
                 (long long)l->hidden, l->hidden == 1 ? "" : "s");
    }
    if (c->lacks && i == 0) snprintf(text, DT__CELLS_NOTE, "–: " DT__PAGE_LACKS);
    return *text != 0;
}

dt_status dt__cells_open(const dt__run_list *list, const dt__page_run *runs, dt__cells *out)
{
    *out = (dt__cells){ .ctx = list->ctx, .list = list, .best = -1 };
    int64_t *cell_of = dt__alloc_array(list->ctx, list->n, sizeof *cell_of);
    double *value = dt__alloc_array(list->ctx, list->n, sizeof *value);
    dt_status s = cell_of == NULL || value == NULL ? DT_ERR_NOMEM : DT_OK;
    if (s == DT_OK) s = group(out, runs, list->n, cell_of);
    find_metric(out, runs, list->n);
    if (s == DT_OK) {
        take_results(out, runs, list->n, cell_of, value);
        find_best(out);
        s = find_keys(out);
    }
    DT__RELEASE(list->ctx, cell_of, value);
    return s;
}

void dt__cells_close(dt__cells *c)
{
    DT__RELEASE(c->ctx, c->cell, c->key);
    *c = (dt__cells){ .ctx = c->ctx };
}
