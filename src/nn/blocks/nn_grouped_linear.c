/* The linear layers of several experts; each row of x is multiplied by one.
 *     y[r] = x[r] W[e]^T + b[e],  e = index[r]      weight [count, out, in], bias [count, out]
 * Both are grouped parameters, initialized uniform in +-1/sqrt(in) as those of `linear`. */
#include "nn/blocks/experts.h"
#include "nn/lists/layer_cases.h"

#include <math.h>

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const dt__entry *bias = dt__entry_find(m, "bias");
    (void)n_out;
    if (n_in != 2) {
        dt_tape_fail(t, DT_ERR_ARG, "grouped_linear: expected x and an index of experts");
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
    DT__NEED2(ctx, ctx, out);
    const dt__experts_plan plan = { count, in, out_features, bias, 0 };
    *out = NULL;
    DT__TRY(dt__want_extent(ctx, "grouped_linear", "the number of experts", count));
    DT__TRY(dt__want_extent(ctx, "grouped_linear", "the number of inputs", in));
    DT__TRY(dt__want_extent(ctx, "grouped_linear", "the number of outputs", out_features));
    dt_module *m;
    DT__TRY(dt_module_create(ctx, &dt__nn_grouped_linear, 0, &m));
    return dt__layer_done(dt__grouped_linear_build(m, &plan), m, out);
}

DT__MAKE(make, dt_grouped_linear_create(ctx, 2, 2, 1, true, out))
DT__MAKE(make_plain, dt_grouped_linear_create(ctx, 3, 20, 7, false, out))
DT__MAKE(make_large, dt_grouped_linear_create(ctx, 3, 100, 20, true, out))
DT__MAKE(make_no_experts, dt_grouped_linear_create(ctx, 0, 3, 3, true, out))
DT__MAKE(make_no_inputs, dt_grouped_linear_create(ctx, 2, 0, 3, true, out))
DT__MAKE(make_no_outputs, dt_grouped_linear_create(ctx, 2, 3, 0, true, out))

#define INDEX(...)                                                                                 \
    {                                                                                              \
        { DT__COUNT_OF(((int[]){ __VA_ARGS__ })) }, .dtype = DT_I32, .given = true, .values = {    \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

static const dt__layer_case cases[] = {
    { "values", make,
      .in = { { { 3, 2 }, .given = true, .values = { 1, 2, 1, 2, 3, 4 } }, INDEX(1, 0, 1) },
      .state = "weight bias",
      .given = { { "weight", { 1, 2, 10, 20 } }, { "bias", { 0.5, -0.5 } } }, .n_y = 3,
      .y = { 49.5, 5.5, 109.5 } },
    { "no bias", make_plain, .in = { { { 6, 20 } }, INDEX(2, 0, 1, 2, 2, 0) }, .state = "weight" },
    { "first values", make_large, .in = { { { 5, 100 } }, INDEX(0, 1, 2, 1, 0) },
      .state = "weight bias", .first = { { "weight", -0.1, 0.1 }, { "bias", -0.1, 0.1 } },
      .rough = true },
    { "no experts", make_no_experts, .fails = DT_ERR_ARG, .says = "grouped_linear: the number of" },
    { "no inputs", make_no_inputs, .fails = DT_ERR_ARG, .says = "the number of inputs" },
    { "no outputs", make_no_outputs, .fails = DT_ERR_ARG, .says = "the number of outputs" },
    { "no index", make, .in = { { { 3, 2 } } }, .state = "weight bias", .fails = DT_ERR_ARG,
      .says = "grouped_linear: expected x and an index" },
};
DT__LAYER_CASES(grouped_linear, cases)
