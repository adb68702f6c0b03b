/* machine.h: properties of the machine, and how long a model takes on it. */
#ifndef DETENT_EXPERIMENTAL_MACHINE_H
#define DETENT_EXPERIMENTAL_MACHINE_H

#include <detent/experimental/io.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dt_machine {
    char processor[64], blas[48]; /* the brand; "OpenBLAS 0.3.21" */
    /* the core for which OpenBLAS chose its kernels; a static string */
    const char *blas_core;
    const char *kernels; /* dt_kernels_name */
    long cores;          /* number of processors online */
    int threads;         /* of the context */
    size_t cache[3];     /* bytes of the data caches: first, second and last level; 0: unknown */
} dt_machine;

/* Errors: those of dt_kernels_name; STATE: no OpenBLAS. */
DT_API dt_status dt_machine_find(dt_ctx *ctx, dt_machine *out);

/* A call of an op in a forward pass. */
typedef struct dt_latency_op {
    const char *module, *op; /* path, "" for the model itself, and op; lent for the call */
    double seconds;          /* the median */
    double share;            /* share of all ops */
} dt_latency_op;

/* Called with each op of a pass, in the order of the pass. */
typedef void (*dt_latency_visit)(void *user, const dt_latency_op *row);

typedef struct dt_latency_options {
    int64_t batch;          /* examples per pass, at least 1 */
    int repeat;             /* passes of each kind; 0: as many as take a second, at most 200 */
    dt_latency_visit visit; /* NULL: no rows */
    void *user;
} dt_latency_options;

typedef struct dt_latency {
    int64_t batch;
    int repetitions, threads;
    double seconds, low, high; /* per pass: the median and the quartiles around it */
    double in_ops;             /* the sum of the rows */
} dt_latency;

/* Measures the time of a model on this machine with random inputs: whole passes in evaluation mode
 * and, in turn, passes in which each op is timed. Errors: ARG, those of the forward pass, NOMEM. */
DT_API dt_status dt_latency_measure(dt_module *m, const dt_model_info *info,
                                    const dt_latency_options *options, dt_latency *out);

#ifdef __cplusplus
}
#endif
#endif
