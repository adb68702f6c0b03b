/* Timing: trials that are compared run in turn, repeatedly, so that disturbances of the machine
 * affect all of them. Results are medians and quartiles. */
#ifndef DT__BENCH_MEASURE_H
#define DT__BENCH_MEASURE_H

#include "bench/bench.h"
#include "bench/limits.h"
#include "core/core.h"
#include "core/quartiles.h"

#define DT__MOST_TRIALS 15
#define DT__MOST_TURNS 1000
#define DT__BENCH_NAME 128
#define DT__NO_TRIAL (-1)

/* The state of a running benchmark. */
typedef struct dt__bench {
    dt_ctx *user; /* receives errors; provides allocator, mask and threads */
    dt_ctx *ctx;  /* has the number of threads that is measured now */
    dt_bench_options options;
    dt_bench_sink row;
    void *row_user;
    const dt__limits *limits; /* for the kernels in use */
    size_t cache[3];          /* bytes of the first, second and last level */
    size_t memory;            /* a size in bytes that exceeds all caches */
    volatile double consumed; /* results of loops, so that they are not dropped */
} dt__bench;

/* One of several computations that are compared with each other. */
typedef struct dt__trial {
    char name[DT__BENCH_NAME];       /* of its row */
    bool silent;                     /* measured for comparison only: no row */
    const char *unit;                /* "ms": the value is the time, else work / time / 10^9 */
    double work;                     /* per run */
    dt_status (*run)(void *subject); /* NULL: part of the previous trial's run */
    const double *elapsed;           /* seconds of that part */
    bool slow;                       /* a run takes seconds: one run, unless `repeat` is set */
    void *subject;
    /* the subject's context, which has its errors; NULL: that of the dt__bench */
    dt_ctx *ctx;
    bool spins;        /* threads of its library spin afterwards: the next trial waits for them */
    bool steady;       /* a sample follows a run of the same trial, whose memory is in the caches */
    int limit;         /* index of the trial that bounds it, or DT__NO_TRIAL */
    double limit_work; /* per run, in the limit's unit; 0: `work` */
    struct {
        int trial;
        const char *name;
    } ratio[DT_BENCH_RATIOS]; /* ended by a NULL name */
    /* set by measuring */
    int64_t runs;    /* per sample */
    double *seconds; /* per run, for each turn */
    int turns;
    double median; /* seconds per run */
} dt__trial;

/* Runs the trials in turn and passes on the rows of those that are not silent. */
dt_status dt__measure(dt__bench *b, int n, dt__trial *trials);

/* A context like the user's, with `threads` threads. */
dt_status dt__bench_ctx(const dt__bench *b, int threads, dt_ctx **out);

/* The name of a row: the formatted text, and the number of threads. */
void dt__bench_name(const dt__bench *b, char name[DT__BENCH_NAME], const char *format, ...)
    DT_PRINTF(3, 4);

/* Aligned memory of the current context, filled with random bits; or with random floats in [-1,
 * 1). */
void *dt__random_bytes(dt__bench *b, size_t bytes);
float *dt__random_floats(dt__bench *b, int64_t count);

/* ---- limits as trials of others (bench_limits.c) ---- */

/* The subject of a limit's trial. It owns `x` and `y`. */
typedef struct dt__limit_subject {
    dt__bench *b;
    const dt__limits *limits;
    int64_t amount; /* rounds, or bytes of a pass */
    int64_t passes;
    char *x, *y;
} dt__limit_subject;

enum { DT__LIMIT_INT8, DT__LIMIT_F32, DT__LIMIT_F64, DT__LIMIT_READ, DT__LIMIT_COPY };

/* Makes a silent trial of a limit of the kernels in use, named as in part `limits`. Allocates the
 * subject's memory; call dt__limit_free also after an error. */
dt_status dt__limit_trial(dt__bench *b, int which, dt__limit_subject *subject, dt__trial *out);
void dt__limit_free(dt__limit_subject *subject);

/* ---- parts ---- */

dt_status dt__bench_limits(dt__bench *b);
dt_status dt__bench_products(dt__bench *b);
dt_status dt__bench_quantize(dt__bench *b);
dt_status dt__bench_optimizer(dt__bench *b);
dt_status dt__bench_step(dt__bench *b);
dt_status dt__bench_backward(dt__bench *b);
dt_status dt__bench_convolutions(dt__bench *b);
dt_status dt__bench_rounding(dt__bench *b);
dt_status dt__bench_language(dt__bench *b);
dt_status dt__bench_decode(dt__bench *b); /* a section of part `language` */
dt_status dt__bench_experts(dt__bench *b);
dt_status dt__bench_waiting(dt__bench *b);
dt_status dt__bench_device(dt__bench *b);
dt_status dt__bench_growth(dt__bench *b);

#endif
