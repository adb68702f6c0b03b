/* 1d transposed convolution: the adjoint of conv1d.
 *     y[n, o, i s - p + k d] += x[n,c,i] w[c,o,k], and b[o] */
#include "ops/convolution/conv_codes.h"
#include "ops/ops_list.h"

static const dt_key keys[] = {
    DT__CONV_KEYS(DT_KEY_INT, "1", "0"),
    DT__CONV_OUTPUT_PADDING(DT_KEY_INT, "0"),
    { 0 },
};

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    dt__conv_lower_line(t, in, given, out, dt_conv_transpose2d);
}

DT__CONV_OP(conv_transpose1d,
            "y[n, o, i stride - padding + k dilation] += x[n,c,i] weight[c,o,k], and bias[o]", keys,
            lower)

#define WITH(s, p, d, o, g)                                                                        \
    DT__WITH(dt_conv_options, .stride = { s }, .padding = { p }, .dilation = { d },                \
             .output_padding = { o }, .groups = g)

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 1, 2 }, .given = true, .values = { 1, 2 } },
              { { 1, 1, 3 }, .given = true, .values = { 100, 10, 1 } },
              { { 1 }, .given = true, .values = { 0.5 } } },
      .n_y = 4, .y = { 100.5, 210.5, 21.5, 2.5 } },
    { "random", .in = { { { 2, 3, 6 } }, { { 3, 4, 3 } }, { { 4 } } } },
    { "uneven", .in = { { { 2, 3, 5 } }, { { 3, 4, 3 } }, { { 4 } } },
      .options = WITH(3, 2, 2, 2, 1) },
    { "groups", .in = { { { 2, 4, 5 } }, { { 4, 3, 4 } }, { { 6 } } },
      .options = WITH(2, 1, 1, 0, 2) },
    { "depthwise", .in = { { { 2, 9, 5 } }, { { 9, 1, 3 } } }, .options = WITH(1, 0, 1, 0, 9) },
    { "many", .in = { { { 5, 24, 50 } }, { { 24, 16, 4 } }, { { 16 } } },
      .options = WITH(2, 1, 1, 0, 1), .rough = true },
    { "no signals", .in = { { { 0, 3, 9 } }, { { 3, 4, 3 } }, { { 4 } } } },
    { "channels", .in = { { { 2, 3, 9 } }, { { 4, 3, 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "x has 3 channels, weight takes 4" },
    { "output padding", .in = { { { 2, 3, 9 } }, { { 3, 4, 3 } } }, .options = WITH(1, 0, 1, 1, 1),
      .fails = DT_ERR_ARG, .says = "output_padding is 1" },
    { "nothing left", .in = { { { 2, 3, 1 } }, { { 3, 4, 3 } } }, .options = WITH(1, 2, 1, 0, 1),
      .fails = DT_ERR_SHAPE, .says = "y would have -1 columns" },
    { "integers", .in = { { { 2, 3, 9 }, .dtype = DT_I32 }, { { 3, 4, 3 } } },
      .fails = DT_ERR_DTYPE },
};
DT__CASES(conv_transpose1d, cases)
