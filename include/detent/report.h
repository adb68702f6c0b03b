/* report.h: a page about runs: one HTML file that needs nothing else, from what runs wrote. */
#ifndef DETENT_REPORT_H
#define DETENT_REPORT_H

#include <detent/detent.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most runs in one page or one comparison. */
#define DT_MOST_REPORTED 16

typedef struct dt_report_options {
    const char *output; /* the file to write; NULL: report.html in the folder of the first run */
    bool live;          /* the page makes a browser load it again every few seconds */
} dt_report_options;

/* Writes a page about the runs in `n` folders (1 ... DT_MOST_REPORTED), whole or not at all. A run
 * may be under way or interrupted: the page shows what is there, and says what is not. `options`
 * NULL means the defaults. Errors: ARG (n), IO (a folder without recipe.yaml and metrics.jsonl; a
 * file that cannot be read or written), NOMEM. A damaged file of a run is not an error: the page
 * names it. */
DT_API dt_status dt_report_write(dt_ctx *ctx, const char *const *runs, int n,
                                 const dt_report_options *options);

/* The mean of n results (those that are finite), and the standard deviation of the sample,
 * sqrt(sum (x - mean)^2 / (n - 1)). The mean of 0 results is NaN, the deviation of fewer than 2. */
typedef struct dt_spread {
    int64_t n;
    double mean, deviation;
} dt_spread;

typedef struct dt_compare_options {
    int columns; /* of the terminal, at least 40; 0: 80 */
    int seeds;   /* this many runs in a row are of one recipe, with several seeds; 0: 1 */
} dt_compare_options;

/* Writes lines for a terminal: which keys of the runs' recipes differ, and their results side by
 * side; of several seeds mean and standard deviation (dt_spread). `options` NULL means the
 * defaults. Errors: as dt_report_write, ARG (n below 2 or no multiple of seeds; runs of one recipe
 * that differ in more than run.seed), those of the sink. */
DT_API dt_status dt_report_compare(dt_ctx *ctx, const char *const *runs, int n,
                                   const dt_compare_options *options, dt_sink sink, void *user);

#ifdef __cplusplus
}
#endif
#endif
