/* The square root, element by element.      y = sqrt(x)      dx = dy / (2 y) */
#include "ops/elementwise/unary.h"

DT__UNARY(sqrt, "y = sqrt(x)", DT__RESULT, NULL)

static const dt__case cases[] = {
    { "values", .in = { { { 3 }, .given = true, .values = { 0.25, 1, 2 } } }, .n_y = 3,
      .y = { 0.5, 1.0, 1.4142135623730951 } },
    { "random", .in = { { { 2, 3, 4 }, .low = 0.5, .high = 2 } } },
    { "empty", .in = { { { 0, 3 } } } },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE, .says = "f32" },
};
DT__CASES(sqrt, cases)
