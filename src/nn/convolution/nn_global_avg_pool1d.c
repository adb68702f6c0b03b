/* Global average pooling of signals: [N, C, L] to [N, C, 1]. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)m;
    (void)n_in;
    (void)n_out;
    out[0] = dt_global_avg_pool1d(t, in[0]);
}

const dt_module_type dt__nn_global_avg_pool1d = { .name = "global_avg_pool1d", .forward = forward };

dt_status dt_global_avg_pool1d_create(dt_ctx *ctx, dt_module **out)
{
    DT__NEED(NULL, ctx);
    DT__NEED(ctx, out);
    return dt_module_create(ctx, &dt__nn_global_avg_pool1d, 0, out);
}

/* ---- in recipes ----------------------------------------------------------------------------- */

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("global_avg_pool1d", dt_plain_layer),
    { 0 },
};

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    (void)options;
    (void)in;
    (void)n_in;
    return dt_global_avg_pool1d_create(ctx, out);
}

DT__LAYER_TYPE(global_avg_pool1d, "mean of each channel: [channels, 1]", dt_plain_layer, layer_keys,
               1, 1, .create = layer_create);

/* ---- cases ---------------------------------------------------------------------------------- */

static const dt__layer_case cases[] = {
    { "values", dt_global_avg_pool1d_create,
      .in = { { { 1, 2, 4 }, .given = true, .values = { 1, 2, 3, 6, -1, 0, 0, 2 } } }, .n_y = 2,
      .y = { 3, 0.25 } },
    { "several signals", dt_global_avg_pool1d_create, .in = { { { 2, 3, 7 } } } },
    { "no signal", dt_global_avg_pool1d_create, .in = { { { 3, 4 } } }, .fails = DT_ERR_SHAPE,
      .says = "global_avg_pool1d" },
};
DT__LAYER_CASES(global_avg_pool1d, cases)
