/* tanh, element by element.      y = tanh(x)      dx = dy * (1 - y^2) */
#include "ops/elementwise/unary.h"

DT__UNARY(tanh, "y = tanh(x)", DT__RESULT, NULL)

static const dt__case cases[] = {
    { "values", .in = { { { 3 }, .given = true, .values = { -1, 0, 2 } } }, .n_y = 3,
      .y = { -0.7615941559557649, 0.0, 0.9640275800758169 } },
    { "random", .in = { { { 2, 3, 4 } } } },
    { "long", .in = { { { 40001 } } }, .rough = true },
    { "empty", .in = { { { 0, 3 } } } },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE, .says = "f32" },
};
DT__CASES(tanh, cases)
