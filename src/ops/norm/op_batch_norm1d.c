/* Batch normalization per channel of [N, C] or [N, C, L]:
 * src/ops/norm/batch_norm_ops.c. */
#include "ops/norm/batch_norm_ops.h"

static dt_status shape(dt_call *c) { return dt__batch_norm_shape(c, 2, 3); }

DT__BATCH_NORM(batch_norm1d)

#define EVALUATION DT__WITH(dt_batch_norm_options, .eps = 1e-5)
#define RELU DT__WITH(dt_batch_norm_options, true, 0.1, 1e-5, DT_ACT_RELU)
#define RELU6 DT__WITH(dt_batch_norm_options, true, 0.1, 1e-5, DT_ACT_RELU6)
#define FACTOR                                                                                     \
    {                                                                                              \
        { 5 }, .low = 0.5, .high = 2                                                               \
    }
#define FOUR(...)                                                                                  \
    { __VA_ARGS__ }, { __VA_ARGS__ }, { __VA_ARGS__ }, { __VA_ARGS__, .low = 0.5, .high = 2 }
#define ONE(v) DT__GIVEN(DT__LIST(1), v)
#define PAIR(a, b) ONE(a), ONE(b)

static const dt__case cases[] = {
    { "values", .in = { { { 2, 1 }, .given = true, .values = { 1, 3 } }, PAIR(2, 0.5), PAIR(0, 1) },
      .options = &(const dt_batch_norm_options){ true, 0.5, 0, DT_ACT_NONE }, .n_y = 2,
      .y = { -1.5, 2.5 } },
    { "standing",
      .in = { { { 2, 1 }, .given = true, .values = { 1, 3 } }, PAIR(2, 0.5), PAIR(1, 4) },
      .options = &(const dt_batch_norm_options){ false, 0.5, 0, DT_ACT_NONE }, .n_y = 2,
      .y = { 0.5, 2.5 } },
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
      .options = &(const dt_batch_norm_options){ true, 2, 0, DT_ACT_NONE }, .fails = DT_ERR_ARG,
      .says = "momentum is 2" },
    { "relu", .in = { { { 7, 5 } }, FOUR({ 5 }), { .absent = true }, { .absent = true } },
      .options = RELU },
    { "residual and relu", .in = { { { 7, 5 } }, FOUR({ 5 }), { { 7, 5 } } }, .options = RELU },
    { "residual", .in = { { { 7, 5 } }, FOUR({ 5 }), { { 7, 5 } } }, .options = EVALUATION },
    { "factor", .in = { { { 7, 5 } }, FOUR({ 5 }), { .absent = true }, FACTOR } },
    { "factor in evaluation", .in = { { { 7, 5 } }, FOUR({ 5 }), { { 7, 5 } }, FACTOR },
      .options = EVALUATION },
    { "relu6 in evaluation",
      .in = { { { 7, 5 }, .low = -6, .high = 9 }, FOUR({ 5 }), { { 7, 5 }, .low = -6, .high = 9 } },
      .options = &(const dt_batch_norm_options){ .eps = 1e-5, .activation = DT_ACT_RELU6 } },
    { "residual and relu6",
      .in = { { { 7, 5 }, .low = -6, .high = 9 }, FOUR({ 5 }), { { 7, 5 }, .low = -6, .high = 9 } },
      .options = RELU6 },
    { "all", .in = { { { 7, 5 } }, FOUR({ 5 }), { { 7, 5 } }, FACTOR }, .options = RELU },
    { "no weight", .in = { { { 7, 5 } },
                           { .absent = true },
                           { .absent = true },
                           { { 5 } },
                           { { 5 }, .low = 0.5, .high = 2 } } },
    { "residual's shape", .in = { { { 7, 5 } }, FOUR({ 5 }), { { 5, 5 } } }, .fails = DT_ERR_SHAPE,
      .says = "residual must be" },
    { "activation", .in = { { { 7, 5 } }, FOUR({ 5 }) },
      .options = &(const dt_batch_norm_options){ true, 0.1, 1e-5, DT_ACT_GELU },
      .fails = DT_ERR_ARG, .says = "activation 2" },
    { "integers", .in = { { { 2, 3 }, .dtype = DT_I32 }, FOUR({ 3 }) }, .fails = DT_ERR_DTYPE },
};
DT__CASES(batch_norm1d, cases)
