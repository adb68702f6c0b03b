/* 2d transposed convolution: the adjoint of conv2d.
 *     y[n, o, i s - p + k d, ...] += x[n,c,i,j] w[c,o,k,l], and b[o] */
#include "ops/convolution/conv_codes.h"

static const dt_key keys[] = {
    DT__CONV_KEYS(DT_KEY_PAIR, "1, 1", "0, 0"),
    DT__CONV_OUTPUT_PADDING(DT_KEY_PAIR, "0, 0"),
    { 0 },
};

DT__CONV_OP(
    conv_transpose2d,
    "y[n, o, i stride - padding + k dilation, ...] += x[n,c,i,j] weight[c,o,k,l], and bias[o]",
    keys, NULL)

#define WITH(s, p, d, o, g) DT__WITH(dt_conv_options, s, p, d, o, g)

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 1, 1, 2 }, .given = true, .values = { 1, 2 } },
              { { 1, 1, 1, 3 }, .given = true, .values = { 100, 10, 1 } },
              { { 1 }, .given = true, .values = { 0.5 } } },
      .n_y = 4, .y = { 100.5, 210.5, 21.5, 2.5 } },
    { "gaps",
      .in = { { { 1, 1, 1, 2 }, .given = true, .values = { 1, 2 } },
              { { 1, 1, 1, 2 }, .given = true, .values = { 10, 1 } },
              { { 1 }, .given = true, .values = { 0.5 } } },
      .options = WITH(DT__LIST(1, 3), DT__LIST(0, 0), DT__LIST(1, 1), DT__LIST(0, 1), 1), .n_y = 6,
      .y = { 10.5, 1.5, 0.5, 20.5, 2.5, 0.5 } },
    { "random", .in = { { { 2, 3, 3, 4 } }, { { 3, 4, 3, 3 } }, { { 4 } } } },
    { "doubled", .in = { { { 2, 4, 3, 4 } }, { { 4, 3, 2, 2 } }, { { 3 } } },
      .options = WITH(DT__LIST(2, 2), DT__LIST(0, 0), DT__LIST(1, 1), DT__LIST(0, 0), 1) },
    { "uneven", .in = { { { 2, 3, 4, 3 } }, { { 3, 2, 3, 2 } }, { { 2 } } },
      .options = WITH(DT__LIST(2, 3), DT__LIST(2, 0), DT__LIST(2, 1), DT__LIST(1, 2), 1) },
    { "output padding below the dilation", .in = { { { 1, 2, 3, 3 } }, { { 2, 2, 2, 2 } } },
      .options = WITH(DT__LIST(1, 1), DT__LIST(0, 0), DT__LIST(3, 2), DT__LIST(2, 1), 1) },
    { "groups", .in = { { { 2, 6, 3, 4 } }, { { 6, 2, 3, 3 } }, { { 4 } } },
      .options = WITH(DT__LIST(2, 1), DT__LIST(1, 1), DT__LIST(1, 1), DT__LIST(0, 0), 2) },
    { "depthwise", .in = { { { 2, 9, 3, 4 } }, { { 9, 1, 3, 3 } }, { { 9 } } },
      .options = WITH(DT__LIST(2, 2), DT__LIST(1, 1), DT__LIST(1, 1), DT__LIST(0, 0), 9) },
    { "depthwise, doubled", .in = { { { 2, 3, 3, 4 } }, { { 3, 2, 2, 3 } }, { { 6 } } },
      .options = WITH(DT__LIST(1, 1), DT__LIST(0, 0), DT__LIST(1, 1), DT__LIST(0, 0), 3) },
    { "many", .in = { { { 5, 32, 7, 7 } }, { { 32, 16, 4, 4 } }, { { 16 } } },
      .options = WITH(DT__LIST(2, 2), DT__LIST(1, 1), DT__LIST(1, 1), DT__LIST(0, 0), 1),
      .rough = true },
    { "no images", .in = { { { 0, 3, 5, 6 } }, { { 3, 4, 3, 3 } }, { { 4 } } } },
    { "no channels", .in = { { { 2, 0, 5, 6 } }, { { 0, 4, 3, 3 } }, { { 4 } } } },
    { "channels", .in = { { { 2, 3, 5, 6 } }, { { 4, 3, 3, 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "x has 3 channels, weight takes 4" },
    { "groups of x", .in = { { { 2, 3, 5, 6 } }, { { 3, 4, 3, 3 } } },
      .options = WITH(DT__LIST(1, 1), DT__LIST(0, 0), DT__LIST(1, 1), DT__LIST(0, 0), 2),
      .fails = DT_ERR_SHAPE, .says = "2 groups do not divide 3 channels" },
    { "bias", .in = { { { 2, 4, 5, 6 } }, { { 4, 3, 3, 3 } }, { { 3 } } },
      .options = WITH(DT__LIST(1, 1), DT__LIST(0, 0), DT__LIST(1, 1), DT__LIST(0, 0), 2),
      .fails = DT_ERR_SHAPE, .says = "bias must be [6]" },
    { "output padding", .in = { { { 2, 3, 5, 6 } }, { { 3, 4, 3, 3 } } },
      .options = WITH(DT__LIST(2, 3), DT__LIST(0, 0), DT__LIST(1, 1), DT__LIST(2, 0), 1),
      .fails = DT_ERR_ARG,
      .says = "output_padding is 2; it must be below stride or dilation, which are 2 and 1" },
    { "nothing left", .in = { { { 2, 3, 2, 6 } }, { { 3, 4, 3, 3 } } },
      .options = WITH(DT__LIST(1, 1), DT__LIST(2, 0), DT__LIST(1, 1), DT__LIST(0, 0), 1),
      .fails = DT_ERR_SHAPE, .says = "y would have 0 rows" },
    { "no columns", .in = { { { 2, 3, 2, 0 }, 4 }, { { 3, 4, 3, 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "y would have 0 columns" },
    { "a huge stride", .in = { { { 2, 3, 4, 5 } }, { { 3, 4, 3, 3 } } },
      .options = WITH(DT__LIST(2147483647, 1), DT__LIST(0, 0), DT__LIST(1, 1), DT__LIST(0, 0), 1),
      .fails = DT_ERR_SHAPE, .says = "y would have 6442450944 rows" },
    { "rank", .in = { { { 2, 3, 5 } }, { { 3, 4, 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "x has rank 3" },
    { "integers", .in = { { { 2, 3, 5, 6 }, .dtype = DT_I32 }, { { 3, 4, 3, 3 } } },
      .fails = DT_ERR_DTYPE },
};
DT__CASES(conv_transpose2d, cases)
