/* Modules that backward runs again. */
#ifndef DT__NN_CHECKPOINTING_H
#define DT__NN_CHECKPOINTING_H

#include "autograd/segment.h"
#include "nn/module.h"

/* What dt_forward_n does with checked inputs, and the same as a stretch of the tape. Errors stay there. */
void dt__forward_once(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                      int n_out);
void dt__forward_recomputed(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                            dt_tensor **out, int n_out);

#endif
