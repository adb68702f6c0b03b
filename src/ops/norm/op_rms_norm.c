/* Root mean square normalization of rows (Zhang and Sennrich 2019).
 *     y = x r weight      r = 1 / sqrt(mean of x^2 + eps)
 * r of every row is kept for backward in f64. */
#include "autograd/op.h"
#include "ops/ops_list.h"

typedef struct options {
    double eps;
} options;

static const options defaults = { 1e-5 };

static const dt_key keys[] = {
    { "eps", DT_KEY_REAL, .offset = offsetof(options, eps), .most = 1, .fallback = "1e-5" },
    { 0 },
};

static dt_status shape(dt_call *c)
{
    const options *o = c->options;
    const dt_tensor *x = c->in[0];
    DT__TRY(dt__want_operands(c, 1, 2));
    for (int i = 0; i < c->n_in; i++) DT__TRY(dt__want_float(c, i));
    DT__TRY(dt__want_rank(c, 0, 1, DT_MAX_RANK));
    if (!(o->eps >= 0)) return dt_refuse(c, DT_ERR_ARG, "eps is %g, below 0", o->eps);
    if (c->n_in > 1) DT__TRY(dt__want_dims(c, 1, 1, x->dims + x->rank - 1));
    DT__TRY(dt_result(c, 0, x->dtype, x->rank, x->dims));
    return dt_result(c, 1, DT_F64, 1, (const int64_t[]){ dt__rows(x) });
}

static dt__rms_norm problem(const dt_call *c)
{
    const options *o = c->options;
    return (dt__rms_norm){ .rows = dt__rows(c->arg[0]),
                           .n = dt__columns(c->arg[0]),
                           .eps = o->eps,
                           .x = dt__data(c->arg[0]),
                           .weight = c->n_in > 1 ? dt__data(c->arg[1]) : NULL,
                           .rstd = dt__data_mut(c->out[1]) };
}

static void forward(const dt_call *c)
{
    dt__rms_norm m = problem(c);
    m.y = dt__data_mut(c->y);
    c->kernels->rms_norm(&m);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__rms_norm m = problem(c);
    void *d[2] = { NULL };
    for (int i = 0; i < c->n_in; i++) d[i] = dx[i] != NULL ? dt__data_mut(dx[i]) : NULL;
    c->kernels->rms_norm_backward(&m, dt__data(dy), d);
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    dt_tensor *x = in[0], *eps = dt_number(t, x, ((const options *)given)->eps);
    dt_tensor *mean = dt_mean(t, dt_square(t, x), &(dt_reduce_options){ { 1, { -1 } }, true });
    x = dt_div(t, x, dt_sqrt(t, dt_add(t, mean, eps)));
    out[0] = in[1] != NULL ? dt_mul(t, x, in[1]) : x;
}

const dt_op dt__op_rms_norm = {
    .name = "rms_norm",
    .text = "y = x / sqrt(mean of x^2 + eps) * weight over the last dimension",
    .in_name = { "x", "weight" },
    .out_name = { "y", "rstd" },
    .saves = { .arg = { DT_VALUE, DT_VALUE }, .out = { DT_NOTHING, DT_VALUE } },
    DT__OP_OPTIONS(options, defaults, keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .lower = lower,
};

dt_tensor *dt_rms_norm(dt_tape *t, dt_tensor *x, dt_tensor *weight, double eps)
{
    return dt_apply(t, &dt__op_rms_norm, (dt_tensor *[]){ x, weight }, weight != NULL ? 2 : 1,
                    &(options){ eps });
}

#define WITH(eps) DT__WITH(options, eps)

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 2 }, .given = true, .values = { 1, 7 } },
              { { 2 }, .given = true, .values = { 2, -3 } } },
      .options = WITH(0), .n_y = 2, .y = { 0.4, -4.2 } },
    { "random", .in = { { { 3, 13 } }, { { 13 } } } },
    { "rank 3", .in = { { { 2, 3, 8 } }, { { 8 } } }, .options = WITH(1e-2) },
    { "one row", .in = { { { 19 } }, { { 19 } } } },
    { "no weight", .in = { { { 3, 5 } } } },
    { "long", .in = { { { 300, 70 } }, { { 70 } } }, .rough = true },
    { "wide", .in = { { { 5, 5000 } }, { { 5000 } } }, .rough = true },
    { "zeros", .in = { { { 1, 2 }, .given = true, .values = { 0, 0 } }, { { 2 } } }, .n_y = 2,
      .y = { 0, 0 }, .rough = true },
    { "empty", .in = { { { 0, 3 } }, { { 3 } } } },
    { "empty rows", .in = { { { 3, 0 }, 2 } } },
    { "weight", .in = { { { 2, 3 } }, { { 2 } } }, .fails = DT_ERR_SHAPE,
      .says = "weight must be [3]" },
    { "eps", .in = { { { 2, 3 } } }, .options = WITH(-1), .fails = DT_ERR_ARG, .says = "eps" },
    { "rank", .in = { { .r = DT__SCALAR } }, .fails = DT_ERR_SHAPE, .says = "rank 0" },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(rms_norm, cases)
