/* Layer, norm and activation, one after the other or as fewer ops with the same bits. */
#include "nn/unit.h"
#include "nn/batch_norm_layers.h"
#include "nn/fold.h"

void dt__unit_pair(dt_module *layer, dt_module *norm) { layer->norm = norm; }

/* y takes the place of x, which only this unit has seen. */
static dt_tensor *then(dt_tape *t, dt_tensor *x, dt_tensor *y)
{
    dt__drop_step(t, x, y);
    return y;
}

/* Whether the norm takes residual and activation along: relu, unless somebody has hooked it. */
static bool norm_fuses(const dt_tape *t, const dt__unit *u)
{
    if (t->trail != NULL) return false;
    return u->activation == NULL ? u->residual != NULL : dt__is_plain_relu(u->activation);
}

/* What is left to do of a unit after y. */
static dt_tensor *finish(dt_tape *t, const dt__unit *u, dt_tensor *y)
{
    if (u->residual != NULL) y = then(t, y, dt_add(t, y, u->residual));
    if (u->activation != NULL) y = then(t, y, dt_forward(t, u->activation, y));
    return y;
}

static dt_tensor *normalize(dt_tape *t, const dt__unit *u, dt_tensor *y, dt_tensor *factor)
{
    dt__norm_after after = { .factor = factor };
    if (!norm_fuses(t, u)) {
        if (factor != NULL)
            return finish(t, u, then(t, y, dt__norm_forward(t, u->norm, y, &after)));
        return finish(t, u, then(t, y, dt_forward(t, u->norm, y)));
    }
    after.residual = u->residual;
    after.activation = u->activation != NULL ? DT_ACT_RELU : DT_ACT_NONE;
    return then(t, y, dt__norm_forward(t, u->norm, y, &after));
}

dt_tensor *dt__unit_forward(dt_tape *t, const dt__unit *u, dt_tensor *x)
{
    const bool norm = u->norm != NULL && !dt__is_removed_norm(u->norm);
    const bool plain = !norm && u->residual == NULL && u->activation != NULL;
    if (plain && dt__is_fused(t, u->layer, u->activation)) {
        return dt__forward_fused(t, u->layer, u->activation, x);
    }
    dt_tensor *y = dt_forward(t, u->layer, x);
    if (y == NULL) return NULL;
    const bool folded = u->layer->folding != DT__APART, live = folded && dt__fold_is_live(u->layer);
    if (!norm || (folded && !live)) return finish(t, u, y);
    if (live) return normalize(t, u, y, dt__fold_factor(t, u->layer));
    if (dt__is_batch_norm(u->norm)) return normalize(t, u, y, NULL);
    return finish(t, u, then(t, y, dt_forward(t, u->norm, y)));
}
