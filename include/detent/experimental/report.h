/* report.h: a page about runs: one HTML file that needs nothing else, from what runs wrote. */
#ifndef DETENT_EXPERIMENTAL_REPORT_H
#define DETENT_EXPERIMENTAL_REPORT_H

#include <detent/experimental/detent.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most runs that a page or a comparison lays side by side. More are a table with a row for each
 * recipe, and so are sweeps. */
#define DT_MOST_SIDES 16

typedef struct dt_report_options {
    const char *output; /* the file to write; NULL: report.html in the folder of the first run */
    bool live;          /* the page makes a browser load it again every few seconds */
} dt_report_options;

/* Writes a page about the runs in `n` folders, whole or not at all. A folder of a sweep stands for
 * its runs. A run may be under way or interrupted: the page shows what is there, and says what is
 * not. Up to DT_MOST_SIDES runs are side by side; of more, or of sweeps, the page has mean and
 * deviation of each recipe, plots over bits and bytes, and a run of each of the best eight recipes.
 * `options` NULL means the defaults. Errors: ARG (n below 1), IO (a folder without recipe.yaml and
 * metrics.jsonl; a sweep without runs; a file that cannot be read or written), NOMEM. A damaged
 * file of a run is not an error: the page names it. */
DT_API dt_status dt_report_write(dt_ctx *ctx, const char *const *runs, int n,
                                 const dt_report_options *options);

/* The mean of n results (those that are finite), and the standard deviation of the sample,
 * sqrt(sum (x - mean)^2 / (n - 1)). The mean of 0 results is NaN, the deviation of fewer than 2. */
typedef struct dt_spread {
    int64_t n;
    double mean, deviation;
} dt_spread;

enum {
    DT_COMPARE_AUTO, /* SIDES up to DT_MOST_SIDES runs or with `seeds`; of more, or sweeps, TABLE */
    DT_COMPARE_SIDES, /* a column for each run, or of several seeds for each recipe */
    DT_COMPARE_TABLE, /* a row for each recipe: the keys that differ, mean and deviation */
    DT_COMPARE_CSV,   /* the same for programs: numbers as in summary.json */
    DT_COMPARE_LATEX, /* a tabular with the lines of booktabs */
    DT_COMPARE_MARKDOWN
};

typedef struct dt_compare_options {
    int columns; /* of the terminal, at least 40; 0: 80 */
    int seeds;   /* SIDES: this many runs in a row are of one recipe, with several seeds; 0: 1 */
    int form;    /* DT_COMPARE_... */
} dt_compare_options;

/* Writes which keys of the runs' recipes differ, and their results; of several seeds mean and
 * standard deviation (dt_spread). A folder of a sweep stands for its runs. In a table, runs whose
 * recipes differ in nothing but run.seed, data.split.fold, run.threads and where they write are one
 * row; the same recipe with the same seed counts once. `options` NULL means the defaults. Errors:
 * as dt_report_write, ARG (SIDES: fewer than 2 runs, or no multiple of seeds; runs of one recipe
 * that differ in more than run.seed; another form), those of the sink. */
DT_API dt_status dt_report_compare(dt_ctx *ctx, const char *const *runs, int n,
                                   const dt_compare_options *options, dt_sink sink, void *user);

#ifdef __cplusplus
}
#endif
#endif
