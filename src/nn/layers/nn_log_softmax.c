/* Logarithm of softmax along one dimension.      y = x - max - log(sum of exp(x - max)) */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

typedef struct log_softmax {
    int64_t dim;
} log_softmax;

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const log_softmax *s = dt_module_state(m);
    (void)n_in;
    (void)n_out;
    out[0] = dt_log_softmax(t, in[0], s->dim);
}

const dt_module_type dt__nn_log_softmax = { .name = "log_softmax", .forward = forward };

dt_status dt_log_softmax_create(dt_ctx *ctx, int64_t dim, dt_module **out)
{
    DT__NEED(NULL, ctx);
    DT__NEED(ctx, out);
    *out = NULL;
    if (dim < -DT_MAX_RANK || dim >= DT_MAX_RANK) {
        return dt_fail(ctx, DT_ERR_ARG, "log_softmax: dimension %lld; %d...%d can be",
                       (long long)dim, -DT_MAX_RANK, DT_MAX_RANK - 1);
    }
    DT__TRY(dt_module_create(ctx, &dt__nn_log_softmax, sizeof(log_softmax), out));
    ((log_softmax *)dt_module_state(*out))->dim = dim;
    return DT_OK;
}

/* ---- in recipes ----------------------------------------------------------------------------- */

static const dt_key layer_keys[] = { DT__DIM_KEYS("log_softmax"), { 0 } };

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    (void)in;
    (void)n_in;
    return dt_log_softmax_create(ctx, ((const dt_dim_layer *)options)->dim, out);
}

DT__LAYER_TYPE(log_softmax, "logarithm of softmax along a dimension", dt_dim_layer, layer_keys, 1,
               1, .create = layer_create);

/* ---- cases ---------------------------------------------------------------------------------- */

static dt_status make(dt_ctx *ctx, dt_module **out) { return dt_log_softmax_create(ctx, -1, out); }
static dt_status make_channels(dt_ctx *ctx, dt_module **out)
{
    return dt_log_softmax_create(ctx, 1, out);
}
static dt_status make_none(dt_ctx *ctx, dt_module **out)
{
    return dt_log_softmax_create(ctx, DT_MAX_RANK, out);
}

static const dt__layer_case cases[] = {
    { "values", make, .in = { { { 2, 2 }, .given = true, .values = { 0, 1, 3, 3 } } }, .n_y = 4,
      .y = { -1.3132616875182228, -0.31326168751822286, -0.6931471805599453,
             -0.6931471805599453 } },
    { "channels", make_channels, .in = { { { 2, 3, 4 } } } },
    { "no such dimension", make_channels, .in = { { { 3 } } }, .fails = DT_ERR_ARG,
      .says = "dimension 1" },
    { "beyond every rank", make_none, .fails = DT_ERR_ARG, .says = "log_softmax: dimension 8" },
};
DT__LAYER_CASES(log_softmax, cases)
