/* Mixtures of experts: their layers, and the auxiliary loss of their routers. */
#ifndef DT__NN_EXPERTS_H
#define DT__NN_EXPERTS_H

#include "nn/module.h"

typedef struct dt__experts_plan {
    int64_t count, in, out; /* experts; of each */
    bool bias;
    double deviation; /* weights normal(0, deviation), biases 0; 0: as dt_grouped_linear_create */
} dt__experts_plan;

/* The parameters of a grouped linear layer; of a router, whose outputs are the experts; and how
 * they are drawn. */
dt_status dt__grouped_linear_build(dt_module *m, const dt__experts_plan *plan);
dt_status dt__router_build(dt_module *m, const dt__experts_plan *plan);
dt_status dt__draw_weight(dt_tensor *x, const dt__experts_plan *plan);

/* Logits of the routers of a model, as its blocks return them, in their order. */
typedef struct dt__routed {
    dt_tensor *part[DT_MAX_IN];
    int n;
} dt__routed;

/* Adds the logits of one more layer, [..., experts]. */
void dt__routed_add(dt_tape *t, dt__routed *r, dt_tensor *logits);
/* balance * dt_load_balance_loss + z * dt_router_z_loss of all that was added, whose rows are
 * taken together: a scalar, NULL with the error on t. A factor that is 0 leaves its loss out;
 * not both are. */
dt_tensor *dt__routed_loss(dt_tape *t, dt__routed *r, const dt_moe_options *o);

/* y = factor x */
dt_tensor *dt__times(dt_tape *t, dt_tensor *x, double factor);

#endif
