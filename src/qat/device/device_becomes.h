/* What ops of floats become in an integer network (device_plan.h). */
#ifndef DT__QAT_DEVICE_BECOMES_H
#define DT__QAT_DEVICE_BECOMES_H

#include "autograd/op.h"
#include "nn/module.h"

typedef struct dt__becomes {
    const dt_op *op;
    bool product, ranged; /* it has a weight; its result has a range of its own */
    /* Why a call cannot be computed by codes; NULL: it can. */
    const char *(*bars)(const dt_call *c);
} dt__becomes;

/* NULL: no op of codes computes it. */
const dt__becomes *dt__becomes_of(const dt_op *op);
/* Why integers cannot compute a layer, whatever its calls are; NULL: they can. */
const char *dt__bars_module(const dt_module *m);
/* Why integers cannot compute a call that m makes; NULL: they can. */
const char *dt__bars_call(const dt_call *c, const dt_module *m);

#endif
