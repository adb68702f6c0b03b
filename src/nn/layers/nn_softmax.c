/* Softmax along one dimension.      y = exp(x - max) / sum of exp(x - max) */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

typedef struct softmax {
    int64_t dim;
} softmax;

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const softmax *s = dt_module_state(m);
    (void)n_in;
    (void)n_out;
    out[0] = dt_softmax(t, in[0], s->dim);
}

const dt_module_type dt__nn_softmax = { .name = "softmax", .forward = forward };

dt_status dt_softmax_create(dt_ctx *ctx, int64_t dim, dt_module **out)
{
    DT__NEED(NULL, ctx);
    DT__NEED(ctx, out);
    *out = NULL;
    if (dim < -DT_MAX_RANK || dim >= DT_MAX_RANK) {
        return dt_fail(ctx, DT_ERR_ARG, "softmax: dimension %lld; %d...%d can be", (long long)dim,
                       -DT_MAX_RANK, DT_MAX_RANK - 1);
    }
    DT__TRY(dt_module_create(ctx, &dt__nn_softmax, sizeof(softmax), out));
    ((softmax *)dt_module_state(*out))->dim = dim;
    return DT_OK;
}

/* ---- in recipes ----------------------------------------------------------------------------- */

static const dt_key layer_keys[] = { DT__DIM_KEYS("softmax"), { 0 } };

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    (void)in;
    (void)n_in;
    return dt_softmax_create(ctx, ((const dt_dim_layer *)options)->dim, out);
}

DT__LAYER_TYPE(softmax, "softmax along a dimension", dt_dim_layer, layer_keys, 1, 1,
               .create = layer_create);

/* ---- cases ---------------------------------------------------------------------------------- */

static dt_status make(dt_ctx *ctx, dt_module **out) { return dt_softmax_create(ctx, -1, out); }
static dt_status make_channels(dt_ctx *ctx, dt_module **out)
{
    return dt_softmax_create(ctx, 1, out);
}
static dt_status make_none(dt_ctx *ctx, dt_module **out)
{
    return dt_softmax_create(ctx, DT_MAX_RANK, out);
}

static const dt__layer_case cases[] = {
    { "values", make, .in = { { { 2, 2 }, .given = true, .values = { 0, 1, 3, 3 } } }, .n_y = 4,
      .y = { 0.2689414213699951, 0.7310585786300049, 0.5, 0.5 } },
    { "channels", make_channels, .in = { { { 2, 3, 4 } } } },
    { "no such dimension", make_channels, .in = { { { 3 } } }, .fails = DT_ERR_ARG,
      .says = "dimension 1" },
    { "beyond every rank", make_none, .fails = DT_ERR_ARG, .says = "softmax: dimension 8" },
};
DT__LAYER_CASES(softmax, cases)
