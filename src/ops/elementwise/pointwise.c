/* Losses that are a sum over elements: checks, forward and backward. */
#include "ops/elementwise/pointwise.h"

const char *const dt__reductions[] = { "mean", "sum", NULL };
const dt__loss_options dt__loss_defaults = { DT_REDUCE_MEAN };
const dt_key dt__loss_keys[] = { DT__REDUCTION_KEY(dt__loss_options), { 0 } };

dt_status dt__pointwise_shape(dt_call *c, int reduction)
{
    for (int i = 0; i < 2; i++) DT__TRY(dt__want_float(c, i));
    DT__TRY(dt__want_dims(c, 1, c->in[0]->rank, c->in[0]->dims));
    if (reduction != DT_REDUCE_MEAN && reduction != DT_REDUCE_SUM) {
        return dt_refuse(c, DT_ERR_ARG, "reduction %d does not exist", reduction);
    }
    return dt_result(c, 0, c->in[0]->dtype, 0, NULL);
}

dt__pointwise dt__pointwise_of(const dt_call *c, int reduction)
{
    const int64_t n = dt__count(c->arg[0]);
    return (dt__pointwise){ .n = n,
                            .x = dt__data(c->arg[0]),
                            .target = dt__data(c->arg[1]),
                            .divisor = reduction == DT_REDUCE_SUM ? 1 : (double)n };
}

void dt__pointwise_backward(const dt__pointwise *p, const dt_tensor *dy, dt_tensor *const *dx,
                            void (*kernel)(const dt__pointwise *p, double scale, void *d))
{
    const double scale = dt__scalar(dy) / p->divisor;
    for (int i = 0; i < 2; i++) {
        if (dx[i] != NULL) kernel(p, i == 0 ? scale : -scale, dt__data_mut(dx[i]));
    }
}

dt_tensor *dt__reduced(dt_tape *t, dt_tensor *e, int reduction)
{
    return reduction == DT_REDUCE_MEAN ? dt_mean(t, e, NULL) : dt_sum(t, e, NULL);
}
