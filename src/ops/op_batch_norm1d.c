/* Batch normalization per channel of [N, C] or [N, C, L] (Ioffe and Szegedy 2015).
 *     y = (x - mean) / sqrt(var + eps) * weight + bias
 * Training: the batch's mean and biased variance; the running values move towards the batch's, the
 * running variance towards the unbiased one. Evaluation: the running values, which stay. The
 * statistics that y was made with are kept in f64. */
#include "autograd/op.h"
#include "ops/ops_list.h"

#define AT(field) .offset = offsetof(dt_batch_norm_options, field)

static const dt_batch_norm_options defaults = { .training = true, .momentum = 0.1, .eps = 1e-5 };

dt_batch_norm_options dt_batch_norm_defaults(void) { return defaults; }

static const dt_key keys[] = {
    { "training", DT_KEY_BOOL, AT(training), .fallback = "true",
      .text = "take the batch's statistics and move the running ones" },
    { "momentum", DT_KEY_REAL, AT(momentum), .most = 1, .fallback = "0.1",
      .text = "share of the batch's statistics in the new running ones" },
    { "eps", DT_KEY_REAL, AT(eps), .most = 1, .fallback = "1e-5", .text = "added to the variance" },
    { 0 },
};

static bool training(const void *options)
{
    return ((const dt_batch_norm_options *)options)->training;
}

static dt_status check_options(const dt_call *c)
{
    const dt_batch_norm_options *o = c->options;
    if (!(o->eps >= 0)) return dt_refuse(c, DT_ERR_ARG, "eps is %g, below 0", o->eps);
    if (o->momentum >= 0 && o->momentum <= 1) return DT_OK;
    return dt_refuse(c, DT_ERR_ARG, "momentum is %g, outside 0...1", o->momentum);
}

static dt_status shape(dt_call *c)
{
    const dt_tensor *x = c->in[0];
    DT__TRY(dt__want_operands(c, 5, 5));
    for (int i = 0; i < 5; i++) DT__TRY(dt__want_float(c, i));
    DT__TRY(dt__want_rank(c, 0, 2, 3));
    for (int i = 1; i < 5; i++) DT__TRY(dt__want_dims(c, i, 1, x->dims + 1));
    DT__TRY(check_options(c));
    const int64_t values = x->dims[0] * (x->rank == 3 ? x->dims[2] : 1);
    if (training(c->options) && values < 2 && x->dims[1] > 0) {
        return dt_refuse(c, DT_ERR_SHAPE, "%lld values a channel; training wants at least 2",
                         (long long)values);
    }
    DT__TRY(dt_result(c, 0, x->dtype, x->rank, x->dims));
    return dt_result(c, 1, DT_F64, 2, (const int64_t[]){ 3, x->dims[1] });
}

static dt__batch_norm problem(const dt_call *c)
{
    const dt_batch_norm_options *o = c->options;
    const dt_tensor *x = c->arg[0];
    return (dt__batch_norm){ .lines = { x->dims[0], x->dims[1], x->rank == 3 ? x->dims[2] : 1 },
                             .eps = o->eps,
                             .training = o->training,
                             .x = dt__data(x),
                             .weight = dt__data(c->arg[1]),
                             .bias = dt__data(c->arg[2]),
                             .stats = dt__data_mut(c->out[1]) };
}

static void forward(const dt_call *c)
{
    const dt_batch_norm_options *o = c->options;
    dt__batch_norm b = problem(c);
    b.y = dt__data_mut(c->y);
    void *mean = dt__data_mut(c->arg[3]), *var = dt__data_mut(c->arg[4]);
    if (o->training) {
        c->kernels->batch_norm_stats(&b);
        c->kernels->batch_norm_running(&b, o->momentum, mean, var);
    } else {
        c->kernels->batch_norm_standing(&b, mean, var);
    }
    c->kernels->batch_norm(&b);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__batch_norm b = problem(c);
    void *d[3] = { NULL };
    for (int i = 0; i < 3; i++) d[i] = dx[i] != NULL ? dt__data_mut(dx[i]) : NULL;
    c->kernels->batch_norm_backward(&b, dt__data(dy), d);
}

const dt_op dt__op_batch_norm1d = {
    .name = "batch_norm1d",
    .text = "y = (x - mean) / sqrt(var + eps) * weight + bias per channel",
    .in_name = { "x", "weight", "bias", "running_mean", "running_var" },
    .out_name = { "y", "stats" },
    .role = { DT_READ, DT_READ, DT_READ, DT_WRITE, DT_WRITE },
    .writes = training,
    .undifferentiable = { false, false, false, true, true },
    .saves = { .arg = { DT_VALUE, DT_VALUE }, .out = { DT_NOTHING, DT_VALUE } },
    .options_size = sizeof(dt_batch_norm_options),
    .defaults = &defaults,
    .keys = keys,
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

dt_tensor *dt_batch_norm1d(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                           dt_tensor *running_mean, dt_tensor *running_var,
                           const dt_batch_norm_options *options)
{
    return dt_apply(t, &dt__op_batch_norm1d,
                    DT__CALL_WITH(options, x, weight, bias, running_mean, running_var));
}

#define EVALUATION                                                                                 \
    &(const dt_batch_norm_options) { .eps = 1e-5 }
#define FOUR(...)                                                                                  \
    { __VA_ARGS__ }, { __VA_ARGS__ }, { __VA_ARGS__ }, { __VA_ARGS__, .low = 0.5, .high = 2 }
#define ONE(v)                                                                                     \
    {                                                                                              \
        { 1 }, .given = true, .values = { v }                                                      \
    }
#define PAIR(a, b) ONE(a), ONE(b)

static const dt__case cases[] = {
    { "values", .in = { { { 2, 1 }, .given = true, .values = { 1, 3 } }, PAIR(2, 0.5), PAIR(0, 1) },
      .options = &(const dt_batch_norm_options){ true, 0.5, 0 }, .n_y = 2, .y = { -1.5, 2.5 } },
    { "standing",
      .in = { { { 2, 1 }, .given = true, .values = { 1, 3 } }, PAIR(2, 0.5), PAIR(1, 4) },
      .options = &(const dt_batch_norm_options){ false, 0.5, 0 }, .n_y = 2, .y = { 0.5, 2.5 } },
    { "random", .in = { { { 6, 19 } }, FOUR({ 19 }) } },
    { "signals", .in = { { { 3, 4, 5 } }, FOUR({ 4 }) } },
    { "evaluation", .in = { { { 4, 3, 2 } }, FOUR({ 3 }) }, .options = EVALUATION },
    { "large", .in = { { { 300, 33 } }, FOUR({ 33 }) }, .rough = true },
    { "no rows", .in = { { { 0, 3 } }, FOUR({ 3 }) }, .options = EVALUATION },
    { "no channels", .in = { { { 3, 0 }, 2 }, FOUR({ 0 }, 1) } },
    { "one value", .in = { { { 1, 3 } }, FOUR({ 3 }) }, .fails = DT_ERR_SHAPE,
      .says = "1 values a channel" },
    { "channels", .in = { { { 2, 3 } }, FOUR({ 2 }) }, .fails = DT_ERR_SHAPE,
      .says = "weight must be [3]" },
    { "rank", .in = { { { 3 } }, FOUR({ 3 }) }, .fails = DT_ERR_SHAPE, .says = "rank 1" },
    { "momentum", .in = { { { 2, 3 } }, FOUR({ 3 }) },
      .options = &(const dt_batch_norm_options){ true, 2, 0 }, .fails = DT_ERR_ARG,
      .says = "momentum is 2" },
    { "integers", .in = { { { 2, 3 }, .dtype = DT_I32 }, FOUR({ 3 }) }, .fails = DT_ERR_DTYPE },
};
DT__CASES(batch_norm1d, cases)
