/* Runs that are done once: each in a folder of its own, continued where it was interrupted, and
 * left alone once it has results. */
#ifndef DT__SWEEP_JOBS_H
#define DT__SWEEP_JOBS_H

#include "core/core.h"
#include "report/page_spread.h"

#include <detent/experimental/sweep.h>

#define DT__JOB_PATH 4096

/* What is told of a run, and how it went. */
typedef struct dt__job {
    const dt_sweep_control *control; /* may be NULL */
    int64_t i, n;                    /* its number, of all */
    double done, own, all;           /* work behind it, its own, and of all, in any unit */
    char error[256];                 /* "": none */
} dt__job;

/* Trains the recipe in its run.dir, unless that has results. A run that fails by itself is no
 * error: its message is in job->error, and in DIR.failed where the same would happen again. Errors:
 * INTERRUPTED, NOMEM. */
dt_status dt__job_do(dt_ctx *ctx, dt_recipe *recipe, dt__job *job);

/* A folder of runs that one process at a time works on. */
typedef struct dt__work {
    dt_ctx *ctx;
    const char *dir;
    int lock; /* the open folder, which is locked; -1: none */
} dt__work;

/* Appends `, "data": ` and a hash of the content of the recipe's files of data to a plan, so that a
 * folder does not hold runs of data that changed in between. Nothing where data are drawn or given,
 * or cannot be opened, which the runs will say. NOMEM. */
dt_status dt__work_put_data(dt_recipe *recipe, dt__chars *plan);
/* Makes the folder with the plan as plan.json, or opens one with the same plan. Errors: CONFIG
 * (another plan, a folder that is none of ours), STATE (another process), IO. */
dt_status dt__work_open(dt_ctx *ctx, const char *dir, const dt__chars *plan, dt__work *out);
void dt__work_close(dt__work *w);
/* Writes DIR/name. */
dt_status dt__work_write(const dt__work *w, const char *name, const dt__chars *text);
/* Writes the recipe, whole, as DIR/name. */
dt_status dt__work_write_recipe(const dt__work *w, const char *name, const dt_recipe *recipe);

/* path = dir/name. IO if it is too long. */
dt_status dt__job_path(dt_ctx *ctx, const char *dir, const char *name, char path[DT__JOB_PATH]);

/* A run by one metric; `metric` "": the first that it has, which is put there. */
typedef struct dt__job_result {
    double validated, result; /* NaN: there is none */
    int64_t bytes;
    char evaluated_on[16]; /* of `result` */
} dt__job_result;

/* How a metric is shown, and which values are better: one of detent's, or a registered one. */
dt__page_metric dt__job_metric(const dt_ctx *ctx, const char *name);
dt_status dt__job_read(dt_ctx *ctx, const char *dir, char metric[DT_MAX_METRIC_NAME],
                       dt__job_result *out);

/* `, "name": {"n": 3, "mean": ..., "deviation": ...}`, null where there is none. */
void dt__put_spread_json(dt__chars *t, const char *name, dt_spread s);

#endif
