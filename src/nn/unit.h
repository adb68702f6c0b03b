/* A unit: a layer that multiplies, the norm of what it gives, and an activation. */
#ifndef DT__NN_UNIT_H
#define DT__NN_UNIT_H

#include "nn/module.h"

typedef struct dt__unit {
    dt_module *layer, *norm, *activation; /* norm and activation may be NULL */
    dt_tensor *residual; /* like what the norm gives: joins before the activation; or NULL */
} dt__unit;

/* y = activation(norm(layer(x)) + residual), as a chain. */
dt_tensor *dt__unit_forward(dt_tape *t, const dt__unit *u, dt_tensor *x);

#endif
