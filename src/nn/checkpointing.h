/* Activation checkpointing of modules: backward runs them again. */
#ifndef DT__NN_CHECKPOINTING_H
#define DT__NN_CHECKPOINTING_H

#include "autograd/segment.h"
#include "nn/module.h"

/* Run a call whose inputs were checked: normally, and as a checkpointed segment. Errors are on the
 * tape. */
void dt__forward_once(dt_tape *t, const dt__module_call *c);
void dt__forward_recomputed(dt_tape *t, const dt__module_call *c);

#endif
