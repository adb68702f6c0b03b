/* Difference of two inputs, broadcast against each other. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)m;
    (void)n_out;
    if (n_in == 2) out[0] = dt_sub(t, in[0], in[1]);
    else dt_tape_fail(t, DT_ERR_ARG, "sub: 2 inputs are read, not %d", n_in);
}

const dt_module_type dt__nn_sub = { .name = "sub", .forward = forward };

dt_status dt_sub_create(dt_ctx *ctx, dt_module **out)
{
    DT__NEED(NULL, ctx);
    DT__NEED(ctx, out);
    return dt_module_create(ctx, &dt__nn_sub, 0, out);
}

/* ---- in recipes ----------------------------------------------------------------------------- */

static const dt_key layer_keys[] = { DT__LAYER_HEAD("sub", dt_plain_layer), { 0 } };

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    (void)options;
    (void)in;
    (void)n_in;
    return dt_sub_create(ctx, out);
}

DT__LAYER_TYPE(sub, "first input minus the second, broadcast", dt_plain_layer, layer_keys, 2, 2,
               .create = layer_create);

/* ---- cases ---------------------------------------------------------------------------------- */

static const dt__layer_case cases[] = {
    { "values", dt_sub_create,
      .in = { { { 1, 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } },
              { { 1, 2, 1 }, .given = true, .values = { 2, -1 } } },
      .n_y = 4, .y = { -1, 0, 4, 5 } },
    { "a batch", dt_sub_create, .in = { { { 3, 2, 5 } }, { { 3, 2, 5 } } } },
    { "shapes that do not join", dt_sub_create, .in = { { { 2, 3 } }, { { 2, 4 } } },
      .fails = DT_ERR_SHAPE, .says = "sub" },
};
DT__LAYER_CASES(sub, cases)
