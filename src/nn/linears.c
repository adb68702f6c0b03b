/* Linear layers of transformers: drawn as their recipes say; and those that read the same input, q, k and v
 * of attention, gate and up of an mlp. */
#include "nn/blocks.h"
#include "nn/transformer.h"

static dt_status build(dt_module *m, const dt__linear_plan *p)
{
    dt_tensor *x;
    DT__TRY(dt__new_param(m, "weight", 2, (const int64_t[]){ p->out, p->in }, &x));
    DT__TRY(dt__draw_normal(x, DT__FOR_INIT, 0.0, p->deviation));
    return p->bias ? dt__new_param(m, "bias", 1, &p->out, &x) : DT_OK;
}

dt_status dt__add_linear(dt_module *m, const char *name, const dt__linear_plan *plan,
                         dt_module **lent)
{
    DT__TRY(dt__add_child(m, name, &dt__nn_linear, 0, lent));
    return build(*lent, plan);
}

void dt__forward_each(dt_tape *t, dt_module *const *layer, int n, dt_tensor *x, dt_tensor **y)
{
    for (int i = 0; i < n; i++) y[i] = dt_forward(t, layer[i], x);
}
