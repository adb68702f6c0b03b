/* Relu with a learned slope below 0, one for each channel or one for all (He et al. 2015).
 *     y = x > 0 ? x : slope[c] x      dx = x > 0 ? dy : slope[c] dy
 *         dslope[c] = sum of x dy over elements of channel c that are not above 0
 * x is [N, C, ...]; slope [C], or [1] for x of any rank. */
#include "autograd/op.h"
#include "ops/ops_list.h"

enum { X, SLOPE };

/* x as [outer][slopes][inner] */
static dt__lines lines_of(const dt_tensor *x, const dt_tensor *slope)
{
    if (x->count == 0) return (dt__lines){ 0, 0, 0 };
    const int64_t outer = x->rank == 0 ? 1 : x->dims[0], n = slope->dims[0];
    return (dt__lines){ outer, n, x->count / outer / n };
}

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, 2, 2));
    DT__TRY(dt__want_float(c, X));
    DT__TRY(dt__want_float(c, SLOPE));
    DT__TRY(dt__want_rank(c, SLOPE, 1, 1));
    const dt_tensor *x = c->in[X], *slope = c->in[SLOPE];
    const int64_t channels = x->rank < 2 ? 1 : x->dims[1];
    if (slope->dims[0] != 1 && slope->dims[0] != channels) {
        return dt_refuse(c, DT_ERR_SHAPE, "%lld slopes; x has %lld channels, and 1 is for all",
                         (long long)slope->dims[0], (long long)channels);
    }
    return dt_result(c, 0, x->dtype, x->rank, x->dims);
}

static dt__prelu prelu_of(const dt_call *c)
{
    return (dt__prelu){ lines_of(c->in[X], c->in[SLOPE]), dt__data(c->arg[X]),
                        dt__data(c->arg[SLOPE]) };
}

static void forward(const dt_call *c)
{
    const dt__prelu p = prelu_of(c);
    c->kernels->prelu(&p, dt__data_mut(c->y));
}

static size_t scratch(const dt_call *c) { return c->wants[SLOPE] ? dt__bytes_of(c->y) : 0; }

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__prelu p = prelu_of(c);
    if (dx[SLOPE] != NULL) {
        c->kernels->prelu_terms(dy->count, p.x, dt__data(dy), c->scratch);
        c->kernels->sum(&(dt__reduce){ .rank = 3,
                                       .dims = { p.lines.outer, dx[SLOPE]->count, p.lines.inner },
                                       .over = { true, false, true },
                                       .divisor = 1,
                                       .x = c->scratch,
                                       .y = dt__data_mut(dx[SLOPE]) });
    }
    if (dx[X] != NULL) c->kernels->prelu_backward(&p, dt__data(dy), dt__data_mut(dx[X]));
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *options, dt_tensor **out)
{
    (void)options;
    dt_tensor *x = in[X], *slope = in[SLOPE];
    int64_t dims[DT_MAX_RANK] = { slope->dims[0] };
    int rank = x->rank == 0 ? 0 : 1;
    for (int i = 2; i < x->rank && slope->dims[0] != 1; i++) dims[rank++] = 1;
    dt_tensor *below = dt_mul(t, x, dt_reshape(t, slope, rank, dims));
    out[0] = dt_where(t, x, x, below);
}

const dt_op dt__op_prelu = {
    .name = "prelu",
    .text = "y = x where x > 0, else slope[c] x",
    .in_name = { "x", "slope" },
    .out_name = { "y" },
    .saves = { .arg = { DT_VALUE, DT_VALUE } },
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .scratch = scratch,
    .over_dy = { true },
    .lower = lower,
};

dt_tensor *dt_prelu(dt_tape *t, dt_tensor *x, dt_tensor *slope)
{
    return dt_apply(t, &dt__op_prelu, DT__CALL(x, slope));
}

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 2, 2 }, .given = true, .values = { -2, 3, -1, -4 } },
              { { 2 }, .given = true, .values = { 0.25, -0.5 } } },
      .n_y = 4, .y = { -0.5, 3, 0.5, 2 } },
    { "zeros",
      .in = { { { 2 }, .given = true, .values = { -0.0, 0 } },
              { { 1 }, .given = true, .values = { 0.25 } } },
      .n_y = 2, .y = { 0, 0 }, .rough = true },
    { "images", .in = { { { 2, 3, 4, 5 } }, { { 3 } } } },
    { "rows of channels", .in = { { { 7, 5 } }, { { 5 } } } },
    { "one slope", .in = { { { 2, 3, 4, 5 } }, { { 1 } } } },
    { "one slope and one dimension", .in = { { { 7 } }, { { 1 } } } },
    { "a scalar", .in = { { .r = DT__SCALAR }, { { 1 } } } },
    { "one channel", .in = { { { 3, 1, 6 } }, { { 1 } } } },
    { "long", .in = { { { 5, 9, 33, 31 } }, { { 9 } } }, .rough = true },
    { "many rows", .in = { { { 5001, 9 } }, { { 9 } } }, .rough = true },
    { "no images", .in = { { { 0, 3, 4 } }, { { 3 } } } },
    { "no pixels", .in = { { { 2, 3, 0 }, 3 }, { { 3 } } } },
    { "no channels", .in = { { { 2, 0, 4 }, .r = 3 }, { { 0 }, .r = 1 } } },
    { "slopes", .in = { { { 2, 3, 4 } }, { { 4 } } }, .fails = DT_ERR_SHAPE,
      .says = "4 slopes; x has 3 channels, and 1 is for all" },
    { "slopes of a row", .in = { { { 4 } }, { { 4 } } }, .fails = DT_ERR_SHAPE,
      .says = "4 slopes; x has 1 channels" },
    { "rank of the slopes", .in = { { { 2, 3, 4 } }, { { 3, 1 } } }, .fails = DT_ERR_SHAPE,
      .says = "rank" },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 }, { { 1 } } }, .fails = DT_ERR_DTYPE },
    { "mixed", .in = { { { 3 } }, { { 1 }, .other = true } }, .fails = DT_ERR_DTYPE,
      .says = "mix" },
};
DT__CASES(prelu, cases)
