/* The Huber loss (Huber 1964).  With e = x - target,
 *     l = sum of e^2 / 2 where |e| <= delta, else delta (|e| - delta / 2), over n for the mean
 *     dx = clamp(e, -delta, delta) dl / n, dtarget = -dx */
#include "ops/ops_list.h"
#include "ops/elementwise/pointwise.h"

#include <math.h>

typedef struct options {
    int reduction;
    double delta;
} options;

static const options defaults = { DT_REDUCE_MEAN, 1 };

static const dt_key keys[] = {
    DT__REDUCTION_KEY(options),
    { "delta", DT_KEY_REAL, .offset = offsetof(options, delta), .most = 1e30, .fallback = "1" },
    { 0 },
};

static dt_status shape(dt_call *c)
{
    const options *o = c->options;
    DT__TRY(dt__want_operands(c, 2, 2));
    if (!(o->delta > 0 && isfinite(o->delta))) {
        return dt_refuse(c, DT_ERR_ARG, "delta is %g: expected above 0 and finite", o->delta);
    }
    return dt__pointwise_shape(c, o->reduction);
}

static dt__pointwise problem(const dt_call *c)
{
    const options *o = c->options;
    dt__pointwise p = dt__pointwise_of(c, o->reduction);
    p.delta = o->delta;
    return p;
}

static void forward(const dt_call *c)
{
    const dt__pointwise p = problem(c);
    c->kernels->huber_loss(&p, dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__pointwise p = problem(c);
    dt__pointwise_backward(&p, dy, dx, c->kernels->huber_loss_backward);
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    const options *o = given;
    dt_tensor *e = dt_sub(t, in[0], in[1]), *near = dt_clamp(t, e, -o->delta, o->delta);
    dt_tensor *half = dt_mul(t, dt_square(t, near), dt_number(t, e, 0.5)); /* e^2 / 2 there */
    dt_tensor *far = dt_sub(t, dt_abs(t, e), dt_abs(t, near));
    e = dt_add(t, half, dt_mul(t, far, dt_number(t, e, o->delta)));
    out[0] = dt__reduced(t, e, o->reduction);
}

const dt_op dt__op_huber_loss = {
    .name = "huber_loss",
    .text = "the mean or sum of e^2 / 2 where |e| <= delta, else delta (|e| - delta / 2), "
            "e = x - target",
    .in_name = { "x", "target" },
    .out_name = { "loss" },
    .saves = { .arg = { DT_VALUE, DT_VALUE } },
    DT__OP_OPTIONS(options, defaults, keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .lower = lower,
};

dt_tensor *dt_huber_loss(dt_tape *t, dt_tensor *x, dt_tensor *target, double delta, int reduction)
{
    const options o = { reduction, delta };
    return dt_apply(t, &dt__op_huber_loss, DT__CALL_WITH(&o, x, target));
}

#define BY(...) DT__WITH(options, __VA_ARGS__)

static const dt__case cases[] = {
    { "values", /* 1/2, 3 - 1/2, 1/8 */
      .in = { { { 3 }, .given = true, .values = { 1, 2, 4 } },
              { { 3 }, .given = true, .values = { 0, 5, 4.5 } } },
      .n_y = 1, .y = { 3.125 / 3 }, .rough = true },
    { "delta", /* 2 (5 - 1), 1/2 */
      .in = { { { 2 }, .given = true, .values = { -1, 2 } },
              { { 2 }, .given = true, .values = { 4, 1 } } },
      .options = BY(DT_REDUCE_SUM, 2), .n_y = 1, .y = { 8.5 } },
    { "squared", .in = { { { 3, 7 } }, { { 3, 7 } } }, .options = BY(DT_REDUCE_MEAN, 3) },
    { "linear", .in = { { { 3, 7 } }, { { 3, 7 }, .low = 2, .high = 3 } },
      .options = BY(DT_REDUCE_SUM, 0.5) },
    { "long", .in = { { { 50000 } }, { { 50000 } } }, .rough = true },
    { "empty", .in = { { { 0, 3 } }, { { 0, 3 } } }, .options = BY(DT_REDUCE_SUM, 1), .n_y = 1,
      .y = { 0 } },
    { "shape", .in = { { { 3 } }, { { 3, 1 } } }, .fails = DT_ERR_SHAPE,
      .says = "target must be [3]" },
    { "no delta", .in = { { { 3 } }, { { 3 } } }, .options = BY(DT_REDUCE_SUM, 0),
      .fails = DT_ERR_ARG, .says = "delta is 0" },
    { "reduction", .in = { { { 3 } }, { { 3 } } }, .options = BY(2, 1), .fails = DT_ERR_ARG },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 }, { { 3 } } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(huber_loss, cases)
