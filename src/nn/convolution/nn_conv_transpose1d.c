/* 1d transposed convolution: src/nn/convolution/conv_layers.c. */
#include "nn/convolution/conv_layers.h"
#include "nn/lists/layer_cases.h"

DT__CONV_LAYER(conv_transpose1d, 1, true, "transposed convolution of signals [channels, length]",
               DT__CONV_KEYS("conv_transpose1d", DT_KEY_INT),
               { "output_padding", DT_KEY_INT,
                 DT__CONV_EXTENT(output_padding, 0, "0", "zeros added at the end of y") })

/* ---- cases ---------------------------------------------------------------------------------- */

static const dt_conv_layer usual = {
    .in = 4,
    .out = 6,
    .kernel = { 4, 2 },
    .bias = true,
    .conv = { .stride = { 2, 3 },
              .padding = { 1, 0 },
              .dilation = { 1, 1 },
              .groups = 2,
              .output_padding = { 1, 0 } },
};

DT__MAKE(make, dt_conv_transpose1d_create(ctx, &usual, out))
DT__MAKE_OF(make_plain, dt_conv_transpose1d_create, dt_conv_layer, .in = 4, .out = 3,
            .kernel = { 3, 3 }, .conv = dt_conv_defaults())

static dt_status make_bad(dt_ctx *ctx, dt_module **out)
{
    dt_conv_layer l = usual;
    l.conv.groups = 4;
    return dt_conv_transpose1d_create(ctx, &l, out);
}

static dt_tensor *plain(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    return dt_conv_transpose1d(t, in[0], dt_param(m, "weight"), dt_param(m, "bias"), &usual.conv);
}

static const dt__layer_case cases[] = {
    { "all options", make, .in = { { { 2, 4, 6 } } }, .state = "weight bias", .plain = plain,
      .first = { { "weight", -0.288675135, 0.288675135 }, { "bias", -0.288675135, 0.288675135 } } },
    { "no bias", make_plain, .in = { { { 2, 4, 6 } } }, .state = "weight" },
    { "groups that do not divide", make_bad, .fails = DT_ERR_ARG,
      .says = "conv_transpose1d: 4 groups do not divide 4 and 6" },
    { "other channels", make, .in = { { { 2, 3, 6 } } }, .state = "weight bias",
      .fails = DT_ERR_SHAPE, .says = "conv_transpose1d" },
};
DT__LAYER_CASES(conv_transpose1d, cases)
