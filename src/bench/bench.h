/* bench.h: benchmarks of detent relative to the limits of the machine.
 *
 * One run measures the machine's limits (integer and float multiply-adds, reading and copying
 * memory) and detent's own work, in turn, repetition by repetition, so that changes of the
 * machine's speed affect all of them. Each figure is the median; shares of a limit and ratios
 * compare medians of the same turns.
 *
 * This library is for detent-bench (program.c), the tests and bench/. It may include all of src/
 * and is not installed. */
#ifndef DT__BENCH_BENCH_H
#define DT__BENCH_BENCH_H

#include <detent/experimental/io.h>

/* The parts of the benchmark; bits of dt_bench_options.parts. */
enum {
    DT_BENCH_LIMITS = 1,        /* limits of the machine */
    DT_BENCH_PRODUCTS = 2,      /* integer codes by packed weights */
    DT_BENCH_QUANTIZE = 4,      /* fp32 to codes */
    DT_BENCH_OPTIMIZER = 8,     /* updates of parameters */
    DT_BENCH_STEP = 16,         /* training steps, float and quantization-aware */
    DT_BENCH_CONVOLUTIONS = 32, /* integer codes of images by packed weights */
    DT_BENCH_ROUNDING = 64,     /* rounding weights by calibration data */
    DT_BENCH_LANGUAGE = 128,    /* training steps of language models */
    DT_BENCH_EXPERTS = 256,     /* grouped weights against separate ones */
    DT_BENCH_BACKWARD = 512,    /* training steps whose gradients are products of integers */
    DT_BENCH_WAITING = 1024,    /* small loops on several threads, idle and beside others */
    DT_BENCH_DEVICE = 2048,     /* forward passes of networks of integers alone */
    DT_BENCH_GROWTH = 4096,     /* costs over widths, contexts, experts and images */
    DT_BENCH_ALL = 8191
};

/* Their names, in this order, ended by NULL: "limits", "products", ... */
extern const char *const dt_bench_parts[];

/* The ratio to another row that measures the same work. */
typedef struct dt_bench_ratio {
    const char *to;
    double value; /* this row's value / the other's */
} dt_bench_ratio;

#define DT_BENCH_RATIOS 4

/* A figure; pointers are valid during the call of the sink. */
typedef struct dt_bench_row {
    const char *name; /* "products/m96/n1024/k1024/int4-group32/t1": t1 means one thread */
    const char *unit; /* "GMAC/s", "GFLOP/s", "GB/s" (10^9), "ms", "tokens/s", "MiB", "cosine" */
    double value;     /* the median */
    double low, high; /* the quartiles around it */
    int repetitions;
    const char *limit;     /* the row that bounds it; NULL: none */
    double share_of_limit; /* NaN where there is no limit */
    dt_bench_ratio ratio_to[DT_BENCH_RATIOS];
    int n_ratios;
} dt_bench_row;

/* Takes a row; a status other than DT_OK ends the benchmark and is returned. */
typedef dt_status (*dt_bench_sink)(void *user, const dt_bench_row *row);

/* A convolution of square images [batch, in, size, size] with a kernel of 3 x 3 and padding 1. */
typedef struct dt_bench_conv {
    int64_t batch, in, out, size, stride, groups;
} dt_bench_conv;

/* Another library to compare with: its product y [m, n] = u [m, k] w^T [n, k] of u8 and s8 on
 * `threads` threads, and its convolution of u8 and s8. `open` and `open_conv` return NULL for
 * shapes that the library does not support. */
typedef struct dt_bench_rival {
    const char *name; /* NULL: there is none */
    void *(*open)(void *user, int threads, const int64_t mnk[3]);
    void *(*open_conv)(void *user, int threads, const dt_bench_conv *conv); /* NULL: none */
    void (*run)(void *product);
    void (*close)(void *product);
    void *user;
} dt_bench_rival;

typedef struct dt_bench_options {
    unsigned parts; /* default all */
    /* number of turns; default 0: as many as take about a second per comparison, or one if a run
     * takes seconds */
    int repeat;
    bool explain; /* also measure where the time of each training step goes */
    bool quick;   /* small shapes, few and short turns: a smoke test */
    dt_bench_rival rival;
} dt_bench_options;

/* The defaults of dt_bench. */
dt_bench_options dt_bench_defaults(void);

/* Measures with one thread and, if the context has more, with all of them; passes each figure to
 * `row` as soon as it is measured. `options` NULL means the defaults. Sets OpenBLAS's threads as a
 * comparison needs, and to one at the end. Errors: ARG (parts, repeat outside 0...1000), NOMEM,
 * STATE (no OpenBLAS), the sink's. */
dt_status dt_bench(dt_ctx *ctx, const dt_bench_options *options, dt_bench_sink row, void *user);

/* dt_bench as text: first the machine (processor, cores, threads, caches, kernels, OpenBLAS's core,
 * versions), then the rows as they are measured. Either a line each, or one JSON object,
 * {"machine": {...}, "rows": [...]}, a row being an object with `name`, `value`, `unit`, `low`,
 * `high`, `repetitions`, `limit`, `share_of_limit` and `ratio_to` (an object with a number for
 * each), null where there is none. Errors: those of dt_bench; JSON is then incomplete. */
dt_status dt_bench_write(dt_ctx *ctx, const dt_bench_options *options, bool json, dt_sink sink,
                         void *user);

#endif
