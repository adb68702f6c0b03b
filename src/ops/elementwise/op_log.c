/* The natural logarithm, element by element.      y = ln x      dx = dy / x */
#include "ops/elementwise/unary.h"

DT__UNARY(log, "y = ln x", DT__OPERAND, NULL)

static const dt__case cases[] = {
    { "values", .in = { { { 3 }, .given = true, .values = { 0.5, 1, 3 } } }, .n_y = 3,
      .y = { -0.6931471805599453, 0.0, 1.0986122886681098 } },
    { "random", .in = { { { 2, 3, 4 }, .low = 0.5, .high = 2 } } },
    { "empty", .in = { { { 0, 3 } } } },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE, .says = "f32" },
};
DT__CASES(log, cases)
