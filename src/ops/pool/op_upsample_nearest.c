/* Nearest-neighbour resampling of the planes of x [N, C, H, W] to another size.
 *     y[.., i, j] = x[.., floor(i H / height), floor(j W / width)]
 *     dx = sum of dy over the pixels that copy x */
#include "ops/ops_list.h"
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

const dt_op dt__op_upsample_nearest = {
    .name = "upsample_nearest",
    .text = "planes resampled to another size by nearest neighbour",
    .in_name = { "x" },
    .out_name = { "y" },
    .ungrouped = true,
    .options_size = sizeof(dt__size_options),
    .defaults = &dt__size_defaults,
    .keys = dt__size_keys2d,
    .shape = dt__size_shape2d,
    .forward = forward,
    .backward = backward,
};

dt_tensor *dt_upsample_nearest(dt_tape *t, dt_tensor *x, int64_t height, int64_t width)
{
    return dt_apply(t, &dt__op_upsample_nearest,
                    DT__CALL_WITH((&(dt__size_options){ { height, width } }), x));
}

#define TO(height, width)                                                                          \
    &(const dt__size_options)                                                                      \
    {                                                                                              \
        {                                                                                          \
            height, width                                                                          \
        }                                                                                          \
    }

static const dt__case cases[] = {
    { "values", .in = { { { 1, 1, 1, 2 }, .given = true, .values = { 1, 2 } } },
      .options = TO(2, 4), .n_y = 8, .y = { 1, 1, 2, 2, 1, 1, 2, 2 } },
    { "twice", .in = { { { 2, 3, 3, 4 } } }, .options = TO(6, 8) },
    { "uneven", .in = { { { 1, 2, 3, 5 } } }, .options = TO(5, 11) },
    { "downward", .in = { { { 1, 2, 6, 7 } } }, .options = TO(4, 3) },
    { "one pixel", .in = { { { 2, 2, 4, 5 } } }, .options = TO(1, 1) },
    { "threads", .in = { { { 4, 8, 17, 15 } } }, .options = TO(34, 30), .rough = true },
    { "no images", .in = { { { 0, 2, 4, 4 } } }, .options = TO(8, 8) },
    { "no pixels", .in = { { { 2, 3, 0, 4 } } }, .options = TO(2, 2), .fails = DT_ERR_SHAPE,
      .says = "no pixel" },
    { "no size", .in = { { { 1, 1, 2, 2 } } }, .options = TO(0, 2), .fails = DT_ERR_ARG,
      .says = "no image is 0 x 2" },
    { "overflow", .in = { { { 1, 1, 2, 2 } } }, .options = TO(2, INT64_MAX), .fails = DT_ERR_ARG,
      .says = "no image is 2 x 9223372036854775807" },
    { "rank", .in = { { { 2, 2, 2 } } }, .options = TO(4, 4), .fails = DT_ERR_SHAPE,
      .says = "rank 3" },
    { "integers", .in = { { { 1, 1, 2, 2 }, .dtype = DT_I32 } }, .options = TO(4, 4),
      .fails = DT_ERR_DTYPE },
};
DT__CASES(upsample_nearest, cases)
