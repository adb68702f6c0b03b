/* A unit: a layer that multiplies, the norm of what it gives, and an activation. Models run the three
 * through here, which is where fusing and folding are decided. */
#ifndef DT__NN_UNIT_H
#define DT__NN_UNIT_H

#include "nn/module.h"

typedef struct dt__unit {
    dt_module *layer, *norm, *activation; /* norm and activation may be NULL */
    dt_tensor *residual; /* like what the norm gives: joins before the activation; or NULL */
} dt__unit;

/* When a model is built: `norm` takes what `layer` gives, and nothing else. Prepare finds it so. */
void dt__unit_pair(dt_module *layer, dt_module *norm);

/* y = activation(norm(layer(x)) + residual), with the hooks of all three, and with the bits of one
 * after the other. */
dt_tensor *dt__unit_forward(dt_tape *t, const dt__unit *u, dt_tensor *x);

#endif
