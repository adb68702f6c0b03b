/* Shapes of loops that several families of kernels share: two operands that broadcast, sums over
 * some dimensions, functions of one dimension such as softmax. Merging neighbouring dimensions
 * first makes inner loops long; it depends on the shapes alone, so results do not depend on
 * threads. */
#ifndef DT__KERNELS_LOOPS_H
#define DT__KERNELS_LOOPS_H

#include "core/core.h"

/* y[i...] = f(a[i...], b[i...]) for every index below dims. y is contiguous; strides of a and b are
 * in elements, any sign, 0 where they broadcast. y may be a or b if that is contiguous. */
typedef struct dt__zip {
    int rank;
    int64_t dims[DT_MAX_RANK];
    const void *a;
    int64_t a_strides[DT_MAX_RANK];
    const void *b;
    int64_t b_strides[DT_MAX_RANK];
    void *y;
} dt__zip;

/* y = (sum of x over the dimensions marked `over`) / divisor; x and y are contiguous, and y has the
 * other dimensions. A sum over nothing is 0. */
typedef struct dt__reduce {
    int rank;
    int64_t dims[DT_MAX_RANK];
    bool over[DT_MAX_RANK];
    double divisor;
    const void *x;
    void *y;
} dt__reduce;

/* A tensor as [outer][n][inner]: the lines that a function of one dimension runs over. */
typedef struct dt__lines {
    int64_t outer, n, inner;
} dt__lines;

/* The same loops, without dimensions of extent 1 and with neighbouring dimensions merged. */
dt__zip dt__zip_merged(const dt__zip *z);

/* A dt__reduce in the form of its kernel: kept and summed dimensions separately, with their strides
 * in x. */
typedef struct dt__axes {
    int rank;
    int64_t dims[DT_MAX_RANK], strides[DT_MAX_RANK];
    int64_t count; /* product of dims */
} dt__axes;

typedef struct dt__reduction {
    dt__axes kept, over;
    bool over_last; /* the innermost dimension is summed: its extent is `line` */
    int64_t line;   /* extent of the innermost dimension, which is in neither list */
} dt__reduction;

dt__reduction dt__reduction_of(const dt__reduce *r);

/* Offset of element `index` in row-major order of dims. */
static inline int64_t dt__offset_of(int64_t index, int rank, const int64_t *dims,
                                    const int64_t *strides)
{
    int64_t offset = 0;
    for (int d = rank - 1; d > 0; d--) {
        offset += index % dims[d] * strides[d];
        index /= dims[d];
    }
    return rank > 0 ? offset + index * strides[0] : 0;
}

/* The sum of a few doubles by a tree of fixed shape. Overwrites x. */
double dt__tree_sum(int n, double *x);

#endif
