/* The common part of ops that rearrange dimensions. */
#ifndef DT__OPS_VIEW_H
#define DT__OPS_VIEW_H

#include "autograd/op.h"

/* A part of a tensor, or all of it in another order. */
typedef struct dt__view_part {
    int64_t dims[DT_MAX_RANK], strides[DT_MAX_RANK], offset;
} dt__view_part;

/* The view that the options of a call describe, for a tensor with the extents and strides of x: of
 * slices, and of permutations. Errors: ARG. */
typedef dt_status dt__view_part_of(const dt_call *c, const dt_tensor *x, dt__view_part *out);
dt__view_part_of dt__slice_of, dt__permutation_of;

extern const dt_key dt__slice_keys[], dt__permute_keys[];

typedef struct dt__permute_options {
    dt_ints dims;
} dt__permute_options;

dt__permute_options dt__permute_to(const dt_tensor *x, const int64_t *dims);

/* Dimension i of the result, a view, is dimension order[i] of operand 0. state[0] holds the
 * order for backward. */
dt_status dt__permuted(dt_call *c, const int *order);
void dt__permuted_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx);

/* The result is operand 0 with the extents `dims`: a view if operand 0 is contiguous, else a
 * copy. */
dt_status dt__reshaped(dt_call *c, int rank, const int64_t *dims);
void dt__reshaped_forward(const dt_call *c);
void dt__reshaped_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx);

/* The forward of views, which does nothing. */
void dt__view_forward(const dt_call *c);

/* For `lower` of ops on lines: x [N, C, L] as images [N, C, L, 1], and back. NULL stays NULL. */
dt_tensor *dt__line_to_plane(dt_tape *t, dt_tensor *x);
dt_tensor *dt__plane_to_line(dt_tape *t, dt_tensor *x);

#endif
