/* Batch normalization per channel of [N, C, H, W]:
 * src/ops/batch_norm.c. */
#include "ops/batch_norm.h"
#include "ops/ops_list.h"

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, 5, 5));
    DT__TRY(dt__want_rank(c, 0, 4, 4));
    return dt__batch_norm_shape(c);
}

DT__BATCH_NORM(batch_norm2d)

dt_tensor *dt_batch_norm2d(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                           dt_tensor *running_mean, dt_tensor *running_var,
                           const dt_batch_norm_options *options)
{
    return dt_apply(t, &dt__op_batch_norm2d,
                    DT__CALL_WITH(options, x, weight, bias, running_mean, running_var));
}

#define EVALUATION                                                                                 \
    &(const dt_batch_norm_options) { .eps = 1e-5 }
#define FOUR(...)                                                                                  \
    { __VA_ARGS__ }, { __VA_ARGS__ }, { __VA_ARGS__ }, { __VA_ARGS__, .low = 0.5, .high = 2 }

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 1, 1, 2 }, .given = true, .values = { 1, 3 } },
              { { 1 }, .given = true, .values = { 2 } },
              { { 1 }, .given = true, .values = { 0.5 } },
              { { 1 }, .given = true, .values = { 0 } },
              { { 1 }, .given = true, .values = { 1 } } },
      .options = &(const dt_batch_norm_options){ true, 0.5, 0 }, .n_y = 2, .y = { -1.5, 2.5 } },
    { "images", .in = { { { 3, 4, 5, 3 } }, FOUR({ 4 }) } },
    { "evaluation", .in = { { { 2, 3, 3, 4 } }, FOUR({ 3 }) }, .options = EVALUATION },
    { "points", .in = { { { 6, 5, 1, 1 } }, FOUR({ 5 }) } },
    { "large", .in = { { { 40, 5, 17, 13 } }, FOUR({ 5 }) }, .rough = true },
    { "many channels", .in = { { { 5, 37, 6, 9 } }, FOUR({ 37 }) }, .rough = true },
    { "no images", .in = { { { 0, 3, 2, 2 } }, FOUR({ 3 }) }, .options = EVALUATION },
    { "no channels", .in = { { { 3, 0, 2, 2 }, 4 }, FOUR({ 0 }, 1) } },
    { "one value", .in = { { { 1, 3, 1, 1 } }, FOUR({ 3 }) }, .fails = DT_ERR_SHAPE,
      .says = "1 values a channel" },
    { "channels", .in = { { { 2, 3, 2, 2 } }, FOUR({ 2 }) }, .fails = DT_ERR_SHAPE,
      .says = "weight must be [3]" },
    { "rank", .in = { { { 3, 2, 5 } }, FOUR({ 2 }) }, .fails = DT_ERR_SHAPE, .says = "rank 3" },
    { "integers", .in = { { { 2, 3, 2, 2 }, .dtype = DT_I32 }, FOUR({ 3 }) },
      .fails = DT_ERR_DTYPE },
};
DT__CASES(batch_norm2d, cases)
