/* The absolute value, element by element.      y = |x|      dx = x > 0 ? dy : x < 0 ? -dy : 0 */
#include "ops/elementwise/unary.h"

DT__UNARY(abs, "y = |x|", DT__OPERAND, NULL)

static const dt__case cases[] = {
    { "values", .in = { { { 4 }, .given = true, .values = { -1.5, -0.0, 0, 2 } } }, .n_y = 4,
      .y = { 1.5, 0, 0, 2 }, .rough = true },
    { "both sides", .in = { { { 4 }, .given = true, .values = { -3, -0.25, 0.5, 7 } } } },
    { "long", .in = { { { 40003 } } }, .rough = true },
    { "empty", .in = { { { 0, 3 } } } },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(abs, cases)
