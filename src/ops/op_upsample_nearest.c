/* Nearest-neighbour resampling of the planes of x [N, C, H, W] to another size.
 *     y[.., i, j] = x[.., floor(i H / height), floor(j W / width)]
 *     dx = sum of dy over the pixels that copy x */
#include "autograd/op.h"
#include "ops/ops_list.h"

typedef struct options {
    int64_t size[2];
} options;

static const options defaults = { { 0, 0 } };

static const dt_key keys[] = {
    { "size", DT_KEY_PAIR, .offset = offsetof(options, size), .fallback = "!",
      .text = "height and width of the result" },
    { 0 },
};

static dt_status shape(dt_call *c)
{
    const options *o = c->options;
    const dt_tensor *x = c->in[0];
    DT__TRY(dt__want_operands(c, 1, 1));
    DT__TRY(dt__want_float(c, 0));
    DT__TRY(dt__want_rank(c, 0, 4, 4));
    for (int d = 0; d < 2; d++) {
        int64_t most; /* the largest product in the kernel */
        const int64_t in = x->dims[2 + d], out = o->size[d];
        if (out < 1 || __builtin_mul_overflow(in, out, &most)) {
            return dt_refuse(c, DT_ERR_ARG, "no image is %lld x %lld", (long long)o->size[0],
                             (long long)o->size[1]);
        }
        if (in == 0) return dt_refuse(c, DT_ERR_SHAPE, "a plane has no pixel");
    }
    const int64_t dims[] = { x->dims[0], x->dims[1], o->size[0], o->size[1] };
    return dt_result(c, 0, x->dtype, 4, dims);
}

static dt__resize resize_of(const dt_call *c)
{
    const dt_tensor *x = c->in[0];
    const options *o = c->options;
    return (dt__resize){ .planes = x->dims[0] * x->dims[1],
                         .in = { x->dims[2], x->dims[3] },
                         .out = { o->size[0], o->size[1] } };
}

static void forward(const dt_call *c)
{
    const dt__resize r = resize_of(c);
    c->kernels->upsample(&r, dt__data(c->arg[0]), dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__resize r = resize_of(c);
    c->kernels->upsample_backward(&r, dt__data(dy), dt__data_mut(dx[0]));
}

const dt_op dt__op_upsample_nearest = {
    .name = "upsample_nearest",
    .text = "planes resampled to another size by nearest neighbour",
    .in_name = { "x" },
    .out_name = { "y" },
    .ungrouped = true,
    .options_size = sizeof(options),
    .defaults = &defaults,
    .keys = keys,
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

dt_tensor *dt_upsample_nearest(dt_tape *t, dt_tensor *x, int64_t height, int64_t width)
{
    return dt_apply(t, &dt__op_upsample_nearest,
                    DT__CALL_WITH((&(options){ { height, width } }), x));
}

#define TO(height, width)                                                                          \
    &(const options)                                                                               \
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
