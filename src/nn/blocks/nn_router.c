/* The router of a mixture of experts: one logit per expert.
 *     y = x W^T      weight [experts, in]
 * This linear layer has a type of its own, which no preset quantizes: it is small, and quantization
 * errors would change the choice of experts. Its weight is initialized like those of the
 * experts. */
#include "nn/lists/layer_type.h"
#include "nn/blocks/experts.h"
#include "nn/lists/layer_cases.h"

DT__LAYER_FORWARD(dt_linear(t, x, dt_module_weight(t, m), NULL))

const dt_module_type dt__nn_router = {
    .name = "router",
    .forward = forward,
    .quantizable = DT_QUANTIZED_WEIGHT_ONLY,
};

dt_status dt__router_build(dt_module *m, const dt__experts_plan *p)
{
    const int64_t dims[] = { p->count, p->in };
    dt_tensor *x;
    DT__TRY(dt__new_param(m, "weight", 2, dims, &x));
    return dt__draw_weight(x, p);
}

dt_status dt_router_create(dt_ctx *ctx, int64_t in, int64_t experts, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    const dt__experts_plan plan = { .count = experts, .in = in };
    *out = NULL;
    DT__TRY(dt__want_extent(ctx, "router", "the number of inputs", in));
    DT__TRY(dt__want_extent(ctx, "router", "the number of experts", experts));
    dt_module *m;
    DT__TRY(dt_module_create(ctx, &dt__nn_router, 0, &m));
    return dt__layer_done(dt__router_build(m, &plan), m, out);
}

DT__MAKE(make, dt_router_create(ctx, 2, 3, out))
DT__MAKE(make_large, dt_router_create(ctx, 25, 40, out))
DT__MAKE(make_no_inputs, dt_router_create(ctx, 0, 3, out))
DT__MAKE(make_no_experts, dt_router_create(ctx, 3, 0, out))

static const dt__layer_case cases[] = {
    { "values", make, .in = { { { 1, 2 }, .given = true, .values = { 1, -1 } } }, .state = "weight",
      .given = { { "weight", { 1, 2, 3, 5, 8, 4 } } }, .n_y = 3, .y = { -1, -2, 4 } },
    { "a batch", make_large, .in = { { { 2, 3, 25 } } }, .state = "weight",
      .first = { { "weight", -0.2, 0.2 } }, .rough = true },
    { "rows", make, .in = { { { 5, 2 } } }, .state = "weight" },
    { "no inputs", make_no_inputs, .fails = DT_ERR_ARG, .says = "router: the number of inputs" },
    { "no experts", make_no_experts, .fails = DT_ERR_ARG, .says = "router: the number of experts" },
    { "another width", make, .in = { { { 5, 3 } } }, .state = "weight", .fails = DT_ERR_SHAPE,
      .says = "linear" },
};
DT__LAYER_CASES(router, cases)
