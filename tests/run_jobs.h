/* Small runs, for the suites about runs: a recipe of a few updates, its overrides, how it must
 * end, and what came out; then the files that it wrote. */
#ifndef RUN_JOBS_H
#define RUN_JOBS_H

#include "sample.h"

#include <detent/experimental/io.h>
#include <detent/experimental/train.h>

#include <jansson.h>

#define JOB_OVERRIDES 12

typedef struct job {
    const char *dir;
    const char *overrides[JOB_OVERRIDES]; /* behind run.dir, ended by NULL */
    bool resume, dry_run;
    int64_t stop_at; /* updates of this call before it is asked to stop; 0: never */
    int threads;
    dt_status wanted;
    const char *words; /* part of the message, if an error is expected */
    /* results */
    int64_t updates;
    uint64_t allocations[64]; /* after each update */
    double losses[64], rates[64];
    double seconds_left; /* the estimate after the second update */
    dt_run_summary summary;
    char message[1024];
} job;

/* The context of the next job_try, whose allocations are counted. */
extern dt_ctx *job_counted;

/* Runs the job in `ctx`. */
dt_status job_try(dt_ctx *ctx, job *j);

/* Runs the job in a context of its own. It must end with the wanted status, and leave no memory. */
void job_run(job *j);

/* folder/name; the hundredth call from here on overwrites it. */
const char *job_path(const char *folder, const char *name);

/* Fails the test unless file `name` has the same bytes in both folders. */
void job_same_files(const char *a, const char *b, const char *name);

/* The same for the tensors of checkpoint `name`. */
void job_same_checkpoints(const char *a, const char *b, const char *name);

/* The newest checkpoint of a whole run. */
extern const char job_last[];

/* The same for all that two whole runs wrote: weights, newest checkpoint, metrics. */
void job_same_runs(const char *a, const char *b);

/* metrics.jsonl without the fields that tell time, to be freed. */
char *job_metrics(const char *dir);

/* How often metrics.jsonl has these words. */
int job_metric_words(const char *dir, const char *words);

/* The number row.key of a summary. */
double job_number(const json_t *root, const char *row, const char *key);

/* The bytes of all tensors of a file. */
int64_t job_bytes(dt_ctx *ctx, const char *path);

#endif
