/* What ops of floats become in an integer network (device_plan.h). */
#ifndef DT__QAT_DEVICE_BECOMES_H
#define DT__QAT_DEVICE_BECOMES_H

#include "autograd/coded.h"
#include "autograd/op.h"
#include "nn/module.h"

typedef struct dt__becomes {
    const dt_op *op;
    bool product, ranged; /* it has a weight; its result has a range of its own */
    bool pairs;           /* of two operands, one of which may be a constant of the layer */
    bool clamps;          /* an activation behind it is a clamp of its codes */
    int table;            /* of device_table: 1 + DT_TABLE_..., else 0 */
    /* Why a call cannot be computed by codes; NULL: it can. */
    const char *(*bars)(const dt_call *c);
} dt__becomes;

/* NULL: no op of codes computes it. */
const dt__becomes *dt__becomes_of(const dt_op *op);
/* The range that results of an op always have; scale 0: it has none. */
dt__coding_range dt__fixed_range(const dt_op *op);
static inline bool dt__has_fixed_range(const dt_op *op) { return dt__fixed_range(op).scale > 0; }
/* Why integers cannot compute a layer, whatever its calls are; NULL: they can. */
const char *dt__bars_module(const dt_module *m);
/* Why integers cannot compute a call that m makes; NULL: they can. */
const char *dt__bars_call(const dt_call *c, const dt_module *m);

#endif
