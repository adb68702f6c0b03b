/* A unit: a linear or convolution layer, a norm of its output, and an activation. */
#ifndef DT__NN_UNIT_H
#define DT__NN_UNIT_H

#include "nn/module.h"

typedef struct dt__unit {
    dt_module *layer, *norm, *activation; /* norm and activation may be NULL */
    dt_tensor *residual;                  /* added before the activation; NULL: none */
} dt__unit;

/* y = activation(norm(layer(x)) + residual), run by dt_forward_chain. */
dt_tensor *dt__unit_forward(dt_tape *t, const dt__unit *u, dt_tensor *x);

#endif
