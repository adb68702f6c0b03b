/* Layer normalization over the last dimensions (Ba, Kiros and Hinton 2016).
 *     y = (x - mean) / sqrt(var + eps) * weight + bias, biased variance
 * Mean and 1/sqrt(var + eps) of every row are kept in f64. */
#include "autograd/op.h"
#include "ops/ops_list.h"

#define AT(field) .offset = offsetof(dt_layer_norm_options, field)

static const dt_layer_norm_options defaults = { .normalized_dims = 1, .eps = 1e-5 };

dt_layer_norm_options dt_layer_norm_defaults(void) { return defaults; }

static const dt_key keys[] = {
    { "normalized_dims", DT_KEY_INT, AT(normalized_dims), .least = 1, .most = DT_MAX_RANK,
      .fallback = "1" },
    { "eps", DT_KEY_REAL, AT(eps), .most = 1, .fallback = "1e-5" },
    { 0 },
};

/* state[0]: rows; state[1]: elements of a row */
static dt_status shape(dt_call *c)
{
    const dt_layer_norm_options *o = c->options;
    const dt_tensor *x = c->in[0];
    DT__TRY(dt__want_operands(c, 1, 3));
    for (int i = 0; i < c->n_in; i++) DT__TRY(dt__want_float(c, i));
    if (o->normalized_dims < 1 || o->normalized_dims > x->rank) {
        return dt_refuse(c, DT_ERR_ARG, "normalized_dims is %lld, outside 1...%d",
                         (long long)o->normalized_dims, x->rank);
    }
    if (!(o->eps >= 0)) return dt_refuse(c, DT_ERR_ARG, "eps is %g, below 0", o->eps);
    const int inner = (int)o->normalized_dims, outer = x->rank - inner;
    for (int i = 1; i < c->n_in; i++) DT__TRY(dt__want_dims(c, i, inner, x->dims + outer));
    c->state[0] = c->state[1] = 1;
    for (int d = 0; d < x->rank; d++) c->state[d < outer ? 0 : 1] *= x->dims[d];
    DT__TRY(dt_result(c, 0, x->dtype, x->rank, x->dims));
    return dt_result(c, 1, DT_F64, 2, (const int64_t[]){ c->state[0], 2 });
}

static dt__layer_norm problem(const dt_call *c)
{
    const dt_layer_norm_options *o = c->options;
    return (dt__layer_norm){ .rows = c->state[0],
                             .n = c->state[1],
                             .eps = o->eps,
                             .x = dt__data(c->arg[0]),
                             .weight = c->n_in > 1 ? dt__data(c->arg[1]) : NULL,
                             .bias = c->n_in > 2 ? dt__data(c->arg[2]) : NULL,
                             .stats = dt__data_mut(c->out[1]) };
}

static void forward(const dt_call *c)
{
    dt__layer_norm l = problem(c);
    l.y = dt__data_mut(c->y);
    c->kernels->layer_norm(&l);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__layer_norm l = problem(c);
    void *d[3] = { NULL };
    for (int i = 0; i < c->n_in; i++) d[i] = dx[i] != NULL ? dt__data_mut(dx[i]) : NULL;
    c->kernels->layer_norm_backward(&l, dt__data(dy), d);
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    const dt_layer_norm_options *o = given;
    dt_reduce_options row = { { (int)o->normalized_dims, { 0 } }, true };
    for (int i = 0; i < row.dims.n; i++) row.dims.v[i] = -1 - i;
    dt_tensor *x = dt_sub(t, in[0], dt_mean(t, in[0], &row));
    dt_tensor *var = dt_mean(t, dt_square(t, x), &row);
    x = dt_div(t, x, dt_sqrt(t, dt_add(t, var, dt_number(t, x, o->eps))));
    if (in[1] != NULL) x = dt_mul(t, x, in[1]);
    out[0] = in[2] != NULL ? dt_add(t, x, in[2]) : x;
}

const dt_op dt__op_layer_norm = {
    .name = "layer_norm",
    .text = "y = (x - mean) / sqrt(var + eps) * weight + bias over a row",
    .in_name = { "x", "weight", "bias" },
    .out_name = { "y", "stats" },
    .saves = { .arg = { DT_VALUE, DT_VALUE }, .out = { DT_NOTHING, DT_VALUE } },
    DT__OP_OPTIONS(dt_layer_norm_options, defaults, keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .lower = lower,
};

dt_tensor *dt_layer_norm(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                         const dt_layer_norm_options *options)
{
    return dt_apply(t, &dt__op_layer_norm, (dt_tensor *[]){ x, weight, bias },
                    bias != NULL     ? 3
                    : weight != NULL ? 2
                                     : 1,
                    options);
}

#define WITH(...) DT__WITH(dt_layer_norm_options, __VA_ARGS__)

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 2 }, .given = true, .values = { 1, 3 } },
              { { 2 }, .given = true, .values = { 2, 4 } },
              { { 2 }, .given = true, .values = { 0.5, 0 } } },
      .options = WITH(1, 0), .n_y = 2, .y = { -1.5, 4 } },
    { "random", .in = { { { 3, 13 } }, { { 13 } }, { { 13 } } } },
    { "two dimensions", .in = { { { 2, 3, 4 } }, { { 3, 4 } }, { { 3, 4 } } },
      .options = WITH(2, 1e-5) },
    { "weight alone", .in = { { { 3, 5 } }, { { 5 } } } },
    { "neither", .in = { { { 3, 5 } } } },
    { "long", .in = { { { 300, 70 } }, { { 70 } }, { { 70 } } }, .rough = true },
    { "empty", .in = { { { 0, 3 } }, { { 3 } }, { { 3 } } } },
    { "empty rows", .in = { { { 3, 0 }, 2 } } },
    { "weight", .in = { { { 2, 3 } }, { { 2 } } }, .fails = DT_ERR_SHAPE,
      .says = "weight must be [3]" },
    { "dims", .in = { { { 2, 3 } } }, .options = WITH(3, 1e-5), .fails = DT_ERR_ARG,
      .says = "normalized_dims is 3" },
    { "eps", .in = { { { 2, 3 } } }, .options = WITH(1, -1), .fails = DT_ERR_ARG, .says = "eps" },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(layer_norm, cases)
