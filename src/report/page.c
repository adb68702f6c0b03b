/* dt_report_write: the page of some runs. One run fills the page; several share a table and the
 * curves, and each has its own parts below. */
#include "core/system/atomic_file.h"
#include "report/parts.h"

#include <detent/report.h>
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

static dt_status write_page(dt_ctx *ctx, const dt__page_run *runs, int n,
                            const dt_report_options *o)
{
    char path[PATH];
    dt__chars t = { .ctx = ctx };
    const int length = o->output != NULL ? snprintf(path, PATH, "%s", o->output)
                                         : snprintf(path, PATH, "%s/report.html", runs[0].dir);
    if (length < 0 || length >= PATH)
        return dt_fail(ctx, DT_ERR_IO, "the report's path is too long");
    begin(&t, runs, n, o->live);
    if (n > 1) {
        put_several(&t, runs, n);
    } else {
        dt__part_head(&t, &runs[0]);
        dt__part_curves(&t, runs, 1);
        put_parts(&t, &runs[0]);
    }
    dt__page(&t, "<footer>detent %s</footer></main>\n<script>\n%r</script></body></html>\n",
             dt_version(), dt__page_js);
    const dt_status s =
        t.failed ? DT_ERR_NOMEM
                 : dt__file_replace_unsynced(ctx, path, &(const dt__span){ t.bytes, t.used }, 1);
    dt__release(ctx, t.bytes);
    return s;
}

dt_status dt_report_write(dt_ctx *ctx, const char *const *runs, int n,
                          const dt_report_options *options)
{
    DT__NEED(NULL, ctx);
    if (n > 0) DT__NEED(ctx, runs);
    for (int i = 0; i < n; i++) DT__NEED(ctx, runs[i]);
    const dt_report_options o = options != NULL ? *options : (dt_report_options){ 0 };
    dt__page_run *read;
    DT__TRY(dt__page_runs_open(ctx, runs, n, 1, &read));
    const dt_status s = write_page(ctx, read, n, &o);
    dt__page_runs_close(ctx, read, n);
    return s;
}
