/* bench.h: how fast this machine is, and how near detent comes to it.
 *
 * One run measures the machine's limits (integer and float multiply-adds, reading and copying
 * memory) and detent's own work, repetition by repetition in turn, so that a machine that changes
 * its speed changes it for all. Each figure is the median; a share of a limit and a ratio compare
 * medians of the same turns.
 *
 * This library is for the program, the tests and bench/: it sees all of src/ and is not
 * installed. */
#ifndef DT__BENCH_BENCH_H
#define DT__BENCH_BENCH_H

#include <detent/detent.h>

/* What can be measured; bits of dt_bench_options.parts. */
enum {
    DT_BENCH_LIMITS = 1,        /* the machine's own */
    DT_BENCH_PRODUCTS = 2,      /* integer codes by packed weights */
    DT_BENCH_QUANTIZE = 4,      /* fp32 to codes */
    DT_BENCH_OPTIMIZER = 8,     /* updates of parameters */
    DT_BENCH_STEP = 16,         /* training steps, float and quantization-aware */
    DT_BENCH_CONVOLUTIONS = 32, /* integer codes of images by packed weights */
    DT_BENCH_ROUNDING = 64,     /* weights by calibration data */
    DT_BENCH_LANGUAGE = 128,    /* training steps of language models */
    DT_BENCH_EXPERTS = 256,     /* grouped weights against separate ones */
    DT_BENCH_ALL = 511
};

/* Their names, in this order, ended by NULL: "limits", "products", ... */
extern const char *const dt_bench_parts[];

/* A figure in relation to that of something else which did the same work. */
typedef struct dt_bench_ratio {
    const char *to;
    double value; /* this row's value / the other's */
} dt_bench_ratio;

#define DT_BENCH_RATIOS 4

/* A figure; all pointers are lent for the call of the sink. */
typedef struct dt_bench_row {
    const char *name; /* "products/m96/n1024/k1024/int4-group32/t1": t1 means one thread */
    const char *unit; /* "GMAC/s", "GFLOP/s", "GB/s" (10^9), "ms", "tokens/s", "MiB" */
    double value;     /* the median */
    double low, high; /* the quartiles around it */
    int repetitions;
    const char *limit;     /* the row that it cannot exceed; NULL: none */
    double share_of_limit; /* NaN where there is no limit */
    dt_bench_ratio ratio_to[DT_BENCH_RATIOS];
    int n_ratios;
} dt_bench_row;

/* Takes a row; a status other than DT_OK ends the benchmark and is returned. */
typedef dt_status (*dt_bench_sink)(void *user, const dt_bench_row *row);

/* A convolution of square images [batch, in, size, size] with a kernel of 3 x 3 and padding 1. */
typedef struct dt_bench_conv {
    int64_t batch, in, out, size, stride;
} dt_bench_conv;

/* Another library's product y [m, n] = u [m, k] w^T [n, k] of u8 and s8, to be measured beside
 * detent's, with OpenMP set to as many threads, and its convolution of u8 by s8. `open` and
 * `open_conv` may return NULL: not for this shape. */
typedef struct dt_bench_rival {
    const char *name; /* NULL: there is none */
    void *(*open)(void *user, int64_t m, int64_t n, int64_t k);
    void *(*open_conv)(void *user, const dt_bench_conv *conv); /* NULL: it has none */
    void (*run)(void *product);
    void (*close)(void *product);
    void *user;
} dt_bench_rival;

typedef struct dt_bench_options {
    unsigned parts; /* default all */
    int repeat;     /* turns; default 0: as many as fit into about a second for each comparison,
                       one where a run takes seconds */
    bool quick;     /* small shapes, few and short turns: whether it works, not how fast */
    dt_bench_rival rival;
} dt_bench_options;

/* The defaults of dt_bench. */
dt_bench_options dt_bench_defaults(void);

/* Measures with one thread and, if the context has more, with all of them; hands `row` each figure
 * as soon as it stands. `options` NULL means the defaults. Sets OpenBLAS to as many threads as a
 * comparison needs, and to one when it is done. Errors: ARG (parts, repeat outside 0...1000),
 * NOMEM, the sink's. */
dt_status dt_bench(dt_ctx *ctx, const dt_bench_options *options, dt_bench_sink row, void *user);

/* The same as text: first what it is measured on (processor, cores, threads, caches, kernels,
 * OpenBLAS's core, versions), then the rows, each as soon as it stands. For people a line each; or
 * one object of JSON, {"machine": {...}, "rows": [...]}, a row being an object with `name`,
 * `value`, `unit`, `low`, `high`, `repetitions`, `limit`, `share_of_limit` and `ratio_to` (an
 * object with a number for each), null where there is none. Errors: those of dt_bench; of JSON what
 * was written is not complete then. */
dt_status dt_bench_write(dt_ctx *ctx, const dt_bench_options *options, bool json, dt_sink sink,
                         void *user);

#endif
