/* The common part of softmax and log_softmax: options and shape function. */
#ifndef DT__OPS_SOFTMAX_H
#define DT__OPS_SOFTMAX_H

#include "autograd/op.h"

typedef struct dt__dim_options {
    int64_t dim;
} dt__dim_options;

extern const dt__dim_options dt__dim_defaults; /* the last dimension */
extern const dt_key dt__dim_keys[];

/* Shape function: a result of x's shape; state[0] is the dimension. */
dt_status dt__along_shape(dt_call *c);

/* x as lines along dimension `dim`. */
static inline dt__lines dt__lines_of(const dt_tensor *x, int dim)
{
    dt__lines l = { 1, x->dims[dim], 1 };
    for (int d = 0; d < dim; d++) l.outer *= x->dims[d];
    for (int d = dim + 1; d < x->rank; d++) l.inner *= x->dims[d];
    return l;
}

#endif
