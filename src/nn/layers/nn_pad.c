/* Padding of the last dimensions. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)n_in;
    (void)n_out;
    out[0] = dt_pad(t, in[0], dt_module_state(m));
}

const dt_module_type dt__nn_pad = { .name = "pad", .forward = forward };

dt_status dt_pad_create(dt_ctx *ctx, const dt_pad_options *options, dt_module **out)
{
    DT__NEED(NULL, ctx);
    DT__NEED(ctx, options);
    DT__NEED(ctx, out);
    DT__TRY(dt_module_create(ctx, &dt__nn_pad, sizeof *options, out));
    *(dt_pad_options *)dt_module_state(*out) = *options;
    return DT_OK;
}

/* ---- in recipes ----------------------------------------------------------------------------- */

static const char *const modes[] = { "constant", "reflect", "replicate", "circular", NULL };

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("pad", dt_pad_layer),
    { "pads", DT_KEY_INTS, offsetof(dt_pad_layer, pad.pads), .least = 0, .most = 1 << 30,
      .fallback = "!",
      .text = "before and after in the last dimension, then in the one before it, and so on" },
    { "mode", DT_KEY_CHOICE, offsetof(dt_pad_layer, pad.mode), .choices = modes,
      .fallback = "constant", .text = "values of the padding" },
    { "value", DT_KEY_REAL, offsetof(dt_pad_layer, pad.value), .fallback = "0",
      .text = "of mode constant" },
    { 0 },
};

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    (void)in;
    (void)n_in;
    return dt_pad_create(ctx, &((const dt_pad_layer *)options)->pad, out);
}

DT__LAYER_TYPE(pad, "elements added before and after", dt_pad_layer, layer_keys, 1, 1,
               .create = layer_create);

/* ---- cases ---------------------------------------------------------------------------------- */

static dt_status make(dt_ctx *ctx, dt_module **out)
{
    return dt_pad_create(ctx, &(dt_pad_options){ .pads = { 2, { 1, 2 } }, .value = 5 }, out);
}

static dt_status make_odd(dt_ctx *ctx, dt_module **out)
{
    return dt_pad_create(ctx, &(dt_pad_options){ .pads = { 1, { 1 } } }, out);
}

static const dt__layer_case cases[] = {
    { "values", make, .in = { { { 1, 2 }, .given = true, .values = { 1, 2 } } }, .n_y = 5,
      .y = { 5, 1, 2, 5, 5 } },
    { "a batch", make, .in = { { { 2, 3, 4 } } } },
    { "one number", make_odd, .in = { { { 2, 3 } } }, .fails = DT_ERR_ARG, .says = "pad" },
};
DT__LAYER_CASES(pad, cases)
