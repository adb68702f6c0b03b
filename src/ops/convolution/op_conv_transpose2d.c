/* 2d transposed convolution: the adjoint of conv2d.
 *     y[n, o, i s - p + k d, ...] += x[n,c,i,j] w[c,o,k,l], and b[o] */
#include "ops/convolution/conv_codes.h"
#include "ops/ops_list.h"

static const dt_key keys[] = {
    DT__CONV_KEYS(DT_KEY_PAIR, "1, 1", "0, 0"),
    DT__CONV_OUTPUT_PADDING(DT_KEY_PAIR, "0, 0"),
    { 0 },
};

const dt_op dt__op_conv_transpose2d = {
    .name = "conv_transpose2d",
    .text =
        "y[n, o, i stride - padding + k dilation, ...] += x[n,c,i,j] weight[c,o,k,l], and bias[o]",
    .in_name = { "x", "weight", "bias" },
    .out_name = { "y" },
    .role = { DT_CODES, DT_CODES, DT_READ },
    .ungrouped = true,
    .optional = { [DT__CONV_BIAS] = true },
    .saves = { .arg = { DT_VALUE, DT_VALUE } },
    .saves_coded = { .arg = { DT_SAVE_CODES, DT_SAVE_CODES } },
    .options_size = sizeof(dt_conv_options),
    .defaults = &dt__conv_default,
    .keys = keys,
    .shape = dt__conv_shape,
    .forward = dt__conv_forward,
    .forward_codes = dt__conv_forward_codes,
    .takes_codes = dt__conv_takes_codes,
    .backward = dt__conv_backward,
    .scratch = dt__conv_backward_scratch,
};

dt_tensor *dt_conv_transpose2d(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                               const dt_conv_options *options)
{
    return dt__conv_apply(t, &dt__op_conv_transpose2d, (dt_tensor *[]){ x, weight, bias }, options);
}

#define P(rows, columns)                                                                           \
    {                                                                                              \
        rows, columns                                                                              \
    }
#define WITH(s, p, d, o, g)                                                                        \
    &(const dt_conv_options) { s, p, d, o, g }

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
      .options = WITH(P(1, 3), P(0, 0), P(1, 1), P(0, 1), 1), .n_y = 6,
      .y = { 10.5, 1.5, 0.5, 20.5, 2.5, 0.5 } },
    { "random", .in = { { { 2, 3, 3, 4 } }, { { 3, 4, 3, 3 } }, { { 4 } } } },
    { "doubled", .in = { { { 2, 4, 3, 4 } }, { { 4, 3, 2, 2 } }, { { 3 } } },
      .options = WITH(P(2, 2), P(0, 0), P(1, 1), P(0, 0), 1) },
    { "uneven", .in = { { { 2, 3, 4, 3 } }, { { 3, 2, 3, 2 } }, { { 2 } } },
      .options = WITH(P(2, 3), P(2, 0), P(2, 1), P(1, 2), 1) },
    { "output padding below the dilation", .in = { { { 1, 2, 3, 3 } }, { { 2, 2, 2, 2 } } },
      .options = WITH(P(1, 1), P(0, 0), P(3, 2), P(2, 1), 1) },
    { "groups", .in = { { { 2, 6, 3, 4 } }, { { 6, 2, 3, 3 } }, { { 4 } } },
      .options = WITH(P(2, 1), P(1, 1), P(1, 1), P(0, 0), 2) },
    { "depthwise", .in = { { { 2, 9, 3, 4 } }, { { 9, 1, 3, 3 } }, { { 9 } } },
      .options = WITH(P(2, 2), P(1, 1), P(1, 1), P(0, 0), 9) },
    { "depthwise, doubled", .in = { { { 2, 3, 3, 4 } }, { { 3, 2, 2, 3 } }, { { 6 } } },
      .options = WITH(P(1, 1), P(0, 0), P(1, 1), P(0, 0), 3) },
    { "many", .in = { { { 5, 32, 7, 7 } }, { { 32, 16, 4, 4 } }, { { 16 } } },
      .options = WITH(P(2, 2), P(1, 1), P(1, 1), P(0, 0), 1), .rough = true },
    { "no images", .in = { { { 0, 3, 5, 6 } }, { { 3, 4, 3, 3 } }, { { 4 } } } },
    { "no channels", .in = { { { 2, 0, 5, 6 } }, { { 0, 4, 3, 3 } }, { { 4 } } } },
    { "channels", .in = { { { 2, 3, 5, 6 } }, { { 4, 3, 3, 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "x has 3 channels, weight takes 4" },
    { "groups of x", .in = { { { 2, 3, 5, 6 } }, { { 3, 4, 3, 3 } } },
      .options = WITH(P(1, 1), P(0, 0), P(1, 1), P(0, 0), 2), .fails = DT_ERR_SHAPE,
      .says = "2 groups do not divide 3 channels" },
    { "bias", .in = { { { 2, 4, 5, 6 } }, { { 4, 3, 3, 3 } }, { { 3 } } },
      .options = WITH(P(1, 1), P(0, 0), P(1, 1), P(0, 0), 2), .fails = DT_ERR_SHAPE,
      .says = "bias must be [6]" },
    { "output padding", .in = { { { 2, 3, 5, 6 } }, { { 3, 4, 3, 3 } } },
      .options = WITH(P(2, 3), P(0, 0), P(1, 1), P(2, 0), 1), .fails = DT_ERR_ARG,
      .says = "output_padding is 2; it must be below stride or dilation, which are 2 and 1" },
    { "nothing left", .in = { { { 2, 3, 2, 6 } }, { { 3, 4, 3, 3 } } },
      .options = WITH(P(1, 1), P(2, 0), P(1, 1), P(0, 0), 1), .fails = DT_ERR_SHAPE,
      .says = "y would have 0 rows" },
    { "no columns", .in = { { { 2, 3, 2, 0 }, 4 }, { { 3, 4, 3, 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "y would have 0 columns" },
    { "a huge stride", .in = { { { 2, 3, 4, 5 } }, { { 3, 4, 3, 3 } } },
      .options = WITH(P(2147483647, 1), P(0, 0), P(1, 1), P(0, 0), 1), .fails = DT_ERR_SHAPE,
      .says = "y would have 6442450944 rows" },
    { "rank", .in = { { { 2, 3, 5 } }, { { 3, 4, 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "x has rank 3" },
    { "integers", .in = { { { 2, 3, 5, 6 }, .dtype = DT_I32 }, { { 3, 4, 3, 3 } } },
      .fails = DT_ERR_DTYPE },
};
DT__CASES(conv_transpose2d, cases)
