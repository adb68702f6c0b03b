/* report.h: a page about runs: one self-contained HTML file, made from the files of the runs. */
#ifndef DETENT_EXPERIMENTAL_REPORT_H
#define DETENT_EXPERIMENTAL_REPORT_H

#include <detent/experimental/detent.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Up to this many runs a page or a comparison shows side by side. More runs, and sweeps, are shown
 * as a table with a row per recipe. */
#define DT_MOST_SIDES 16

typedef struct dt_report_options {
    const char *output; /* the file to write; NULL: report.html in the folder of the first run */
    bool live;          /* the page reloads itself every few seconds */
} dt_report_options;

/* Writes a page about the runs in `n` folders, whole or not at all. A folder of a sweep stands for
 * its runs. A run may be in progress or interrupted: the page shows what exists, and says what is
 * missing. Up to DT_MOST_SIDES runs are shown side by side; for more runs, or sweeps, the page has
 * mean and deviation of each recipe, plots over bits and bytes, and one run of each of the best
 * eight recipes. `options` NULL means the defaults. Errors: ARG (n below 1), IO (a folder without
 * recipe.yaml and metrics.jsonl; a sweep without runs; a file that cannot be read or written),
 * NOMEM. A damaged file of a run is not an error: the page names it. */
DT_API dt_status dt_report_write(dt_ctx *ctx, const char *const *runs, int n,
                                 const dt_report_options *options);

/* The mean of n results (those that are finite), and the standard deviation of the sample,
 * sqrt(sum (x - mean)^2 / (n - 1)). The mean of 0 results is NaN, the deviation of fewer than 2. */
typedef struct dt_spread {
    int64_t n;
    double mean, deviation;
} dt_spread;

enum {
    DT_COMPARE_AUTO,  /* SIDES up to DT_MOST_SIDES runs or with `seeds`; else TABLE */
    DT_COMPARE_SIDES, /* a column for each run or, with several seeds, for each recipe */
    DT_COMPARE_TABLE, /* a row for each recipe: the keys that differ, mean and deviation */
    DT_COMPARE_CSV,   /* the same table for programs: numbers as in summary.json */
    DT_COMPARE_LATEX, /* a tabular with the lines of booktabs */
    DT_COMPARE_MARKDOWN
};

typedef struct dt_compare_options {
    int columns; /* width of the terminal, at least 40; 0: 80 */
    /* SIDES: this many consecutive runs are of one recipe with different seeds; 0: 1 */
    int seeds;
    int form; /* DT_COMPARE_... */
} dt_compare_options;

/* Writes which keys of the runs' recipes differ, and their results; for several seeds mean and
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
