/* All dimensions but the first as one: [N, ...] to [N, features]. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)m;
    (void)n_in;
    (void)n_out;
    out[0] = dt_flatten(t, in[0], 1, -1);
}

const dt_module_type dt__nn_flatten = { .name = "flatten", .forward = forward };

dt_status dt_flatten_create(dt_ctx *ctx, dt_module **out)
{
    DT__NEED(NULL, ctx);
    DT__NEED(ctx, out);
    return dt_module_create(ctx, &dt__nn_flatten, 0, out);
}

/* ---- in recipes ----------------------------------------------------------------------------- */

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("flatten", dt_plain_layer),
    { 0 },
};

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    (void)options;
    (void)in;
    (void)n_in;
    return dt_flatten_create(ctx, out);
}

DT__LAYER_TYPE(flatten, "all dimensions of an example as one", dt_plain_layer, layer_keys, 1, 1,
               .create = layer_create);

/* ---- cases ---------------------------------------------------------------------------------- */

static const dt__layer_case cases[] = {
    { "values", dt_flatten_create,
      .in = { { { 1, 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } } }, .n_y = 4,
      .y = { 1, 2, 3, 4 } },
    { "an image", dt_flatten_create, .in = { { { 2, 3, 4, 2 } } } },
    { "one dimension", dt_flatten_create, .in = { { { 3 } } }, .fails = DT_ERR_ARG,
      .says = "flatten" },
};
DT__LAYER_CASES(flatten, cases)
