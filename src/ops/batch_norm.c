/* What batch_norm1d and batch_norm2d share: batch normalization per channel (Ioffe and Szegedy 2015).
 *     y = (x - mean) / sqrt(var + eps) * weight + bias
 * Training: the batch's mean and biased variance; the running values move towards the batch's, the
 * running variance towards the unbiased one. Evaluation: the running values, which stay. The
 * statistics that y was made with are kept in f64. */
#include "ops/batch_norm.h"

enum { X, WEIGHT, BIAS, RUNNING_MEAN, RUNNING_VAR };

#define AT(field) .offset = offsetof(dt_batch_norm_options, field)

const dt_batch_norm_options dt__batch_norm_defaults = { .training = true,
                                                        .momentum = 0.1,
                                                        .eps = 1e-5 };

dt_batch_norm_options dt_batch_norm_defaults(void) { return dt__batch_norm_defaults; }

const dt_key dt__batch_norm_keys[] = {
    { "training", DT_KEY_BOOL, AT(training), .fallback = "true",
      .text = "take the batch's statistics and move the running ones" },
    { "momentum", DT_KEY_REAL, AT(momentum), .most = 1, .fallback = "0.1",
      .text = "share of the batch's statistics in the new running ones" },
    { "eps", DT_KEY_REAL, AT(eps), .most = 1, .fallback = "1e-5", .text = "added to the variance" },
    { 0 },
};

bool dt__batch_norm_writes(const void *options)
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

/* x as rows of planes, one a channel. */
static dt__lines lines_of(const dt_tensor *x)
{
    int64_t inner = 1;
    for (int i = 2; i < x->rank; i++) inner *= x->dims[i];
    return (dt__lines){ x->dims[0], x->dims[1], inner };
}

dt_status dt__batch_norm_shape(dt_call *c)
{
    const dt_tensor *x = c->in[X];
    for (int i = 0; i < 5; i++) {
        if (c->in[i] != NULL) DT__TRY(dt__want_float(c, i));
    }
    for (int i = 1; i < 5; i++) {
        if (c->in[i] != NULL) DT__TRY(dt__want_dims(c, i, 1, x->dims + 1));
    }
    DT__TRY(check_options(c));
    const dt__lines l = lines_of(x);
    if (dt__batch_norm_writes(c->options) && l.outer * l.inner < 2 && l.n > 0) {
        return dt_refuse(c, DT_ERR_SHAPE, "%lld values a channel; training wants at least 2",
                         (long long)(l.outer * l.inner));
    }
    DT__TRY(dt_result(c, 0, x->dtype, x->rank, x->dims));
    return dt_result(c, 1, DT_F64, 2, (const int64_t[]){ 3, x->dims[1] });
}

static const void *data_of(const dt_call *c, int i)
{
    return c->arg[i] == NULL ? NULL : dt__data(c->arg[i]);
}

static dt__batch_norm problem(const dt_call *c)
{
    const dt_batch_norm_options *o = c->options;
    return (dt__batch_norm){ .lines = lines_of(c->arg[X]),
                             .eps = o->eps,
                             .training = o->training,
                             .x = dt__data(c->arg[X]),
                             .weight = data_of(c, WEIGHT),
                             .bias = data_of(c, BIAS),
                             .stats = dt__data_mut(c->out[1]) };
}

void dt__batch_norm_forward(const dt_call *c)
{
    const dt_batch_norm_options *o = c->options;
    dt__batch_norm b = problem(c);
    b.y = dt__data_mut(c->y);
    void *mean = dt__data_mut(c->arg[RUNNING_MEAN]), *var = dt__data_mut(c->arg[RUNNING_VAR]);
    if (o->training) {
        c->kernels->batch_norm_stats(&b);
        c->kernels->batch_norm_running(&b, o->momentum, mean, var);
    } else {
        c->kernels->batch_norm_standing(&b, mean, var);
    }
    c->kernels->batch_norm(&b);
}

void dt__batch_norm_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__batch_norm b = problem(c);
    void *d[3] = { NULL };
    for (int i = 0; i < 3; i++) d[i] = dx[i] != NULL ? dt__data_mut(dx[i]) : NULL;
    c->kernels->batch_norm_backward(&b, dt__data(dy), d);
}
