/* Batch normalization per channel of [N, C, H, W]:
 * src/ops/norm/batch_norm_ops.c. */
#include "ops/norm/batch_norm_ops.h"

static dt_status shape(dt_call *c) { return dt__batch_norm_shape(c, 4, 4); }

DT__BATCH_NORM(batch_norm2d)

#define EVALUATION DT__WITH(dt_batch_norm_options, .eps = 1e-5)
#define RELU DT__WITH(dt_batch_norm_options, true, 0.1, 1e-5, DT_ACT_RELU)
#define RELU6 DT__WITH(dt_batch_norm_options, true, 0.1, 1e-5, DT_ACT_RELU6)
#define FACTOR                                                                                     \
    {                                                                                              \
        { 5 }, .low = 0.5, .high = 2                                                               \
    }
#define FOUR(...)                                                                                  \
    { __VA_ARGS__ }, { __VA_ARGS__ }, { __VA_ARGS__ }, { __VA_ARGS__, .low = 0.5, .high = 2 }

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 1, 1, 2 }, .given = true, .values = { 1, 3 } },
              { { 1 }, .given = true, .values = { 2 } },
              { { 1 }, .given = true, .values = { 0.5 } },
              { { 1 }, .given = true, .values = { 0 } },
              { { 1 }, .given = true, .values = { 1 } } },
      .options = &(const dt_batch_norm_options){ true, 0.5, 0, DT_ACT_NONE }, .n_y = 2,
      .y = { -1.5, 2.5 } },
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
    { "relu", .in = { { { 3, 5, 3, 5 } }, FOUR({ 5 }), { .absent = true }, { .absent = true } },
      .options = RELU },
    { "residual and relu", .in = { { { 3, 5, 3, 5 } }, FOUR({ 5 }), { { 3, 5, 3, 5 } } },
      .options = RELU },
    { "relu6 in evaluation",
      .in = { { { 3, 5, 3, 5 }, .low = -6, .high = 9 },
              FOUR({ 5 }),
              { { 3, 5, 3, 5 }, .low = -6, .high = 9 } },
      .options = &(const dt_batch_norm_options){ .eps = 1e-5, .activation = DT_ACT_RELU6 } },
    { "residual and relu6",
      .in = { { { 3, 5, 3, 5 } }, FOUR({ 5 }), { { 3, 5, 3, 5 }, .low = -6, .high = 9 } },
      .options = RELU6 },
    { "residual", .in = { { { 3, 5, 3, 5 } }, FOUR({ 5 }), { { 3, 5, 3, 5 } } },
      .options = EVALUATION },
    { "factor", .in = { { { 3, 5, 3, 5 } }, FOUR({ 5 }), { .absent = true }, FACTOR } },
    { "factor in evaluation", .in = { { { 3, 5, 3, 5 } }, FOUR({ 5 }), { { 3, 5, 3, 5 } }, FACTOR },
      .options = EVALUATION },
    { "all", .in = { { { 3, 5, 3, 5 } }, FOUR({ 5 }), { { 3, 5, 3, 5 } }, FACTOR },
      .options = RELU },
    { "no weight", .in = { { { 3, 5, 3, 5 } },
                           { .absent = true },
                           { .absent = true },
                           { { 5 } },
                           { { 5 }, .low = 0.5, .high = 2 } } },
    { "residual's shape", .in = { { { 3, 5, 3, 5 } }, FOUR({ 5 }), { { 5, 5 } } },
      .fails = DT_ERR_SHAPE, .says = "residual must be" },
    { "activation", .in = { { { 3, 5, 3, 5 } }, FOUR({ 5 }) },
      .options = &(const dt_batch_norm_options){ true, 0.1, 1e-5, DT_ACT_GELU },
      .fails = DT_ERR_ARG, .says = "activation 2" },
    { "integers", .in = { { { 2, 3, 2, 2 }, .dtype = DT_I32 }, FOUR({ 3 }) },
      .fails = DT_ERR_DTYPE },
};
DT__CASES(batch_norm2d, cases)
