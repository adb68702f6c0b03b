/* Product of two or more inputs, element by element, broadcast as in PyTorch: a gate of
 * [channels, 1, 1] scales whole channels. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    dt_tensor *y = in[0];
    (void)m;
    (void)n_out;
    for (int i = 1; i < n_in; i++)
        y = i == 1 ? dt_mul(t, y, in[i]) : dt__then(t, y, dt_mul(t, y, in[i]));
    out[0] = y;
}

const dt_module_type dt__nn_mul = { .name = "mul", .forward = forward };

dt_status dt_mul_create(dt_ctx *ctx, dt_module **out)
{
    DT__NEED(NULL, ctx);
    DT__NEED(ctx, out);
    return dt_module_create(ctx, &dt__nn_mul, 0, out);
}

/* ---- in recipes ----------------------------------------------------------------------------- */

static const dt_key layer_keys[] = { DT__LAYER_HEAD("mul", dt_plain_layer), { 0 } };

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    (void)options;
    (void)in;
    (void)n_in;
    return dt_mul_create(ctx, out);
}

DT__LAYER_TYPE(mul, "product of its inputs, broadcast: a gate [channels, 1, 1] scales channels",
               dt_plain_layer, layer_keys, 2, 16, .create = layer_create);

/* ---- cases ---------------------------------------------------------------------------------- */

static const dt__layer_case cases[] = {
    { "values", dt_mul_create,
      .in = { { { 1, 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } },
              { { 1, 2, 1 }, .given = true, .values = { 2, -1 } } },
      .n_y = 4, .y = { 2, 4, -3, -4 } },
    { "a batch", dt_mul_create, .in = { { { 3, 2, 5 } }, { { 3, 2, 5 } } } },
    { "shapes that do not join", dt_mul_create, .in = { { { 2, 3 } }, { { 2, 4 } } },
      .fails = DT_ERR_SHAPE, .says = "mul" },
};
DT__LAYER_CASES(mul, cases)
