/* Binary cross entropy of logits x and targets t in 0 ... 1.  With w the weight of positive targets
 * in a column (1 unless given),
 *     l = sum of (1 - t) x + (1 + (w - 1) t) log(1 + exp(-x)), over n for the mean
 *     dx = (1 - t - (1 + (w - 1) t) sigmoid(-x)) dl / n
 * log(1 + exp(-x)) is computed as max(-x, 0) + log1p(exp(-|x|)), which does not overflow. */
#include "ops/ops_list.h"

#include <math.h>
#include "ops/elementwise/pointwise.h"

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, 2, 3));
    DT__TRY(dt__pointwise_shape(c, dt__loss_reduction(c->options)));
    if (c->in[2] == NULL) return DT_OK;
    DT__TRY(dt__want_rank(c, 0, 1, DT_MAX_RANK));
    DT__TRY(dt__want_dtype(c, 2, c->in[0]->dtype));
    return dt__want_dims(c, 2, 1, &(int64_t){ dt__columns(c->in[0]) });
}

static dt__pointwise problem(const dt_call *c)
{
    dt__pointwise p = dt__pointwise_of(c, dt__loss_reduction(c->options));
    p.columns = dt__columns(c->arg[0]);
    p.weight = c->arg[2] == NULL ? NULL : dt__data(c->arg[2]);
    return p;
}

static void forward(const dt_call *c)
{
    const dt__pointwise p = problem(c);
    c->kernels->bce_with_logits(&p, dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__pointwise p = problem(c);
    dt__pointwise_backward(&p, dy, dx, c->kernels->bce_with_logits_backward);
}

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    dt_tensor *x = in[0], *target = in[1], *one = dt_number(t, x, 1), *factor = one;
    if (in[2] != NULL) {
        factor = dt_add(t, dt_mul(t, target, dt_sub(t, in[2], one)), one);
    }
    dt_tensor *tail = dt_log(t, dt_add(t, one, dt_exp(t, dt_neg(t, dt_abs(t, x)))));
    tail = dt_add(t, dt_clamp(t, dt_neg(t, x), 0, INFINITY), tail);
    dt_tensor *e = dt_mul(t, dt_sub(t, one, target), x);
    e = dt_add(t, e, dt_mul(t, factor, tail));
    out[0] = dt__reduced(t, e, dt__loss_reduction(given));
}

const dt_op dt__op_bce_with_logits = {
    .name = "bce_with_logits",
    .text = "the mean or sum of (1 - target) x + (1 + (pos_weight - 1) target) log(1 + exp(-x))",
    .in_name = { "x", "target", "pos_weight" },
    .out_name = { "loss" },
    .undifferentiable = { false, true, true },
    .optional = { false, false, true },
    .saves = { .arg = { DT_VALUE, DT_VALUE, DT_VALUE } },
    DT__OP_OPTIONS(dt__loss_options, dt__loss_defaults, dt__loss_keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .lower = lower,
};

dt_tensor *dt_bce_with_logits(dt_tape *t, dt_tensor *x, dt_tensor *target, dt_tensor *pos_weight,
                              int reduction)
{
    return dt_apply(t, &dt__op_bce_with_logits,
                    DT__CALL_WITH(&(dt__loss_options){ reduction }, x, target, pos_weight));
}

#define BITS(...) __VA_ARGS__, .low = 0, .high = 1

static const dt__case cases[] = {
    { "values", /* log 2, and twice log(1 + e^-100) */
      .in = { { { 3 }, .given = true, .values = { 0, 100, -100 } },
              { { 3 }, .given = true, .values = { 1, 1, 0 } } },
      .n_y = 1, .y = { 0.23104906018664842 } },
    { "positive weights", /* 3 log 2, log 2, 5/2 + 2 log(1 + e^-5) */
      .in = { { { 3, 1 }, .given = true, .values = { 0, 0, 5 } },
              { { 3, 1 }, .given = true, .values = { 1, 0, 0.5 } },
              { { 1 }, .given = true, .values = { 3 } } },
      .options = DT__BY(DT_REDUCE_SUM), .n_y = 1, .y = { 5.286019419218017 } },
    { "soft targets", .in = { { { 4, 3 } }, { BITS({ 4, 3 }) }, { { 3 }, .low = 1, .high = 4 } } },
    { "unweighted", .in = { { { 2, 5, 3 } }, { BITS({ 2, 5, 3 }) } },
      .options = DT__BY(DT_REDUCE_SUM) },
    { "long", .in = { { { 50000 } }, { BITS({ 50000 }) } }, .rough = true },
    { "empty", .in = { { { 0, 3 } }, { { 0, 3 } } }, .options = DT__BY(DT_REDUCE_SUM), .n_y = 1,
      .y = { 0 } },
    { "shape", .in = { { { 3 } }, { { 3, 1 } } }, .fails = DT_ERR_SHAPE,
      .says = "target must be [3]" },
    { "weights", .in = { { { 2, 3 } }, { { 2, 3 } }, { { 2 } } }, .fails = DT_ERR_SHAPE,
      .says = "pos_weight must be [3]" },
    { "reduction", .in = { { { 3 } }, { { 3 } } }, .options = DT__BY(2), .fails = DT_ERR_ARG },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 }, { { 3 } } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(bce_with_logits, cases)
