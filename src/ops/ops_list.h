/* Declares every op of src/ops, from ops.inc. */
#ifndef DT__OPS_OPS_LIST_H
#define DT__OPS_OPS_LIST_H

#include "autograd/op.h"

#define DT__OP(name) extern const dt_op dt__op_##name;
#include "ops/ops.inc"
#undef DT__OP

/* The activation that a DT_ACT_... names, as an op of its own. */
dt_tensor *dt__activated(dt_tape *t, dt_tensor *x, int activation);

#endif
