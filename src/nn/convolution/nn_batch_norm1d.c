/* Batch norm over all dimensions of [N, C] or [N, C, L] but the channels':
 * src/nn/convolution/batch_norm_layers.c. */
#include "nn/convolution/batch_norm_layers.h"
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"

const dt_module_type dt__nn_batch_norm1d = {
    .name = "batch_norm1d",
    .forward = dt__batch_norm_run,
    .fusion = &dt__batch_norm_fusion,
};

dt_status dt_batch_norm1d_create(dt_ctx *ctx, int64_t channels, double momentum, double eps,
                                 dt_module **out)
{
    DT__NEED(NULL, ctx);
    DT__NEED(ctx, out);
    const dt__batch_norm_layer layer = { dt_batch_norm1d, momentum, eps };
    return dt__batch_norm_create(ctx, &dt__nn_batch_norm1d, channels, &layer, out);
}

/* ---- in recipes ----------------------------------------------------------------------------- */

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("batch_norm1d", dt_norm_layer),
    DT__LAYER_MOMENTUM(dt_norm_layer, norms),
    DT__LAYER_EPS(dt_norm_layer, norms),
    { 0 },
};

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    const dt_norm_options *o = &((const dt_norm_layer *)options)->norms;
    (void)n_in;
    if (in->rank < 1) return dt__want_example_rank(ctx, "batch_norm1d", in, 1);
    return dt_batch_norm1d_create(ctx, in->dims[0], o->momentum, o->eps, out);
}

DT__LAYER_TYPE(batch_norm1d, "batch norm over all dimensions but 1, the channels", dt_norm_layer,
               layer_keys, 1, 1, .create = layer_create);

/* ---- cases ---------------------------------------------------------------------------------- */

static dt_status make(dt_ctx *ctx, dt_module **out)
{
    return dt_batch_norm1d_create(ctx, 2, 0.1, 0.0, out);
}

static dt_status make_usual(dt_ctx *ctx, dt_module **out)
{
    return dt_batch_norm1d_create(ctx, 2, 0.1, 1e-5, out);
}

static dt_status make_none(dt_ctx *ctx, dt_module **out)
{
    return dt_batch_norm1d_create(ctx, 0, 0.1, 1e-5, out);
}

static dt_status make_heavy(dt_ctx *ctx, dt_module **out)
{
    return dt_batch_norm1d_create(ctx, 2, 1.1, 1e-5, out);
}

static dt_status make_negative(dt_ctx *ctx, dt_module **out)
{
    return dt_batch_norm1d_create(ctx, 2, 0.1, -1e-5, out);
}

#define STATE "weight bias !running_mean !running_var"
#define BATCH                                                                                      \
    {                                                                                              \
        { 4, 2 }, .given = true, .values = { 1, 5, 3, 5, 1, 7, 3, 7 }                              \
    }
#define GIVEN                                                                                      \
    {                                                                                              \
        { "weight", { 2, 3 } },                                                                    \
        {                                                                                          \
            "bias", { 1, -1 }                                                                      \
        }                                                                                          \
    }

static const dt__layer_case cases[] = {
    { "the batch's moments", make, .in = { BATCH }, .state = STATE, .given = GIVEN, .n_y = 8,
      .y = { -1, -4, 3, -4, -1, 2, 3, 2 }, .training = true },
    { "running moments", make, .in = { BATCH }, .state = STATE,
      .given = { { "weight", { 2, 3 } },
                 { "bias", { 1, -1 } },
                 { "running_mean", { 1, 5 } },
                 { "running_var", { 4, 1 } } },
      .n_y = 8, .y = { 1, -1, 3, -1, 1, 5, 3, 5 } },
    { "more dimensions", make_usual, .in = { { { 3, 2, 5 } } }, .state = STATE,
      .first = { { "weight", 1, 1 },
                 { "bias", 0, 0 },
                 { "running_mean", 0, 0 },
                 { "running_var", 1, 1 } } },
    { "no channels", make_none, .fails = DT_ERR_ARG,
      .says = "batch_norm1d: the number of channels" },
    { "too much momentum", make_heavy, .fails = DT_ERR_ARG, .says = "momentum is 1.1" },
    { "eps below 0", make_negative, .fails = DT_ERR_ARG, .says = "eps" },
    { "other channels", make, .in = { { { 4, 3 } } }, .state = STATE, .fails = DT_ERR_SHAPE,
      .says = "batch_norm1d" },
};
DT__LAYER_CASES(batch_norm1d, cases)
