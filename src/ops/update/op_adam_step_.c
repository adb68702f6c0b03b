/* A step of Adam, in place, in one pass (Kingma and Ba 2015).
 *     g += decay p;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
 *     p -= lr (m / (1-b1^n)) / (sqrt(v / (1-b2^n)) + eps) */
#include "ops/ops_list.h"
#include "ops/update/step.h"

DT__ADAM_OP(adam_step_,
            "g += decay p; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; "
            "p -= lr m / (1-b1^step) / (sqrt(v / (1-b2^step)) + eps)",
            false)

static const dt__case cases[] = {
    { "first",
      .in = { { { 2 }, .given = true, .values = { 1, -2 } },
              { { 2 }, .given = true, .values = { 0.5, -3 } },
              { { 2 }, .given = true, .values = { 0, 0 } },
              { { 2 }, .given = true, .values = { 0, 0 } } },
      .options = DT__ADAM(.lr = 0.125, .beta1 = 0.5, .beta2 = 0.5, .step = 1), .n_y = 2,
      .y = { 0.875, -1.875 } },
    { "later", .in = { { { 3, 5 } }, { { 3, 5 } }, DT__MOMENTS({ 3, 5 }) },
      .options = DT__ADAM(.lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3, .weight_decay = 0.1,
                          .step = 7) },
    { "empty", .in = { { { 0, 3 } }, { { 0, 3 } }, DT__MOMENTS({ 0, 3 }) } },
    { "shape", .in = { { { 3 } }, { { 4 } }, DT__MOMENTS({ 3 }) }, .fails = DT_ERR_SHAPE,
      .says = "g must be [3]" },
    { "step", .in = { { { 3 } }, { { 3 } }, DT__MOMENTS({ 3 }) }, .options = DT__ADAM(.step = 0),
      .fails = DT_ERR_ARG, .says = "step is 0" },
    { "beta", .in = { { { 3 } }, { { 3 } }, DT__MOMENTS({ 3 }) },
      .options = DT__ADAM(.beta1 = 1, .step = 1), .fails = DT_ERR_ARG, .says = "beta1" },
    { "no moments", .in = { { { 3 } }, { { 3 } } }, .fails = DT_ERR_ARG, .says = "2 operands" },
    { "integers", .in = { { { 3 } }, { { 3 }, .dtype = DT_I32 }, DT__MOMENTS({ 3 }) },
      .fails = DT_ERR_DTYPE },
};
DT__CASES(adam_step_, cases)
