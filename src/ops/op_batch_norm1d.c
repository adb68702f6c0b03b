/* Batch normalization per channel of [N, C] or [N, C, L]:
 * src/ops/batch_norm.c. */
#include "ops/batch_norm.h"
#include "ops/ops_list.h"

static dt_status shape(dt_call *c)
{
    DT__TRY(dt__want_operands(c, 5, 5));
    DT__TRY(dt__want_rank(c, 0, 2, 3));
    return dt__batch_norm_shape(c);
}

DT__BATCH_NORM(batch_norm1d)

dt_tensor *dt_batch_norm1d(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                           dt_tensor *running_mean, dt_tensor *running_var,
                           const dt_batch_norm_options *options)
{
    return dt_apply(t, &dt__op_batch_norm1d,
                    DT__CALL_WITH(options, x, weight, bias, running_mean, running_var));
}

#define EVALUATION                                                                                 \
    &(const dt_batch_norm_options) { .eps = 1e-5 }
#define FOUR(...)                                                                                  \
    { __VA_ARGS__ }, { __VA_ARGS__ }, { __VA_ARGS__ }, { __VA_ARGS__, .low = 0.5, .high = 2 }
#define ONE(v)                                                                                     \
    {                                                                                              \
        { 1 }, .given = true, .values = { v }                                                      \
    }
#define PAIR(a, b) ONE(a), ONE(b)

static const dt__case cases[] = {
    { "values", .in = { { { 2, 1 }, .given = true, .values = { 1, 3 } }, PAIR(2, 0.5), PAIR(0, 1) },
      .options = &(const dt_batch_norm_options){ true, 0.5, 0 }, .n_y = 2, .y = { -1.5, 2.5 } },
    { "standing",
      .in = { { { 2, 1 }, .given = true, .values = { 1, 3 } }, PAIR(2, 0.5), PAIR(1, 4) },
      .options = &(const dt_batch_norm_options){ false, 0.5, 0 }, .n_y = 2, .y = { 0.5, 2.5 } },
    { "random", .in = { { { 6, 19 } }, FOUR({ 19 }) } },
    { "signals", .in = { { { 3, 4, 5 } }, FOUR({ 4 }) } },
    { "evaluation", .in = { { { 4, 3, 2 } }, FOUR({ 3 }) }, .options = EVALUATION },
    { "large", .in = { { { 300, 33 } }, FOUR({ 33 }) }, .rough = true },
    { "no rows", .in = { { { 0, 3 } }, FOUR({ 3 }) }, .options = EVALUATION },
    { "no channels", .in = { { { 3, 0 }, 2 }, FOUR({ 0 }, 1) } },
    { "one value", .in = { { { 1, 3 } }, FOUR({ 3 }) }, .fails = DT_ERR_SHAPE,
      .says = "1 values a channel" },
    { "channels", .in = { { { 2, 3 } }, FOUR({ 2 }) }, .fails = DT_ERR_SHAPE,
      .says = "weight must be [3]" },
    { "rank", .in = { { { 3 } }, FOUR({ 3 }) }, .fails = DT_ERR_SHAPE, .says = "rank 1" },
    { "momentum", .in = { { { 2, 3 } }, FOUR({ 3 }) },
      .options = &(const dt_batch_norm_options){ true, 2, 0 }, .fails = DT_ERR_ARG,
      .says = "momentum is 2" },
    { "integers", .in = { { { 2, 3 }, .dtype = DT_I32 }, FOUR({ 3 }) }, .fails = DT_ERR_DTYPE },
};
DT__CASES(batch_norm1d, cases)
