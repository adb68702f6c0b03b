/* Nearest-neighbour resampling of the lines of x [N, C, L] to another length.
 *     y[.., i] = x[.., floor(i L / length)]      dx = sum of dy over the elements that copy x */
#include "ops/ops_list.h"
#include "ops/shape/view.h"
#include "ops/pool/resize_ops.h"

static void forward(const dt_call *c)
{
    const dt__resize r = dt__resize_of(c);
    c->kernels->upsample(&r, dt__data(c->arg[0]), dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__resize r = dt__resize_of(c);
    c->kernels->upsample_backward(&r, dt__data(dy), dt__data_mut(dx[0]));
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    const int64_t length = ((const dt__size_options *)given)->size[0];
    dt_tensor *y = dt_upsample_nearest(t, dt__line_to_plane(t, in[0]), length, 1);
    out[0] = dt__plane_to_line(t, y);
}

const dt_op dt__op_upsample_nearest1d = {
    .name = "upsample_nearest1d",
    .text = "lines resampled to another length by nearest neighbour",
    .in_name = { "x" },
    .out_name = { "y" },
    .ungrouped = true,
    .options_size = sizeof(dt__size_options),
    .defaults = &dt__size_defaults,
    .keys = dt__size_keys1d,
    .shape = dt__size_shape1d,
    .forward = forward,
    .backward = backward,
    .lower = lower,
};

dt_tensor *dt_upsample_nearest1d(dt_tape *t, dt_tensor *x, int64_t length)
{
    return dt_apply(t, &dt__op_upsample_nearest1d,
                    DT__CALL_WITH((&(dt__size_options){ { length } }), x));
}

#define TO(length)                                                                                 \
    &(const dt__size_options)                                                                      \
    {                                                                                              \
        {                                                                                          \
            length                                                                                 \
        }                                                                                          \
    }

static const dt__case cases[] = {
    { "values", .in = { { { 1, 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } } },
      .options = TO(4), .n_y = 8, .y = { 1, 1, 2, 2, 3, 3, 4, 4 } },
    { "uneven", .in = { { { 2, 3, 5 } } }, .options = TO(11) },
    { "downward", .in = { { { 2, 3, 7 } } }, .options = TO(3) },
    { "long", .in = { { { 4, 8, 555 } } }, .options = TO(1110), .rough = true },
    { "no signals", .in = { { { 0, 2, 4 } } }, .options = TO(8) },
    { "no pixels", .in = { { { 2, 3, 0 }, 3 } }, .options = TO(2), .fails = DT_ERR_SHAPE,
      .says = "no pixel" },
    { "no length", .in = { { { 1, 1, 2 } } }, .options = TO(0), .fails = DT_ERR_ARG,
      .says = "no signal has a length of 0" },
    { "rank", .in = { { { 2, 2, 2, 2 } } }, .options = TO(4), .fails = DT_ERR_SHAPE,
      .says = "rank 4" },
    { "integers", .in = { { { 1, 1, 2 }, .dtype = DT_I32 } }, .options = TO(4),
      .fails = DT_ERR_DTYPE },
};
DT__CASES(upsample_nearest1d, cases)
