/* Ops with a constant number. */
#ifndef DT__NN_SCALAR_H
#define DT__NN_SCALAR_H

#include "nn/module.h"

/* y = factor x, and y = x + addend, with the number rounded to x's dtype; NULL with the error on
 * t. */
dt_tensor *dt__times(dt_tape *t, dt_tensor *x, double factor);
dt_tensor *dt__plus(dt_tape *t, dt_tensor *x, double addend);

#endif
