/* Slices of tensors and of codes. */
#ifndef DT__OPS_SLICE_H
#define DT__OPS_SLICE_H

#include "autograd/op.h"

extern const dt_key dt__slice_keys[];

typedef struct dt__slice_cut {
    int64_t dims[DT_MAX_RANK], strides[DT_MAX_RANK], offset;
} dt__slice_cut;

/* The slice that the options of a call cut from a tensor with the extents and strides of x. Errors:
 * ARG. */
dt_status dt__slice_of(const dt_call *c, const dt_tensor *x, dt__slice_cut *out);

#endif
