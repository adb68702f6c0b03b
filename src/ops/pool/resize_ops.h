/* The common part of ops whose result has planes, or lines, of a given size. */
#ifndef DT__OPS_RESIZE_OPS_H
#define DT__OPS_RESIZE_OPS_H

#include "autograd/op.h"

typedef struct dt__size_options {
    int64_t size[2]; /* height and width; of lines the first alone */
} dt__size_options;

extern const dt__size_options dt__size_defaults;
extern const dt_key dt__size_keys2d[], dt__size_keys1d[];

/* Shape functions: x [N, C, H, W] or [N, C, L] with at least one pixel a plane; the options have
 * the size of the result. */
dt_status dt__size_shape2d(dt_call *c);
dt_status dt__size_shape1d(dt_call *c);
/* The extents of such a call; a line is a plane of one row. */
dt__resize dt__resize_of(const dt_call *c);

#endif
