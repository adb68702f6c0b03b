/* Mixtures of experts: operands of the kernels of routers. Logits are x [rows][n], n the
 * experts. */
#ifndef DT__KERNELS_MOE_H
#define DT__KERNELS_MOE_H

#include "core/core.h"

/* A row's top_k largest logits in descending order (equal ones by ascending expert), and their
 * weights: the softmax over all n or, if `normalized`, over these top_k. Backward gets the weights
 * as an operand, and recomputes the index. */
typedef struct dt__router {
    int64_t rows, n, top_k;
    bool normalize;
    const void *x;
    void *weights;  /* [rows][top_k] */
    int32_t *index; /* [rows][top_k]; -1 if fewer than top_k logits are not NaN */
} dt__router;

/* y[row] = sum over i of weights[row][i] parts[row][i], i ascending. */
typedef struct dt__combine {
    int64_t rows, top_k, n; /* top_k at least 1 */
    const void *parts;      /* [rows][top_k][n] */
    const void *weights;    /* [rows][top_k] */
    void *y;                /* [rows][n]; forward only */
} dt__combine;

/* part[0 ... n-1]: sums of p = softmax(x) over the rows; part[n ... 2n-1]: how many rows chose each
 * expert. */
typedef struct dt__router_load {
    int64_t rows, n, top_k;
    const void *x;
    double *part; /* [dt__router_parts(rows)][3][n] */
} dt__router_load;

/* The number of rows per part, and the number of parts, at least 1; both depend on the number of
 * rows alone. */
static inline int64_t dt__router_part(int64_t rows)
{
    return dt__max_i64(64, dt__ceil_div(rows, 64));
}
static inline int64_t dt__router_parts(int64_t rows)
{
    return dt__max_i64(1, dt__ceil_div(rows, dt__router_part(rows)));
}

/* dx = p (slope - sum of p slope), one slope for all rows. */
typedef struct dt__router_slope {
    int64_t rows, n;
    const void *x;
    const void *slope; /* [n] */
    void *dx;          /* [rows][n] */
} dt__router_slope;

/* log_sum[row] = log of the sum of exp(x); backward: dx = scale log_sum p. */
typedef struct dt__router_z {
    int64_t rows, n;
    const void *x;
    double *log_sum; /* [rows]; forward only */
} dt__router_z;

#endif
