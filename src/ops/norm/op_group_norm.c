/* Group normalization: over groups of channels of each sample (Wu and He 2018).
 *     y = (x - mean) / sqrt(var + eps) * weight + bias
 * with the mean and biased variance of all pixels of a group's channels; weight and bias are per
 * channel. The statistics are kept for backward in f64. */
#include "autograd/op.h"
#include "ops/ops_list.h"

static const dt_group_norm_options defaults = { .groups = 1, .eps = 1e-5 };

#define AT(field) .offset = offsetof(dt_group_norm_options, field)

static const dt_key keys[] = {
    { "groups", DT_KEY_INT, AT(groups), .least = 1, .most = 1 << 24, .fallback = "1" },
    { "eps", DT_KEY_REAL, AT(eps), .most = 1, .fallback = "1e-5" },
    { 0 },
};

static dt_status check_options(const dt_call *c)
{
    const dt_group_norm_options *o = c->options;
    const int64_t channels = c->in[0]->dims[1];
    if (!(o->eps >= 0)) return dt_refuse(c, DT_ERR_ARG, "eps is %g, below 0", o->eps);
    if (o->groups >= 1 && channels % o->groups == 0) return DT_OK;
    return dt_refuse(c, DT_ERR_ARG, "%lld groups do not divide %lld channels", (long long)o->groups,
                     (long long)channels);
}

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, 1, 3));
    for (int i = 0; i < c->n_in; i++) {
        if (c->in[i] != NULL) DT__TRY(dt__want_float(c, i));
    }
    DT__TRY(dt__want_rank(c, 0, 2, DT_MAX_RANK));
    const dt_tensor *x = c->in[0];
    for (int i = 1; i < c->n_in; i++) {
        if (c->in[i] != NULL) DT__TRY(dt__want_dims(c, i, 1, x->dims + 1));
    }
    DT__TRY(check_options(c));
    DT__TRY(dt_result(c, 0, x->dtype, x->rank, x->dims));
    const int64_t rows = x->dims[0] * ((const dt_group_norm_options *)c->options)->groups;
    return dt_result(c, 1, DT_F64, 2, (const int64_t[]){ rows, 2 });
}

static dt__group_norm problem(const dt_call *c)
{
    const dt_group_norm_options *o = c->options;
    const dt_tensor *x = c->arg[0], *weight = c->arg[1], *bias = c->arg[2];
    dt__group_norm g = { .outer = x->dims[0],
                         .groups = o->groups,
                         .channels = x->dims[1] / o->groups,
                         .inner = 1,
                         .eps = o->eps,
                         .x = dt__data(x),
                         .weight = weight == NULL ? NULL : dt__data(weight),
                         .bias = bias == NULL || bias->storage == NULL ? NULL : dt__data(bias),
                         .stats = dt__data_mut(c->out[1]),
                         .room = c->scratch };
    for (int i = 2; i < x->rank; i++) g.inner *= x->dims[i];
    return g;
}

static void forward(const dt_call *c)
{
    dt__group_norm g = problem(c);
    g.y = dt__data_mut(c->y);
    c->kernels->group_norm(&g);
}

static size_t scratch(const dt_call *c)
{
    return (size_t)(c->arg[0]->dims[0] * c->arg[0]->dims[1]) * 2 * sizeof(double);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__group_norm g = problem(c);
    void *d[3] = { NULL };
    for (int i = 0; i < c->n_in; i++) d[i] = dx[i] != NULL ? dt__data_mut(dx[i]) : NULL;
    c->kernels->group_norm_backward(&g, dt__data(dy), d);
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    const dt_group_norm_options *o = given;
    dt_tensor *x = in[0];
    const int64_t inner = x->dims[0] == 0 ? 0 : x->count / x->dims[0] / dt__max_i64(1, o->groups);
    const dt_layer_norm_options row = { 1, o->eps };
    const int64_t groups[] = { x->dims[0], o->groups, inner };
    int64_t channels[DT_MAX_RANK] = { x->dims[1] };
    for (int i = 2; i < x->rank; i++) channels[i - 1] = 1;
    dt_tensor *y = dt_layer_norm(t, dt_reshape(t, x, 3, groups), NULL, NULL, &row);
    y = dt_reshape(t, y, x->rank, x->dims);
    if (in[1] != NULL) y = dt_mul(t, y, dt_reshape(t, in[1], x->rank - 1, channels));
    if (in[2] != NULL) y = dt_add(t, y, dt_reshape(t, in[2], x->rank - 1, channels));
    out[0] = y;
}

const dt_op dt__op_group_norm = {
    .name = "group_norm",
    .text = "y = (x - mean) / sqrt(var + eps) * weight + bias per sample and group of channels",
    .in_name = { "x", "weight", "bias" },
    .out_name = { "y", "stats" },
    .optional = { false, true, true },
    .over_dy = { true },
    .saves = { .arg = { DT_VALUE, DT_VALUE }, .out = { DT_NOTHING, DT_VALUE } },
    DT__OP_OPTIONS(dt_group_norm_options, defaults, keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .scratch = scratch,
    .lower = lower,
};

dt_tensor *dt_group_norm(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                         const dt_group_norm_options *options)
{
    return dt_apply(t, &dt__op_group_norm, DT__CALL_WITH(options, x, weight, bias));
}

#define GROUPS(n) DT__WITH(dt_group_norm_options, n, 1e-5)

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 2, 1 }, .given = true, .values = { 1, 3 } },
              { { 2 }, .given = true, .values = { 2, 1 } },
              { { 2 }, .given = true, .values = { 0.5, 0 } } },
      .options = &(const dt_group_norm_options){ 1, 0 }, .n_y = 2, .y = { -1.5, 1 } },
    { "images", .in = { { { 3, 6, 4, 5 } }, { { 6 } }, { { 6 } } }, .options = GROUPS(3) },
    { "no weight", .in = { { { 2, 4, 7 } }, { .absent = true }, { { 4 } } }, .options = GROUPS(2) },
    { "no bias", .in = { { { 2, 4, 7 } }, { { 4 } } }, .options = GROUPS(2) },
    { "points", .in = { { { 4, 12 } }, { { 12 } }, { { 12 } } }, .options = GROUPS(2) },
    { "a group a channel", .in = { { { 2, 3, 5, 7 } } }, .options = GROUPS(3) },
    { "large", .in = { { { 6, 8, 23, 19 } }, { { 8 } }, { { 8 } } }, .options = GROUPS(2),
      .rough = true },
    { "no images", .in = { { { 0, 4, 3 } }, { { 4 } }, { { 4 } } }, .options = GROUPS(2) },
    { "no pixels", .in = { { { 2, 4, 0 }, 3 }, { { 4 } }, { { 4 } } }, .options = GROUPS(2) },
    { "no channels", .in = { { { 2, 0, 3 }, 3 } }, .options = GROUPS(2) },
    { "groups", .in = { { { 2, 4, 3 } } }, .options = GROUPS(3), .fails = DT_ERR_ARG,
      .says = "3 groups do not divide 4 channels" },
    { "eps", .in = { { { 2, 4, 3 } } }, .options = &(const dt_group_norm_options){ 2, -1 },
      .fails = DT_ERR_ARG, .says = "eps is -1" },
    { "channels", .in = { { { 2, 4, 3 } }, { { 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "weight must be [4]" },
    { "rank", .in = { { { 4 } } }, .fails = DT_ERR_SHAPE, .says = "rank 1" },
    { "integers", .in = { { { 2, 4, 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(group_norm, cases)
