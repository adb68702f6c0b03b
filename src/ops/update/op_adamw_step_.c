/* A step of AdamW, in place, in one pass (Loshchilov and Hutter 2019).
 *     p *= 1 - lr decay;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
 *     p -= lr (m / (1-b1^n)) / (sqrt(v / (1-b2^n)) + eps) */
#include "ops/update/step.h"

DT__ADAM_OP(adamw_step_, "p *= 1 - lr decay; then as Adam without decay", true)

static const dt__case cases[] = {
    DT__ADAM_CASES,
    { "long", .in = { { { 200, 201 } }, { { 200, 201 } }, DT__MOMENTS({ 200, 201 }) } },
};
DT__CASES(adamw_step_, cases)
