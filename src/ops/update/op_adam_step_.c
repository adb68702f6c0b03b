/* A step of Adam, in place, in one pass (Kingma and Ba 2015).
 *     g += decay p;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
 *     p -= lr (m / (1-b1^n)) / (sqrt(v / (1-b2^n)) + eps) */
#include "ops/update/step.h"

DT__ADAM_OP(adam_step_,
            "g += decay p; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; "
            "p -= lr m / (1-b1^step) / (sqrt(v / (1-b2^step)) + eps)",
            false)

static const dt__case cases[] = {
    DT__ADAM_CASES,
};
DT__CASES(adam_step_, cases)
