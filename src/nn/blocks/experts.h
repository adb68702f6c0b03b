/* Mixtures of experts: their layers, and the auxiliary loss of their routers. */
#ifndef DT__NN_EXPERTS_H
#define DT__NN_EXPERTS_H

#include "nn/module.h"

typedef struct dt__experts_plan {
    int64_t count, in, out; /* number of experts; features of each */
    bool bias;
    double deviation; /* weights normal(0, deviation), biases 0; 0: as dt_grouped_linear_create */
} dt__experts_plan;

/* Make the parameters of a grouped linear layer; and of a router, which has one output per
 * expert. */
dt_status dt__grouped_linear_build(dt_module *m, const dt__experts_plan *plan);
dt_status dt__router_build(dt_module *m, const dt__experts_plan *plan);
/* Initializes a weight as the options say. */
dt_status dt__draw_weight(dt_tensor *x, const dt__experts_plan *plan);

/* The logits of all routers of a model, in the order of its blocks. */
typedef struct dt__routed {
    dt_tensor *part[DT_MAX_IN];
    int n;
} dt__routed;

/* Appends the logits of one more layer, [..., experts]. */
void dt__routed_add(dt_tape *t, dt__routed *r, dt_tensor *logits);
/* The routers' auxiliary loss, balance * dt_load_balance_loss + z * dt_router_z_loss, over the rows
 * of all layers together: a scalar; NULL with the error on t. A loss whose factor is 0 is left out;
 * at least one factor is above 0. */
dt_tensor *dt__routed_loss(dt_tape *t, dt__routed *r, const dt_moe_options *o);

#endif
