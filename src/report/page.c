/* dt_report_write: writes the page of some runs. A single run fills the page; several runs share a
 * table and curves, and each has its own parts below. */
#include "core/system/atomic_file.h"
#include "report/run_cells.h"

#include <detent/experimental/report.h>
#include <math.h>
#include <stdio.h>

#define RELOAD_SECONDS 3
#define PATH 4096

extern const char dt__page_css[], dt__page_js[]; /* src/report/html, by cmake/embed.cmake */

static void begin(dt__chars *t, const dt__page_run *runs, int n, bool live)
{
    dt__put_text(t, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                    "<meta name=\"color-scheme\" content=\"light dark\">\n"
                    "<meta name=\"generator\" content=\"detent report\">\n");
    if (live) {
        dt__page(t, "<meta http-equiv=\"refresh\" content=\"%d\">\n", (int64_t)RELOAD_SECONDS);
    }
    if (n == 1) dt__page(t, "<title>%s · detent</title>\n", runs[0].name);
    else dt__page(t, "<title>%i runs · detent</title>\n", (int64_t)n);
    dt__page(t, "<link rel=\"icon\" href=\"data:,\">\n<style>\n%r</style></head>\n<body><main>\n",
             dt__page_css);
}

static void put_parts(dt__chars *t, const dt__page_run *r)
{
    dt__part_columns(t, r);
    dt__part_layers(t, r);
    dt__part_sensitivity(t, r);
    dt__part_histograms(t, r);
    dt__part_examples(t, r);
    dt__part_samples(t, r);
    dt__part_confusion(t, r);
    dt__part_recipe(t, r);
}

static void put_several(dt__chars *t, const dt__page_run *runs, int n)
{
    dt__part_overview(t, runs, n);
    dt__part_curves(t, runs, n);
    dt__part_differences(t, runs, n);
    for (int i = 0; i < n; i++) {
        const char letter[] = { (char)('A' + i), 0 };
        dt__page(t,
                 "<details class=\"run\"><summary><span class=\"key c%d\">%r</span> %s</summary>\n",
                 (int64_t)(i % 8), letter, runs[i].name);
        dt__part_head(t, &runs[i]);
        put_parts(t, &runs[i]);
        dt__put_text(t, "</details>\n");
    }
}

/* The most cells of which a run is shown in full: as many as there are colours. */
#define MOST_WHOLE 8

static bool is_better(const dt__cells *c, int64_t a, int64_t b)
{
    const double x = c->cell[a].result[DT__CELL_FINAL].mean;
    const double y = c->cell[b].result[DT__CELL_FINAL].mean;
    if (isnan(x) || isnan(y)) return !isnan(x);
    return c->metric.larger_is_better ? x > y : x < y;
}

/* The first runs of the best cells, best first; where it is not known which values of the metric
 * are better, of the first cells. */
static int64_t choose(const dt__cells *c, const char *dir[MOST_WHOLE])
{
    int64_t order[MOST_WHOLE], n = 0;
    const bool known = dt__page_metric_is_known(c->metric.name);
    for (int64_t i = 0; i < c->n; i++) {
        int64_t k = n < MOST_WHOLE ? n++ : MOST_WHOLE;
        for (; known && k > 0 && is_better(c, i, order[k - 1]); k--) {
            if (k < MOST_WHOLE) order[k] = order[k - 1];
        }
        if (k < MOST_WHOLE) order[k] = i;
    }
    for (int64_t i = 0; i < n; i++) dir[i] = c->cell[order[i]].run->dir;
    return n;
}

/* Writes a page about many runs: the table of cells, plots, and the best runs in full. */
static dt_status put_many(dt__chars *t, const dt__run_list *list, const dt__page_run *runs)
{
    dt__cells cells;
    const char *dir[MOST_WHOLE];
    dt__page_run *best;
    dt_status s = dt__cells_open(list, runs, &cells);
    if (s == DT_OK) dt__part_cells(t, &cells);
    const int64_t n = s == DT_OK ? choose(&cells, dir) : 0;
    dt__cells_close(&cells);
    if (n == 0) return s;
    DT__TRY(dt__page_runs_open(t->ctx, dir, n, n, &best));
    dt__page(t, "<section id=\"best\"><h2>%r</h2></section>\n",
             n > 1 ? "A run of each of the best recipes" : "A run");
    put_several(t, best, (int)n);
    dt__page_runs_close(t->ctx, best, n);
    return DT_OK;
}

static dt_status put_body(dt__chars *t, const dt__run_list *list, const dt__page_run *runs)
{
    if (list->sweeps > 0 || list->n > DT_MOST_SIDES) return put_many(t, list, runs);
    if (list->n > 1) {
        dt__page(t, "<header><h1>%i runs</h1></header>\n", list->n);
        put_several(t, runs, (int)list->n);
        return DT_OK;
    }
    dt__part_head(t, &runs[0]);
    dt__part_curves(t, runs, 1);
    put_parts(t, &runs[0]);
    return DT_OK;
}

static dt_status write_page(const dt__run_list *list, const dt__page_run *runs, const char *first,
                            const dt_report_options *o)
{
    char path[PATH];
    dt_ctx *ctx = list->ctx;
    dt__chars t = { .ctx = ctx };
    const int length = o->output != NULL ? snprintf(path, PATH, "%s", o->output)
                                         : snprintf(path, PATH, "%s/report.html", first);
    if (length < 0 || length >= PATH)
        return dt_fail(ctx, DT_ERR_IO, "the report's path is too long");
    begin(&t, runs, (int)list->n, o->live);
    dt_status s = put_body(&t, list, runs);
    dt__page(&t, "<footer>detent %s</footer></main>\n<script>\n%r</script></body></html>\n",
             dt_version(), dt__page_js);
    if (s == DT_OK && t.failed) s = DT_ERR_NOMEM;
    if (s == DT_OK) {
        s = dt__file_replace_unsynced(ctx, path, &(const dt__span){ t.bytes, t.used }, 1);
    }
    dt__release(ctx, t.bytes);
    return s;
}

dt_status dt_report_write(dt_ctx *ctx, const char *const *runs, int n,
                          const dt_report_options *options)
{
    DT__NEED(NULL, ctx);
    if (n > 0) DT__NEED(ctx, runs);
    for (int i = 0; i < n; i++) DT__NEED(ctx, runs[i]);
    if (n < 1) return dt_fail(ctx, DT_ERR_ARG, "report: expected a run, not %d", n);
    const dt_report_options o = options != NULL ? *options : (dt_report_options){ 0 };
    dt__run_list list;
    dt__page_run *read = NULL;
    dt_status s = dt__run_list_open(ctx, runs, n, &list);
    const bool many = list.sweeps > 0 || list.n > DT_MOST_SIDES;
    const char *const *dirs = (const char *const *)list.dir;
    if (s == DT_OK) s = dt__page_runs_open(ctx, dirs, list.n, many ? 0 : list.n, &read);
    if (s == DT_OK) s = write_page(&list, read, runs[0], &o);
    dt__page_runs_close(ctx, read, list.n);
    dt__run_list_close(&list);
    return s;
}
