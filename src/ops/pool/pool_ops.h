/* The common part of the pooling ops, op_max_pool*.c, op_avg_pool*.c and op_global_avg_pool*.c: all
 * but their names. */
#ifndef DT__OPS_POOL_OPS_H
#define DT__OPS_POOL_OPS_H

#include "autograd/op.h"
#include "kernels/planes.h"

extern const dt_pool_options dt__pool_defaults;

/* Keys of a dt_pool_options that is the first member of an op's options; TYPE is DT_KEY_PAIR, or
 * DT_KEY_INT for 1d ops; the other arguments are defaults. */
#define DT__POOL_AT(field) .offset = offsetof(dt_pool_options, field)
#define DT__POOL_KEYS(TYPE, two, none, one)                                                        \
    { "kernel", TYPE, DT__POOL_AT(kernel), .fallback = two },                                      \
        { "stride", TYPE, DT__POOL_AT(stride), .fallback = none },                                 \
        { "padding", TYPE, DT__POOL_AT(padding), .fallback = none },                               \
        { "dilation", TYPE, DT__POOL_AT(dilation), .fallback = one },                              \
    {                                                                                              \
        "ceil_mode", DT_KEY_BOOL, DT__POOL_AT(ceil_mode), .fallback = "false"                      \
    }
#define DT__AVG_POOL_KEY                                                                           \
    {                                                                                              \
        "count_include_pad", DT_KEY_BOOL, DT__POOL_AT(count_include_pad), .fallback = "true"       \
    }
#define DT__MAX_POOL_KEY                                                                           \
    {                                                                                              \
        "index", DT_KEY_BOOL, .offset = offsetof(dt__max_pool_options, index), .fallback = "false" \
    }

/* Options of the maximum ops. */
typedef struct dt__max_pool_options {
    dt_pool_options pool;
    bool index;
} dt__max_pool_options;

extern const dt__max_pool_options dt__max_pool_defaults;

/* Kept for backward: the position of each maximum in its window, one byte if a window has at most
 * 255 pixels. */
dt_status dt__max_pool1d_shape(dt_call *c);
dt_status dt__max_pool2d_shape(dt_call *c);
void dt__max_pool_forward(const dt_call *c);
void dt__max_pool_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx);
dt_tensor *dt__max_pool_apply(dt_tape *t, const dt_op *op, dt_tensor *x, const dt_pool_options *o,
                              dt_tensor **index);

dt_status dt__avg_pool1d_shape(dt_call *c);
dt_status dt__avg_pool2d_shape(dt_call *c);
/* The windows of a call whose result exists, without x and y. */
dt__windows dt__avg_pool_windows(const dt_call *c);
void dt__avg_pool_forward(const dt_call *c);
void dt__avg_pool_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx);

dt_status dt__global_avg_pool1d_shape(dt_call *c);
dt_status dt__global_avg_pool2d_shape(dt_call *c);
void dt__global_avg_pool_forward(const dt_call *c);
size_t dt__global_avg_pool_scratch(const dt_call *c);
void dt__global_avg_pool_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx);

#endif
