/* Runs that are done once: each has its own folder, is resumed if it was interrupted, and is
 * skipped once it has results. */
#ifndef DT__SWEEP_JOBS_H
#define DT__SWEEP_JOBS_H

#include "core/core.h"
#include "report/page_spread.h"

#include <detent/experimental/sweep.h>

#define DT__JOB_PATH 4096

/* A run's share of the progress, and its error. */
typedef struct dt__job {
    const dt_sweep_control *control; /* may be NULL */
    int64_t i, n;                    /* index of this run, number of runs */
    double done, own, all;           /* work before this run, of it, and of all, in any unit */
    char error[256];                 /* "": no error */
} dt__job;

/* Trains the recipe in its run.dir, unless that has results. A failure of the run itself is no
 * error: its message is in job->error and, if it would happen again, in DIR.failed. Errors:
 * INTERRUPTED, NOMEM. */
dt_status dt__job_do(dt_ctx *ctx, dt_recipe *recipe, dt__job *job);

/* A folder of runs on which one process at a time works. */
typedef struct dt__work {
    dt_ctx *ctx;
    const char *dir;
    int lock; /* the locked, open folder; -1: none */
} dt__work;

/* Appends `, "data": ` and a hash of the contents of the recipe's data files to a plan, so that a
 * folder cannot mix runs on data that changed. Appends nothing where data are generated or given,
 * or cannot be opened, which the runs will report. Errors: NOMEM. */
dt_status dt__work_put_data(dt_recipe *recipe, dt__chars *plan);
/* Creates the folder with the plan as plan.json, or opens one with the same plan. Errors: CONFIG
 * (another plan, or not the folder of a sweep), STATE (another process uses it), IO. */
dt_status dt__work_open(dt_ctx *ctx, const char *dir, const dt__chars *plan, dt__work *out);
void dt__work_close(dt__work *w);
/* Writes DIR/name. */
dt_status dt__work_write(const dt__work *w, const char *name, const dt__chars *text);
/* Writes the whole recipe as DIR/name. */
dt_status dt__work_write_recipe(const dt__work *w, const char *name, const dt_recipe *recipe);

/* path = dir/name. Errors: IO (too long). */
dt_status dt__job_path(dt_ctx *ctx, const char *dir, const char *name, char path[DT__JOB_PATH]);

/* The results of a run by one metric. If `metric` is "", it is set to the first metric that the run
 * has. */
typedef struct dt__job_result {
    double validated, result; /* NaN: there is none */
    int64_t bytes;
    char evaluated_on[16]; /* the data of `result` */
} dt__job_result;

/* How a metric, of detent or registered, is shown, and which values are better. */
dt__page_metric dt__job_metric(const dt_ctx *ctx, const char *name);
dt_status dt__job_read(dt_ctx *ctx, const char *dir, char metric[DT_MAX_METRIC_NAME],
                       dt__job_result *out);

/* Writes `, "name": {"n": 3, "mean": ..., "deviation": ...}`, with null if there is none. */
void dt__put_spread_json(dt__chars *t, const char *name, dt_spread s);

#endif
