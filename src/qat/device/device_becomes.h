/* What float ops become in an integer network (device_plan.h). */
#ifndef DT__QAT_DEVICE_BECOMES_H
#define DT__QAT_DEVICE_BECOMES_H

#include "autograd/coded.h"
#include "autograd/op.h"
#include "nn/module.h"

typedef struct dt__becomes {
    const dt_op *op;
    bool product, ranged; /* it has a weight; its result has a range of its own */
    bool pairs;           /* of two operands, one of which may be a constant of the layer */
    bool clamps;          /* relu or relu6 behind it becomes a clamp of its codes */
    int table;            /* 1 + DT_TABLE_... of device_table; 0: no table */
    /* Why no device op can compute a call; NULL: one can. */
    const char *(*bars)(const dt_call *c);
} dt__becomes;

/* What an op becomes; NULL: no device op computes it. */
const dt__becomes *dt__becomes_of(const dt_op *op);
/* The fixed range of the results of an op; scale 0: it has none. */
dt__coding_range dt__fixed_range(const dt_op *op);
static inline bool dt__has_fixed_range(const dt_op *op) { return dt__fixed_range(op).scale > 0; }
/* Why integers cannot compute a layer, whatever its calls are; NULL: they can. */
const char *dt__bars_module(const dt_module *m);
/* Why integers cannot compute a call that m makes; NULL: they can. */
const char *dt__bars_call(const dt_call *c, const dt_module *m);

#endif
