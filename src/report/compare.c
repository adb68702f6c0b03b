/* dt_report_compare: runs side by side for a terminal. */
#include "core/text/utf8.h"
#include "report/run_cells.h"

#include <detent/experimental/report.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define GAP 2
#define LEAST 8 /* least width of a value; results of several seeds are never cut */

typedef struct comparing {
    dt__chars *t;
    const dt__page_run *runs;  /* all runs: `seeds` for each column */
    const dt__page_run *first; /* the first run of each column, lent by `runs` */
    int n, seeds;              /* number of columns, and of runs in each */
    int from, to;              /* the columns of the present block */
    int label, value;          /* widths */
    double *numbers;           /* [seeds] scratch memory */
} comparing;

/* ---- cells ---------------------------------------------------------------------------------- */

/* Writes a text cut to a width, padded unless it is the last on its line; control characters become
 * '?'. */
static void put_cell(dt__chars *t, const char *text, int columns, bool last)
{
    char out[DT_TEXT_JSON];
    bool hidden;
    int length = 0, shown = 0;
    const char *const end = text + strlen(text);
    for (const char *c = text; c < end; c++) length += ((unsigned char)*c & 0xc0) != 0x80;
    const int most = length > columns ? columns - 1 : columns;
    for (; text < end && shown < most; shown++) {
        text += dt__visible(text, (size_t)(end - text), out, &hidden);
        dt__put_text(t, hidden ? "?" : out);
    }
    if (length > columns) dt__put_text(t, "…");
    shown += length > columns;
    for (; !last && shown < columns + GAP; shown++) dt__put_text(t, " ");
}

static void end_line(const comparing *c) { dt__put_text(c->t, "\n"); }

/* ---- rows ----------------------------------------------------------------------------------- */

/* Whether two names would become the same text if their ends were cut. */
static bool begin_alike(const comparing *c)
{
    for (int i = 1; i < c->n; i++) {
        const char *name = c->first[i].name, *before = c->first[i - 1].name;
        if (strcmp(name, before) != 0 && strncmp(name, before, (size_t)c->value - 1) == 0) {
            return true;
        }
    }
    return false;
}

/* Writes the names; if they begin alike, their beginnings are cut instead of their ends. */
static void put_names(const comparing *c)
{
    const bool alike = begin_alike(c);
    char end[512];
    put_cell(c->t, "run", c->label, false);
    for (int i = c->from; i < c->to; i++) {
        const char *name = c->first[i].name, *rest = name + strlen(name);
        for (int k = 1; k < c->value && rest > name; k++) {
            do rest--;
            while (rest > name && ((unsigned char)*rest & 0xc0) == 0x80);
        }
        snprintf(end, sizeof end, "…%s", rest);
        put_cell(c->t, alike && rest > name + 1 ? end : name, c->value, i == c->to - 1);
    }
    end_line(c);
}

static void put_key(const comparing *c, const char *path)
{
    put_cell(c->t, path, c->label, false);
    for (int i = c->from; i < c->to; i++) {
        const char *value = dt__page_key_of(&c->first[i], path);
        put_cell(c->t, *value != 0 ? value : "-", c->value, i == c->to - 1);
    }
    end_line(c);
}

static int64_t put_keys(const comparing *c)
{
    int64_t shown = 0;
    for (int i = 0; i < c->n; i++) {
        for (int64_t k = 0; k < c->first[i].n_keys; k++) {
            const char *path = c->first[i].key[k].path;
            const bool once = dt__page_key_is_new(c->first, i, path);
            if (!once || !dt__page_key_differs(c->first, c->n, path)) continue;
            put_key(c, path);
            shown++;
        }
    }
    return shown;
}

/* Whether put_key wrote a dash. */
static bool is_lacking(const comparing *c)
{
    for (int i = 0; i < c->n; i++) {
        for (int64_t k = 0; k < c->first[i].n_keys; k++) {
            const char *path = c->first[i].key[k].path;
            for (int j = 0; j < c->n; j++) {
                if (*dt__page_key_of(&c->first[j], path) == 0) return true;
            }
        }
    }
    return false;
}

/* A function that writes a value of a column; the caller cuts and pads it. `r`: the column's first
 * run. */
typedef void (*put_value)(const comparing *c, dt__chars *t, const dt__page_run *r, const char *row);

static void put_metric(const comparing *c, dt__chars *t, const dt__page_run *r, const char *row)
{
    const dt__page_metric m = dt__page_first_metric(r);
    for (int i = 0; i < c->seeds; i++) {
        c->numbers[i] = dt__field_number(dt__field(r[i].summary.root, row), m.name);
    }
    dt__put_spread(t, &m, dt__page_spread_of(c->numbers, c->seeds));
}

static void put_size(const comparing *c, dt__chars *t, const dt__page_run *r, const char *row)
{
    (void)c;
    const double bytes = dt__field_number(dt__field(r->summary.root, row), "bytes");
    if (isfinite(bytes)) dt__page(t, "%b", dt__whole(bytes));
    else dt__put_text(t, "-");
}

static void put_seconds(const comparing *c, dt__chars *t, const dt__page_run *r, const char *row)
{
    double seconds = 0;
    (void)row;
    for (int i = 0; i < c->seeds; i++) seconds += dt__field_number(r[i].machine.root, "seconds");
    dt__page(t, "%g s", seconds);
}

static void put_title(const comparing *c, dt__chars *t, const dt__page_run *r, const char *row)
{
    (void)c;
    (void)row;
    dt__put_text(t, dt__page_first_metric(r).title);
}

static void put_row(const comparing *c, const char *label, put_value value, const char *row)
{
    put_cell(c->t, label, c->label, false);
    for (int i = c->from; i < c->to; i++) {
        dt__chars text = { .ctx = c->t->ctx };
        value(c, &text, &c->runs[i * c->seeds], row);
        const char *read = dt__chars_text(&text);
        if (read == NULL) c->t->failed = true;
        else put_cell(c->t, read, c->value, i == c->to - 1);
        dt__release(c->t->ctx, text.bytes);
    }
    end_line(c);
}

/* Writes a row for one of the four models, with its name if that is the same in all runs. */
static void put_model(const comparing *c, const char *row)
{
    char label[DT__ROW_NAME], other[DT__ROW_NAME];
    dt__page_row_name(&c->runs[0], row, label);
    for (int i = 1; i < c->n * c->seeds; i++) {
        dt__page_row_name(&c->runs[i], row, other);
        if (strcmp(label, other) != 0) snprintf(label, sizeof label, "%s", row);
    }
    put_row(c, label, put_metric, row);
}

static void put_results(const comparing *c)
{
    put_row(c, "metric", put_title, NULL);
    put_model(c, "float");
    put_model(c, "ptq");
    put_model(c, "qat");
    put_model(c, "converted");
    put_row(c, "float bytes", put_size, "float");
    put_row(c, "converted bytes", put_size, "converted");
    put_row(c, "time", put_seconds, NULL);
}

/* The width of the longest result of several seeds, which is not cut since its end is the
 * spread. */
static int result_columns(const comparing *c)
{
    static const char *const rows[] = { "float", "ptq", "qat", "converted" };
    int most = LEAST;
    for (int i = 0; i < c->n && c->seeds > 1; i++) {
        for (int k = 0; k < DT__COUNT_OF(rows); k++) {
            dt__chars text = { .ctx = c->t->ctx };
            put_metric(c, &text, &c->runs[i * c->seeds], rows[k]);
            const char *read = dt__chars_text(&text);
            int length = 0;
            for (; read != NULL && *read != 0; read++)
                length += ((unsigned char)*read & 0xc0) != 0x80;
            if (length > most) most = length;
            dt__release(c->t->ctx, text.bytes);
        }
    }
    return most;
}

/* The width of the longest key that is shown, at most half of the line. */
static int label_columns(const comparing *c, int columns)
{
    int most = 18;
    for (int i = 0; i < c->n; i++) {
        for (int64_t k = 0; k < c->first[i].n_keys; k++) {
            const char *path = c->first[i].key[k].path;
            const int length = (int)strlen(path);
            if (length > most && dt__page_key_differs(c->first, c->n, path)) most = length;
        }
    }
    return most < columns / 2 ? most : columns / 2;
}

/* Checks that the runs of a column are seeds of one recipe. */
static dt_status check_seeds(dt_ctx *ctx, const dt__page_run *runs, int n)
{
    for (int64_t k = 0; k < runs[0].n_keys; k++) {
        const char *path = runs[0].key[k].path;
        if (strcmp(path, "run.seed") == 0 || !dt__page_key_differs(runs, n, path)) continue;
        return dt_fail(
            ctx, DT_ERR_ARG,
            "'%s' and the %d runs after it are not seeds of one recipe: they differ in %s",
            runs[0].name, n - 1, path);
    }
    return DT_OK;
}

/* Writes all rows of the columns that fit side by side. */
static void put_block(const comparing *c)
{
    if (c->from > 0) end_line(c);
    put_names(c);
    end_line(c);
    if (put_keys(c) == 0) dt__put_text(c->t, "their recipes are the same\n");
    end_line(c);
    put_results(c);
}

static dt_status compare(comparing *c, int columns)
{
    for (int i = 0; i < c->n; i++) {
        DT__TRY(check_seeds(c->t->ctx, &c->runs[i * c->seeds], c->seeds));
    }
    c->label = label_columns(c, columns);
    const int least = result_columns(c);
    const int fit = (columns - c->label) / (least + GAP), most = fit < 1 ? 1 : fit;
    const int side = c->n < most ? c->n : most;
    c->value = (columns - c->label) / side - GAP;
    for (c->from = 0; c->from < c->n; c->from = c->to) {
        c->to = c->from + side < c->n ? c->from + side : c->n;
        put_block(c);
    }
    if (c->seeds > 1) {
        dt__page(c->t, "mean ± standard deviation, %d seeds each\n", (int64_t)c->seeds);
    }
    if (is_lacking(c)) dt__put_text(c->t, "-: " DT__PAGE_LACKS "\n");
    return c->t->failed ? DT_ERR_NOMEM : DT_OK;
}

static dt_status compare_sides(const dt__run_list *list, const dt__page_run *runs, dt__chars *t,
                               const dt_compare_options *o)
{
    const int seeds = o->seeds > 0 ? o->seeds : 1;
    dt_ctx *ctx = list->ctx;
    if (list->n < 2) return dt_fail(ctx, DT_ERR_ARG, "expected at least 2 runs");
    if (list->n % seeds != 0) {
        return dt_fail(ctx, DT_ERR_ARG, "%lld runs are not a multiple of %d seeds",
                       (long long)list->n, seeds);
    }
    const int n = (int)(list->n / seeds);
    dt__page_run *first = dt__alloc_array(ctx, n, sizeof *first);
    double *numbers = dt__alloc_array(ctx, seeds, sizeof *numbers);
    dt_status s = first == NULL || numbers == NULL ? DT_ERR_NOMEM : DT_OK;
    comparing c = {
        .t = t, .runs = runs, .first = first, .n = n, .seeds = seeds, .numbers = numbers
    };
    for (int i = 0; i < n && s == DT_OK; i++) first[i] = runs[(int64_t)i * seeds];
    if (s == DT_OK) s = compare(&c, o->columns);
    DT__RELEASE(ctx, first, numbers);
    return s;
}

static dt_status compare_cells(const dt__run_list *list, const dt__page_run *runs, dt__chars *t,
                               const dt_compare_options *o)
{
    static const int forms[] = {
        [DT_COMPARE_AUTO] = DT__CELLS_TERMINAL,  [DT_COMPARE_SIDES] = DT__CELLS_TERMINAL,
        [DT_COMPARE_TABLE] = DT__CELLS_TERMINAL, [DT_COMPARE_CSV] = DT__CELLS_CSV,
        [DT_COMPARE_LATEX] = DT__CELLS_LATEX,    [DT_COMPARE_MARKDOWN] = DT__CELLS_MARKDOWN
    };
    dt__cells cells;
    const dt_status s = dt__cells_open(list, runs, &cells);
    if (s == DT_OK) dt__cells_put_text(t, &cells, forms[o->form], o->columns);
    dt__cells_close(&cells);
    return s == DT_OK && t->failed ? DT_ERR_NOMEM : s;
}

/* Whether runs are shown side by side, which is readable for a few of them, or as a row for each
 * recipe. */
static bool has_sides(const dt__run_list *list, const dt_compare_options *o)
{
    if (o->form != DT_COMPARE_AUTO) return o->form == DT_COMPARE_SIDES;
    return o->seeds > 0 || (list->sweeps == 0 && list->n <= DT_MOST_SIDES);
}

dt_status dt_report_compare(dt_ctx *ctx, const char *const *runs, int n,
                            const dt_compare_options *options, dt_sink sink, void *user)
{
    DT__NEED2(ctx, ctx, runs);
    for (int i = 0; i < n; i++) DT__NEED(ctx, runs[i]);
    dt_compare_options o = options != NULL ? *options : (dt_compare_options){ 0 };
    if (n < 1) return dt_fail(ctx, DT_ERR_ARG, "expected at least 2 runs, or a sweep");
    if (o.form < DT_COMPARE_AUTO || o.form > DT_COMPARE_MARKDOWN) {
        return dt_fail(ctx, DT_ERR_ARG, "%d is not a form", o.form);
    }
    o.columns = o.columns == 0 ? 80 : o.columns < 40 ? 40 : o.columns;
    dt__run_list list;
    dt__page_run *read = NULL;
    dt__chars t = { .ctx = ctx };
    dt_status s = dt__run_list_open(ctx, runs, n, &list);
    if (s == DT_OK) s = dt__page_runs_open(ctx, (const char *const *)list.dir, list.n, 0, &read);
    if (s == DT_OK) {
        s = has_sides(&list, &o) ? compare_sides(&list, read, &t, &o)
                                 : compare_cells(&list, read, &t, &o);
    }
    if (s == DT_OK) s = sink(user, t.bytes, t.used);
    dt__release(ctx, t.bytes);
    dt__page_runs_close(ctx, read, list.n);
    dt__run_list_close(&list);
    return s;
}
