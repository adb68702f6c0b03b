/* The auxiliary loss of a model's routers: it balances the load of the experts and keeps logits
 * small.
 *     loss = balance * dt_load_balance_loss(logits) + z * dt_router_z_loss(logits)
 * over the rows of all layers together [Fedus et al. 2022; Zoph et al. 2022]. */
#include "nn/blocks/experts.h"
#include "nn/layers/scalar.h"

/* Concatenates the collected logits into one tensor. */
static void join(dt_tape *t, dt__routed *r)
{
    if (r->n < 2) return;
    dt_tensor *all = dt_concat(t, r->part, r->n, 0);
    for (int i = 0; i < r->n; i++) dt__drop_step(t, r->part[i], all);
    r->part[0] = all;
    r->n = 1;
}

void dt__routed_add(dt_tape *t, dt__routed *r, dt_tensor *logits)
{
    if (r->n == DT_MAX_IN) join(t, r);
    r->part[r->n++] = logits;
}

dt_tensor *dt__routed_loss(dt_tape *t, dt__routed *r, const dt_moe_options *o)
{
    join(t, r);
    dt_tensor *balance = NULL, *z = NULL;
    if (o->balance > 0) {
        balance =
            dt_load_balance_loss(t, r->part[0], &(dt_load_balance_options){ .top_k = o->top_k });
        balance = dt__then(t, balance, dt__times(t, balance, o->balance));
    }
    if (o->z > 0) {
        z = dt_router_z_loss(t, r->part[0]);
        z = dt__then(t, z, dt__times(t, z, o->z));
    }
    dt_tensor *loss = balance == NULL ? z : z == NULL ? balance : dt_add(t, balance, z);
    dt__drop_step(t, r->part[0], loss);
    return t->status == DT_OK ? loss : NULL;
}
