/* Dropout.      y = x / (1 - p) with probability 1 - p, else 0, in training; y = x in
 * evaluation. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

typedef struct dropout {
    double p;
} dropout;

DT__FORWARD(forward)
{
    const dropout *s = dt_module_state(m);
    return dt_is_training(m) && s->p > 0.0 ? dt_dropout(t, x, s->p) : x;
}

const dt_module_type dt__nn_dropout = { .name = "dropout", .forward = forward };

dt_status dt_dropout_create(dt_ctx *ctx, double p, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    *out = NULL;
    DT__TRY(dt__want_share(ctx, "dropout", "p", p));
    DT__TRY(dt_module_create(ctx, &dt__nn_dropout, sizeof(dropout), out));
    ((dropout *)dt_module_state(*out))->p = p;
    return DT_OK;
}

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("dropout", dt_dropout_layer),
    { "p", DT_KEY_REAL, offsetof(dt_dropout_layer, p), .most = 0.9999, .fallback = "0.5",
      .text = "share of the values that training drops" },
    { 0 },
};

DT__LAYER_CREATE(dt_dropout_layer, dt_dropout_create(ctx, o->p, out))

DT__LAYER_TYPE(dropout, "in training, values become 0 with probability p", dt_dropout_layer,
               layer_keys, 1, 1, .create = layer_create);

DT__MAKE(make, dt_dropout_create(ctx, 0.5, out))
DT__MAKE(make_idle, dt_dropout_create(ctx, 0, out))
DT__MAKE(make_below, dt_dropout_create(ctx, -0.1, out))
DT__MAKE(make_nan, dt_dropout_create(ctx, DT__NAN, out))

static const dt__layer_case cases[] = {
    { "evaluation", make, .in = { { { 3 }, .given = true, .values = { 1, -2, 3 } } }, .n_y = 3,
      .y = { 1, -2, 3 }, .random = true },
    { "a batch", make, .in = { { { 7, 12 } } }, .random = true },
    { "nothing to drop", make_idle, .in = { { { 4, 3 } } } },
    { "p below 0", make_below, .fails = DT_ERR_ARG, .says = "dropout: p is -0.1" },
    { "p not a number", make_nan, .fails = DT_ERR_ARG, .says = "p is nan" },
};
DT__LAYER_CASES(dropout, cases)
