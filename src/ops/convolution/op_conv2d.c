/* 2d convolution.      y[n,o,i,j] = b[o] + sum of x[n, c, i s - p + k d, ...] w[o,c,k,l] */
#include "ops/convolution/conv_codes.h"
#include "ops/ops_list.h"

static const dt_key keys[] = {
    DT__CONV_KEYS(DT_KEY_PAIR, "1, 1", "0, 0"),
    { 0 },
};

const dt_op dt__op_conv2d = {
    .name = "conv2d",
    .text = "y[n,o,i,j] = bias[o] + sum of x[n, c, i stride - padding + k dilation, ...] "
            "weight[o,c,k,l]",
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

dt_tensor *dt_conv2d(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                     const dt_conv_options *options)
{
    return dt__conv_apply(t, &dt__op_conv2d, (dt_tensor *[]){ x, weight, bias }, options);
}

#define P(rows, columns)                                                                           \
    {                                                                                              \
        rows, columns                                                                              \
    }
#define WITH(s, p, d, o, g)                                                                        \
    &(const dt_conv_options) { s, p, d, o, g }

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 1, 2, 3 }, .given = true, .values = { 1, 2, 3, 4, 5, 6 } },
              { { 1, 1, 1, 2 }, .given = true, .values = { 10, 1 } },
              { { 1 }, .given = true, .values = { 0.5 } } },
      .n_y = 4, .y = { 12.5, 23.5, 45.5, 56.5 } },
    { "padding",
      .in = { { { 1, 1, 1, 2 }, .given = true, .values = { 1, 2 } },
              { { 1, 1, 1, 3 }, .given = true, .values = { 100, 10, 1 } } },
      .options = WITH(P(1, 1), P(0, 1), P(1, 1), P(0, 0), 1), .n_y = 2, .y = { 12, 120 } },
    { "random", .in = { { { 2, 3, 5, 6 } }, { { 4, 3, 3, 3 } }, { { 4 } } } },
    { "one tap", .in = { { { 2, 5, 3, 4 } }, { { 7, 5, 1, 1 } }, { { 7 } } } },
    { "stride", .in = { { { 2, 3, 7, 8 } }, { { 4, 3, 3, 3 } }, { { 4 } } },
      .options = WITH(P(2, 2), P(1, 1), P(1, 1), P(0, 0), 1) },
    { "uneven", .in = { { { 2, 2, 7, 9 } }, { { 3, 2, 2, 4 } }, { { 3 } } },
      .options = WITH(P(3, 1), P(0, 2), P(2, 1), P(0, 0), 1) },
    { "dilation", .in = { { { 1, 2, 7, 8 } }, { { 3, 2, 3, 3 } } },
      .options = WITH(P(1, 1), P(2, 3), P(2, 3), P(0, 0), 1) },
    { "groups", .in = { { { 2, 6, 4, 5 } }, { { 4, 3, 3, 2 } }, { { 4 } } },
      .options = WITH(P(1, 1), P(1, 0), P(1, 1), P(0, 0), 2) },
    { "depthwise", .in = { { { 2, 9, 5, 6 } }, { { 9, 1, 3, 3 } }, { { 9 } } },
      .options = WITH(P(1, 1), P(1, 1), P(1, 1), P(0, 0), 9) },
    { "depthwise, doubled", .in = { { { 2, 3, 5, 4 } }, { { 6, 1, 2, 3 } }, { { 6 } } },
      .options = WITH(P(1, 2), P(1, 1), P(1, 1), P(0, 0), 3) },
    { "larger than x", .in = { { { 1, 2, 2, 1 } }, { { 3, 2, 5, 3 } }, { { 3 } } },
      .options = WITH(P(1, 1), P(2, 1), P(1, 1), P(0, 0), 1) },
    { "unread", .in = { { { 1, 2, 6, 7 } }, { { 2, 2, 2, 2 } } },
      .options = WITH(P(4, 5), P(0, 0), P(1, 1), P(0, 0), 1) },
    { "padding beyond the kernel", .in = { { { 1, 2, 3, 3 } }, { { 2, 2, 2, 2 } }, { { 2 } } },
      .options = WITH(P(1, 1), P(3, 4), P(1, 1), P(0, 0), 1) },
    { "many", .in = { { { 5, 16, 14, 14 } }, { { 32, 16, 3, 3 } }, { { 32 } } },
      .options = WITH(P(1, 1), P(1, 1), P(1, 1), P(0, 0), 1), .rough = true },
    { "no images", .in = { { { 0, 3, 5, 6 } }, { { 4, 3, 3, 3 } }, { { 4 } } } },
    { "no channels", .in = { { { 2, 0, 5, 6 } }, { { 4, 0, 3, 3 } }, { { 4 } } } },
    { "no outputs", .in = { { { 2, 3, 5, 6 } }, { { 0, 3, 3, 3 } }, { { 0 }, 1 } } },
    { "no rows", .in = { { { 2, 3, 0, 4 } }, { { 4, 3, 1, 1 } }, { { 4 } } },
      .options = WITH(P(1, 1), P(1, 0), P(1, 1), P(0, 0), 1) },
    { "channels", .in = { { { 2, 3, 5, 6 } }, { { 4, 2, 3, 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "x has 3 channels, weight takes 2" },
    { "channels of a group", .in = { { { 2, 4, 5, 6 } }, { { 4, 4, 3, 3 } } },
      .options = WITH(P(1, 1), P(0, 0), P(1, 1), P(0, 0), 2), .fails = DT_ERR_SHAPE,
      .says = "x has 2 channels a group, weight takes 4" },
    { "groups of x", .in = { { { 2, 3, 5, 6 } }, { { 4, 3, 3, 3 } } },
      .options = WITH(P(1, 1), P(0, 0), P(1, 1), P(0, 0), 2), .fails = DT_ERR_SHAPE,
      .says = "2 groups do not divide 3 channels" },
    { "groups of y", .in = { { { 2, 4, 5, 6 } }, { { 3, 2, 3, 3 } } },
      .options = WITH(P(1, 1), P(0, 0), P(1, 1), P(0, 0), 2), .fails = DT_ERR_SHAPE,
      .says = "2 groups do not divide 3 channels" },
    { "no groups", .in = { { { 2, 3, 5, 6 } }, { { 4, 3, 3, 3 } } },
      .options = WITH(P(1, 1), P(0, 0), P(1, 1), P(0, 0), 0), .fails = DT_ERR_ARG,
      .says = "groups is 0" },
    { "bias", .in = { { { 2, 3, 5, 6 } }, { { 4, 3, 3, 3 } }, { { 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "bias must be [4]" },
    { "kernel too high", .in = { { { 2, 3, 2, 6 } }, { { 4, 3, 3, 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "the kernel reaches over 3 rows, x has 2 with padding" },
    { "dilation too wide", .in = { { { 2, 3, 5, 6 } }, { { 4, 3, 3, 3 } } },
      .options = WITH(P(1, 1), P(1, 0), P(1, 3), P(0, 0), 1), .fails = DT_ERR_SHAPE,
      .says = "the kernel reaches over 7 columns, x has 6 with padding" },
    { "a huge dilation", .in = { { { 2, 3, 5, 6 } }, { { 4, 3, 3, 3 } } },
      .options = WITH(P(1, 1), P(0, 0), P(2147483647, 1), P(0, 0), 1), .fails = DT_ERR_SHAPE,
      .says = "reaches over 4294967295 rows" },
    { "a dilation beyond", .in = { { { 2, 3, 5, 6 } }, { { 4, 3, 3, 3 } } },
      .options = WITH(P(1, 1), P(0, 0), P(1, INT64_MAX), P(0, 0), 1), .fails = DT_ERR_ARG,
      .says = "dilation is 9223372036854775807" },
    { "no kernel", .in = { { { 2, 3, 5, 6 } }, { { 4, 3, 0, 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "the kernel has no rows" },
    { "stride 0", .in = { { { 2, 3, 5, 6 } }, { { 4, 3, 3, 3 } } },
      .options = WITH(P(1, 0), P(0, 0), P(1, 1), P(0, 0), 1), .fails = DT_ERR_ARG,
      .says = "stride is 0" },
    { "negative padding", .in = { { { 2, 3, 5, 6 } }, { { 4, 3, 3, 3 } } },
      .options = WITH(P(1, 1), P(-1, 0), P(1, 1), P(0, 0), 1), .fails = DT_ERR_ARG,
      .says = "padding is -1" },
    { "output padding", .in = { { { 2, 3, 5, 6 } }, { { 4, 3, 3, 3 } } },
      .options = WITH(P(1, 1), P(0, 0), P(1, 1), P(0, 1), 1), .fails = DT_ERR_ARG,
      .says = "output_padding is 1" },
    { "rank of x", .in = { { { 3, 5, 6 } }, { { 4, 3, 3, 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "x has rank 3" },
    { "rank of weight", .in = { { { 2, 3, 5, 6 } }, { { 4, 3, 3 } } }, .fails = DT_ERR_SHAPE,
      .says = "weight has rank 3" },
    { "integers", .in = { { { 2, 3, 5, 6 }, .dtype = DT_I32 }, { { 4, 3, 3, 3 } } },
      .fails = DT_ERR_DTYPE },
};
DT__CASES(conv2d, cases)
