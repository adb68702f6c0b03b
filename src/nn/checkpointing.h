/* Modules that backward runs again. */
#ifndef DT__NN_CHECKPOINTING_H
#define DT__NN_CHECKPOINTING_H

#include "autograd/segment.h"
#include "nn/module.h"

/* The call with checked inputs: once, and as a stretch of the tape. Errors stay on the tape. */
void dt__forward_once(dt_tape *t, const dt__module_call *c);
void dt__forward_recomputed(dt_tape *t, const dt__module_call *c);

#endif
