/* The error function, element by element.
 *     y = 2 / sqrt(pi) times the integral of e^-s^2 from 0 to x      dx = dy 2 / sqrt(pi) e^-x^2 */
#include "ops/elementwise/unary.h"

DT__UNARY(erf, "y = erf(x)", DT__OPERAND, NULL)

static const dt__case cases[] = {
    { "values", .in = { { { 5 }, .given = true, .values = { -2, -0.25, 0, 1e-4, 0.75 } } },
      .n_y = 5,
      .y = { -0.99532226501895273, -0.27632639016823690, 0, 1.1283791633342486e-4,
             0.71115563365351511 } },
    { "far out", .in = { { { 4 }, .given = true, .values = { -60, -9, 9, 60 } } }, .n_y = 4,
      .y = { -1, -1, 1, 1 } },
    { "random", .in = { { { 2, 3, 4 }, .low = -3, .high = 3 } } },
    { "long", .in = { { { 40003 }, .low = -3, .high = 3 } }, .rough = true },
    { "empty", .in = { { { 0, 3 } } } },
    { "integers", .in = { { { 3 }, .dtype = DT_I32 } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(erf, cases)
