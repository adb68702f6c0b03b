/* report.h: a page about runs: one HTML file that needs nothing else, from what runs wrote. */
#ifndef DETENT_REPORT_H
#define DETENT_REPORT_H

#include <detent/detent.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_MOST_REPORTED 16

typedef struct dt_report_options {
    const char *output; /* the file to write; NULL: report.html in the folder of the first run */
    bool live;          /* the page asks a browser to read it again every few seconds */
} dt_report_options;

/* Writes a page about the runs in `n` folders (1 ... DT_MOST_REPORTED), whole or not at all. A run
 * may be under way or interrupted: the page shows what is there, and says what is not. `options`
 * NULL means the defaults. Errors: ARG (n), IO (a folder without recipe.yaml and metrics.jsonl; a
 * file that cannot be read or written), NOMEM. A damaged file of a run is not an error: the page
 * names it. */
DT_API dt_status dt_report_write(dt_ctx *ctx, const char *const *runs, int n,
                                 const dt_report_options *options);

/* Writes lines for a terminal of `columns` columns (at least 40): which keys of the runs' recipes
 * differ, and their results side by side. Errors: as dt_report_write, ARG (n below 2), those of the
 * sink. */
DT_API dt_status dt_report_compare(dt_ctx *ctx, const char *const *runs, int n, int columns,
                                   dt_sink sink, void *user);

#ifdef __cplusplus
}
#endif
#endif
