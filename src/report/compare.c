/* dt_report_compare: runs side by side for a terminal. */
#include "core/utf8.h"
#include "report/parts.h"

#include <detent/report.h>
#include <math.h>
#include <string.h>

#define GAP 2
#define LEAST 8 /* columns of a value */

typedef struct comparing {
    dt__chars *t;
    const dt__page_run *runs;
    int n;
    int label, value; /* columns */
} comparing;

/* ---- cells ---------------------------------------------------------------------------------- */

/* A text cut to the columns, with spaces behind it unless it is the line's last. Control characters
 * become '?'. */
static void put_cell(dt__chars *t, const char *text, int columns, bool last)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + strlen(text);
    int length = 0, shown = 0;
    for (const unsigned char *c = at; c < end; c++) length += (*c & 0xc0) != 0x80;
    const int most = length > columns ? columns - 1 : columns;
    for (; at < end && shown < most; shown++) {
        const int n = dt__utf8_length(at, end);
        if (n == 0 || *at < 0x20 || *at == 0x7f) dt__put_text(t, "?");
        else dt__put(t, (const char *)at, (size_t)n);
        at += n == 0 ? 1 : n;
    }
    if (length > columns) dt__put_text(t, "…");
    shown += length > columns;
    for (; !last && shown < columns + GAP; shown++) dt__put_text(t, " ");
}

static void end_line(const comparing *c) { dt__put_text(c->t, "\n"); }

/* ---- rows ----------------------------------------------------------------------------------- */

static void put_names(const comparing *c)
{
    put_cell(c->t, "run", c->label, false);
    for (int i = 0; i < c->n; i++) {
        put_cell(c->t, c->runs[i].name, c->value, i == c->n - 1);
    }
    end_line(c);
}

static void put_key(const comparing *c, const char *path)
{
    put_cell(c->t, path, c->label, false);
    for (int i = 0; i < c->n; i++) {
        const char *value = dt__page_key_of(&c->runs[i], path);
        put_cell(c->t, *value != 0 ? value : "-", c->value, i == c->n - 1);
    }
    end_line(c);
}

static int64_t put_keys(const comparing *c)
{
    int64_t shown = 0;
    for (int i = 0; i < c->n; i++) {
        for (int64_t k = 0; k < c->runs[i].n_keys; k++) {
            const char *path = c->runs[i].key[k].path;
            const bool once = dt__page_key_is_new(c->runs, i, path);
            if (!once || !dt__page_key_differs(c->runs, c->n, path)) continue;
            put_key(c, path);
            shown++;
        }
    }
    return shown;
}

/* Writes a value as text, to be cut and filled up. */
typedef void (*put_value)(dt__chars *t, const dt__page_run *r, const char *row);

static void put_metric(dt__chars *t, const dt__page_run *r, const char *row)
{
    const dt__page_metric m = dt__page_first_metric(r);
    const double value = dt__field_number(dt__field(r->summary.root, row), m.name);
    dt__put_metric(t, &m, value);
}

static void put_size(dt__chars *t, const dt__page_run *r, const char *row)
{
    const double bytes = dt__field_number(dt__field(r->summary.root, row), "bytes");
    if (isfinite(bytes)) dt__page(t, "%b", dt__whole(bytes));
    else dt__put_text(t, "-");
}

static void put_seconds(dt__chars *t, const dt__page_run *r, const char *row)
{
    (void)row;
    dt__page(t, "%g s", dt__field_number(r->machine.root, "seconds"));
}

static void put_title(dt__chars *t, const dt__page_run *r, const char *row)
{
    (void)row;
    dt__put_text(t, dt__page_first_metric(r).title);
}

static void put_row(const comparing *c, const char *label, put_value value, const char *row)
{
    put_cell(c->t, label, c->label, false);
    for (int i = 0; i < c->n; i++) {
        dt__chars text = { .ctx = c->t->ctx };
        value(&text, &c->runs[i], row);
        const char *read = dt__chars_text(&text);
        if (read == NULL) c->t->failed = true;
        else put_cell(c->t, read, c->value, i == c->n - 1);
        dt__release(c->t->ctx, text.bytes);
    }
    end_line(c);
}

static void put_results(const comparing *c)
{
    put_row(c, "metric", put_title, NULL);
    put_row(c, "float", put_metric, "float");
    put_row(c, "ptq", put_metric, "ptq");
    put_row(c, "qat", put_metric, "qat");
    put_row(c, "converted", put_metric, "converted");
    put_row(c, "float bytes", put_size, "float");
    put_row(c, "converted bytes", put_size, "converted");
    put_row(c, "time", put_seconds, NULL);
}

/* The longest key that is shown, at most half of the line. */
static int label_columns(const comparing *c, int columns)
{
    int most = 15;
    for (int i = 0; i < c->n; i++) {
        for (int64_t k = 0; k < c->runs[i].n_keys; k++) {
            const char *path = c->runs[i].key[k].path;
            const int length = (int)strlen(path);
            if (length > most && dt__page_key_differs(c->runs, c->n, path)) most = length;
        }
    }
    return most < columns / 2 ? most : columns / 2;
}

dt_status dt_report_compare(dt_ctx *ctx, const char *const *runs, int n, int columns, dt_sink sink,
                            void *user)
{
    dt__page_run *read;
    dt__chars t = { .ctx = ctx };
    if (columns < 40) columns = 40;
    DT__TRY(dt__page_runs_open(ctx, runs, n, 2, &read));
    comparing c = { .t = &t, .runs = read, .n = n };
    c.label = label_columns(&c, columns);
    c.value = (columns - c.label) / n - GAP;
    if (c.value < LEAST) c.value = LEAST;
    put_names(&c);
    end_line(&c);
    if (put_keys(&c) == 0) dt__put_text(&t, "their recipes are the same\n");
    end_line(&c);
    put_results(&c);
    const dt_status s = t.failed ? DT_ERR_NOMEM : sink(user, t.bytes, t.used);
    dt__release(ctx, t.bytes);
    dt__page_runs_close(ctx, read, n);
    return s;
}
