/* What is known of a layer's inputs: sums of their products, for each group of the layer. */
#ifndef DT__PTQ_STATISTICS_H
#define DT__PTQ_STATISTICS_H

#include <detent/ptq.h>

#include "core/core.h"

/* Sums over n samples, row-major. */
typedef struct dt__moments {
    int64_t size, n;
    double *h; /* [size][size]: sum xq xq^T, symmetric, both triangles there */
    double *g; /* [size][size]: sum xq x^T (row: quantized input); NULL: x is xq */
    double *c; /* lower triangle of sum x x^T, packed by rows [size (size+1) / 2]; NULL like g */
} dt__moments;

struct dt_statistics {
    dt_ctx *ctx;
    dt_weight_op op;
    int rank;
    int64_t dims[DT_MAX_RANK]; /* of the weight */
    int64_t groups;
    dt__moments *moments; /* [groups] */
};

/* The work matrices of a weight: `groups` of rows x columns. */
typedef struct dt__work_shape {
    int64_t groups, rows, columns;
} dt__work_shape;

/* Errors: ARG (no such kind), SHAPE (a rank that is not the op's, groups that do not divide), with
 * `name` in the message. */
dt_status dt__work_shape_of(dt_ctx *ctx, const char *name, const dt_weight_op *op, int rank,
                            const int64_t *dims, dt__work_shape *out);

static inline bool dt__is_transposed(const dt_weight_op *op)
{
    return op->kind == DT_WEIGHT_CONV_TRANSPOSE1D || op->kind == DT_WEIGHT_CONV_TRANSPOSE2D;
}

#endif
