/* Several inputs, one after the other along a dimension. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

typedef struct concat {
    int64_t dim;
} concat;

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)n_out;
    out[0] = dt_concat(t, in, n_in, ((const concat *)dt_module_state(m))->dim);
}

const dt_module_type dt__nn_concat = { .name = "concat", .forward = forward };

dt_status dt_concat_create(dt_ctx *ctx, int64_t dim, dt_module **out)
{
    DT__NEED(NULL, ctx);
    DT__NEED(ctx, out);
    DT__TRY(dt_module_create(ctx, &dt__nn_concat, sizeof(concat), out));
    ((concat *)dt_module_state(*out))->dim = dim;
    return DT_OK;
}

/* ---- in recipes ----------------------------------------------------------------------------- */

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("concat", dt_concat_layer),
    { "dim", DT_KEY_INT, offsetof(dt_concat_layer, dim), .least = -DT_MAX_RANK,
      .most = DT_MAX_RANK - 1, .fallback = "1",
      .text = "dimension; 0 is the batch, 1 the channels, -1 the last" },
    { 0 },
};

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    (void)in;
    (void)n_in;
    return dt_concat_create(ctx, ((const dt_concat_layer *)options)->dim, out);
}

DT__LAYER_TYPE(concat, "its inputs one after the other along a dimension", dt_concat_layer,
               layer_keys, 2, DT_MAX_IN, .create = layer_create);

/* ---- cases ---------------------------------------------------------------------------------- */

static dt_status make(dt_ctx *ctx, dt_module **out) { return dt_concat_create(ctx, 1, out); }

static const dt__layer_case cases[] = {
    { "values", make,
      .in = { { { 1, 2 }, .given = true, .values = { 1, 2 } },
              { { 1, 1 }, .given = true, .values = { 3 } } },
      .n_y = 3, .y = { 1, 2, 3 } },
    { "three inputs", make, .in = { { { 2, 2, 3 } }, { { 2, 1, 3 } }, { { 2, 4, 3 } } } },
    { "shapes that do not join", make, .in = { { { 2, 2, 3 } }, { { 2, 2, 4 } } },
      .fails = DT_ERR_SHAPE, .says = "concat" },
};
DT__LAYER_CASES(concat, cases)
