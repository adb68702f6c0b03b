/* Nearest-neighbour resampling of the lines of x [N, C, L] to another length.
 *     y[.., i] = x[.., floor(i L / length)]      dx = sum of dy over the elements that copy x */
#include "ops/ops_list.h"
#include "ops/pool/resize_ops.h"

static void lower(dt_tape *t, dt_tensor *const *in, const void *given, dt_tensor **out)
{
    dt__resize_lower_line(t, in, given, out, dt_upsample_nearest);
}

DT__RESIZE_OP(upsample_nearest1d, "lines resampled to another length by nearest neighbour", 1d,
              upsample, true, lower)

dt_tensor *dt_upsample_nearest1d(dt_tape *t, dt_tensor *x, int64_t length)
{
    return apply(t, x, length, 0);
}

static const dt__case cases[] = {
    { "values", .in = { { { 1, 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } } },
      .options = DT__TO(4), .n_y = 8, .y = { 1, 1, 2, 2, 3, 3, 4, 4 } },
    { "uneven", .in = { { { 2, 3, 5 } } }, .options = DT__TO(11) },
    { "downward", .in = { { { 2, 3, 7 } } }, .options = DT__TO(3) },
    { "long", .in = { { { 4, 8, 555 } } }, .options = DT__TO(1110), .rough = true },
    { "no signals", .in = { { { 0, 2, 4 } } }, .options = DT__TO(8) },
    { "no pixels", .in = { { { 2, 3, 0 }, 3 } }, .options = DT__TO(2), .fails = DT_ERR_SHAPE,
      .says = "no pixel" },
    { "no length", .in = { { { 1, 1, 2 } } }, .options = DT__TO(0), .fails = DT_ERR_ARG,
      .says = "a length of 0" },
    { "rank", .in = { { { 2, 2, 2, 2 } } }, .options = DT__TO(4), .fails = DT_ERR_SHAPE,
      .says = "rank 4" },
    { "integers", .in = { { { 1, 1, 2 }, .dtype = DT_I32 } }, .options = DT__TO(4),
      .fails = DT_ERR_DTYPE },
};
DT__CASES(upsample_nearest1d, cases)
