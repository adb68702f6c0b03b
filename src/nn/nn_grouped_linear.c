/* Linear layers of several experts, of which each row of x takes one.
 *     y[r] = x[r] W[e]^T + b[e],  e = index[r]      weight [count, out, in], bias [count, out]
 * Both are grouped parameters, drawn uniform in +-1/sqrt(in) as those of `linear`. */
#include "nn/experts.h"

#include <math.h>

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const dt__entry *bias = dt__entry_find(m, "bias");
    (void)n_out;
    if (n_in != 2) {
        dt_tape_fail(t, DT_ERR_ARG, "grouped_linear: x and an index of experts are wanted");
        return;
    }
    out[0] = dt_grouped_linear(t, in[0], dt_module_weight(t, m), bias == NULL ? NULL : bias->x,
                               &(dt_routes){ .index = in[1] });
}

const dt_module_type dt__nn_grouped_linear = {
    .name = "grouped_linear",
    .forward = forward,
    .quantizable = DT_QUANTIZED_BY_PRESET,
};

dt_status dt__draw_weight(dt_tensor *x, const dt__experts_plan *p)
{
    const double bound = 1.0 / sqrt((double)p->in);
    return p->deviation > 0 ? dt__draw_normal(x, DT__FOR_INIT, 0.0, p->deviation)
                            : dt__draw_uniform(x, DT__FOR_INIT, -bound, bound);
}

dt_status dt__grouped_linear_build(dt_module *m, const dt__experts_plan *p)
{
    const int64_t dims[] = { p->count, p->out, p->in };
    dt_tensor *x;
    DT__TRY(dt__new_param(m, "weight", 3, dims, &x));
    DT__TRY(dt_set_grouped(x));
    DT__TRY(dt__draw_weight(x, p));
    if (!p->bias) return DT_OK;
    DT__TRY(dt__new_param(m, "bias", 2, dims, &x));
    DT__TRY(dt_set_grouped(x));
    return p->deviation > 0 ? DT_OK : dt__draw_weight(x, p);
}

dt_status dt_grouped_linear_create(dt_ctx *ctx, int64_t count, int64_t in, int64_t out_features,
                                   bool bias, dt_module **out)
{
    const dt__experts_plan plan = { count, in, out_features, bias, 0 };
    *out = NULL;
    DT__TRY(dt__want_extent(ctx, "grouped_linear", "the number of experts", count));
    DT__TRY(dt__want_extent(ctx, "grouped_linear", "the number of inputs", in));
    DT__TRY(dt__want_extent(ctx, "grouped_linear", "the number of outputs", out_features));
    dt_module *m;
    DT__TRY(dt_module_create(ctx, &dt__nn_grouped_linear, 0, &m));
    return dt__layer_done(dt__grouped_linear_build(m, &plan), m, out);
}
