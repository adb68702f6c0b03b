/* The largest pixel of each window of the planes of x [N, C, H, W].
 *     y = max over the window of x
 *         dx = sum of dy over the windows where x is the first largest
 * Padding is never chosen. Kept for backward: the position of each y in its window, one byte if the
 * window has at most 255 pixels. */
#include "ops/ops_list.h"
#include "ops/pool_ops.h"

#include <string.h>

enum { Y, AT, INDEX };

#define BYTE_PIXELS 255

typedef struct options {
    dt_pool_options pool;
    bool index;
} options;

static const options defaults = { .pool = { .kernel = { 2, 2 }, .dilation = { 1, 1 } } };

static const dt_key keys[] = {
    DT__POOL_KEYS,
    { "index", DT_KEY_BOOL, .offset = offsetof(options, index), .fallback = "false",
      .text = "make result 2: the position of each result in its plane, row W + column" },
    { 0 },
};

static dt_status shape(dt_call *c)
{
    const options *o = c->options;
    int64_t pixels;
    DT__TRY(dt__windows_shape(c, &o->pool));
    if (__builtin_mul_overflow(o->pool.kernel[0], o->pool.kernel[1], &pixels) ||
        pixels > INT32_MAX) {
        return dt_refuse(c, DT_ERR_SHAPE, "a window may have at most %d pixels", INT32_MAX);
    }
    const dt_tensor *x = c->in[0], *y = c->y;
    if (o->index && x->dims[2] > 0 && x->dims[3] > INT32_MAX / x->dims[2]) {
        return dt_refuse(c, DT_ERR_SHAPE, "an index of int32 cannot tell the pixels of a plane");
    }
    c->state[0] = pixels > BYTE_PIXELS;
    if (!c->recording && !o->index) return DT_OK;
    DT__TRY(dt_result(c, AT, pixels > BYTE_PIXELS ? DT_I32 : DT_U8, 4, y->dims));
    return o->index ? dt_result(c, INDEX, DT_I32, 4, y->dims) : DT_OK;
}

static dt__windows pool_of(const dt_call *c)
{
    dt__windows p = dt__windows_of(c, &((const options *)c->options)->pool);
    p.wide = c->state[0] != 0;
    if (c->n_out > AT) p.at = dt__data_mut(c->out[AT]);
    return p;
}

static void write_index(const dt__windows *p, int32_t *index)
{
    const int64_t out = p->out[0] * p->out[1];
    for (int64_t k = 0; k < p->planes * out; k++) {
        const int64_t i = k % out / p->out[1], j = k % p->out[1];
        const int64_t number = p->wide ? ((const int32_t *)p->at)[k] : ((const uint8_t *)p->at)[k];
        const int64_t a = number / p->kernel[1], b = number % p->kernel[1];
        const int64_t row = i * p->stride[0] - p->padding[0] + a * p->dilation[0];
        const int64_t column = j * p->stride[1] - p->padding[1] + b * p->dilation[1];
        index[k] = (int32_t)(row * p->in[1] + column);
    }
}

static void forward(const dt_call *c)
{
    dt__windows p = pool_of(c);
    p.x = dt__data(c->arg[0]);
    p.y = dt__data_mut(c->y);
    c->kernels->max_pool(&p);
    if (c->n_out > INDEX) write_index(&p, dt__data_mut(c->out[INDEX]));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__windows p = pool_of(c);
    c->kernels->max_pool_backward(&p, dt__data(dy), dt__data_mut(dx[0]));
}

const dt_op dt__op_max_pool2d = {
    .name = "max_pool2d",
    .text = "the largest pixel of each window",
    .in_name = { "x" },
    .out_name = { "y", "at", "index" },
    .saves = { .out = { DT_NOTHING, DT_VALUE } },
    .options_size = sizeof(options),
    .defaults = &defaults,
    .keys = keys,
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

dt_tensor *dt_max_pool2d(dt_tape *t, dt_tensor *x, const dt_pool_options *o, dt_tensor **index)
{
    options with = defaults;
    dt_tensor *out[3] = { NULL };
    if (o != NULL) with.pool = *o;
    with.index = index != NULL;
    dt_apply_n(t, &dt__op_max_pool2d, DT__CALL_WITH(&with, x), out, 3);
    if (index != NULL) *index = out[INDEX];
    return out[Y];
}

#define WITH(...)                                                                                  \
    &(const options)                                                                               \
    {                                                                                              \
        .pool = { __VA_ARGS__ }                                                                    \
    }

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 1, 2, 4 }, .given = true, .values = { 1, 3, -1, -2, 2, 0, -4, -3 } } },
      .n_y = 2, .y = { 3, -1 } },
    { "ties, and padding that is never chosen",
      .in = { { { 1, 1, 2, 2 }, .given = true, .values = { -1, -1, -1, -2 } } },
      .options = WITH(.kernel = { 2, 2 }, .padding = { 1, 1 }, .stride = { 1, 1 }), .n_y = 9,
      .y = { -1, -1, -1, -1, -1, -1, -1, -1, -2 }, .rough = true },
    { "quarters with a rest", .in = { { { 2, 3, 5, 7 } } } },
    { "quarters, wide", .in = { { { 2, 2, 4, 140 } } }, .rough = true },
    { "threes that overlap", .in = { { { 2, 2, 7, 6 } } },
      .options = WITH(.kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 }) },
    { "ceil", .in = { { { 1, 2, 6, 8 } } },
      .options = WITH(.kernel = { 3, 2 }, .stride = { 2, 3 }, .ceil_mode = true) },
    { "dilation", .in = { { { 1, 2, 8, 9 } } },
      .options =
          WITH(.kernel = { 2, 3 }, .stride = { 3, 1 }, .padding = { 0, 1 }, .dilation = { 4, 2 }) },
    { "a wide row", .in = { { { 1, 2, 3, 200 } } },
      .options = WITH(.kernel = { 2, 3 }, .stride = { 1, 1 }, .padding = { 1, 1 }), .rough = true },
    { "a window of 300", .in = { { { 2, 1, 15, 21 } } },
      .options = WITH(.kernel = { 15, 20 }, .stride = { 1, 1 }) },
    { "threads", .in = { { { 4, 8, 33, 31 } } },
      .options = WITH(.kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 }), .rough = true },
    { "quarters of threads", .in = { { { 4, 8, 33, 31 } } }, .rough = true },
    { "no images", .in = { { { 0, 2, 4, 4 } } } },
    { "does not fit", .in = { { { 1, 1, 3, 3 } } }, .options = WITH(.kernel = { 2, 4 }),
      .fails = DT_ERR_SHAPE, .says = "a window of 4 does not fit width 3 with padding 0" },
    { "no rows", .in = { { { 1, 1, 0, 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "does not fit height 0" },
    { "too much padding", .in = { { { 1, 1, 3, 3 } } },
      .options = WITH(.kernel = { 2, 2 }, .padding = { 2, 0 }), .fails = DT_ERR_ARG,
      .says = "padding 2 of the height is more than half of a window of 2" },
    { "without a pixel", .in = { { { 1, 1, 4, 1 } } },
      .options = WITH(.kernel = { 2, 2 }, .padding = { 0, 2 }, .dilation = { 1, 3 }),
      .fails = DT_ERR_SHAPE, .says = "in the padding of the width, without a pixel" },
    { "kernel", .in = { { { 1, 1, 3, 3 } } }, .options = WITH(.kernel = { 0, 2 }),
      .fails = DT_ERR_ARG, .says = "kernel of the height is 0, below 1" },
    { "stride", .in = { { { 1, 1, 3, 3 } } },
      .options = WITH(.kernel = { 2, 2 }, .stride = { 1, -1 }), .fails = DT_ERR_ARG,
      .says = "stride of the width is -1" },
    { "padding", .in = { { { 1, 1, 3, 3 } } },
      .options = WITH(.kernel = { 2, 2 }, .padding = { -1, 0 }), .fails = DT_ERR_ARG,
      .says = "padding of the height is -1" },
    { "dilation below 1", .in = { { { 1, 1, 3, 3 } } },
      .options = WITH(.kernel = { 2, 2 }, .dilation = { -1, 0 }), .fails = DT_ERR_ARG,
      .says = "dilation of the height is -1" },
    { "overflow", .in = { { { 1, 1, 3, 3 } } },
      .options = WITH(.kernel = { INT64_MAX, 2 }, .dilation = { 3, 1 }), .fails = DT_ERR_SHAPE,
      .says = "the height of a window is too large" },
    { "padding without end", .in = { { { 1, 1, 3, 3 } } },
      .options = WITH(.kernel = { INT64_MAX, 2 }, .padding = { INT64_MAX / 2, 0 }),
      .fails = DT_ERR_SHAPE, .says = "does not fit height 3" },
    { "rank", .in = { { { 3, 4, 4 } } }, .fails = DT_ERR_SHAPE, .says = "rank 3" },
    { "integers", .in = { { { 1, 1, 2, 2 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(max_pool2d, cases)
