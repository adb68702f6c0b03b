/* The exponential, element by element.      y = e^x      dx = dy * y */
#include "ops/elementwise/unary.h"

DT__UNARY(exp, "y = e^x", DT__RESULT, NULL)

static const dt__case cases[] = {
    { "values", .in = { { { 3 }, .given = true, .values = { -1, 0, 2 } } }, .n_y = 3,
      .y = { 0.36787944117144233, 1.0, 7.38905609893065 } },
    { "random", .in = { { { 2, 3, 4 } } } },
    { "empty", .in = { { { 0, 3 } } } },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE, .says = "f32" },
};
DT__CASES(exp, cases)
