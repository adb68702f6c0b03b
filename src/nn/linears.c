/* Linear layers of transformers: drawn as their recipes say; and those that read the same input, q, k and v
 * of attention, gate and up of an mlp, as one product where a pass records nothing. */
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

/* ---- several at once --------------------------------------------------------------------------- */

/* Whether what two layers' hooks made of one input is the same: the very codes, which hooks of the same
 * settings share. */
static bool are_same(dt_tape *t, dt_tensor *a, dt_tensor *b)
{
    const dt__kind *kind = dt__kind_of(a);
    dt__codes *of_a = NULL, *of_b = NULL;
    if (a == b) return true;
    if (kind->codes == NULL || dt__kind_of(b) != kind) return false;
    const dt_status s = kind->codes(t, a, &of_a);
    const bool same =
        s == DT_OK && kind->codes(t, b, &of_b) == DT_OK && of_a != NULL && of_a == of_b;
    dt__codes_release(of_a);
    dt__codes_release(of_b);
    return same;
}

static bool can_join(const dt_tape *t, dt_module *const *layer, int n)
{
    if (!t->no_grad || t->trail != NULL || t->watching || t->status != DT_OK) return false;
    for (int i = 0; i < n; i++) {
        if (layer[i]->type != &dt__nn_linear) return false;
    }
    return true;
}

/* With the scopes of all layers open, whose hooks have run. */
static void multiply(dt_tape *t, dt_tensor *const *x, const dt_linear_part *part, int n,
                     dt_tensor **y)
{
    bool same = t->status == DT_OK;
    for (int i = 1; i < n && same; i++) same = are_same(t, x[0], x[i]);
    if (same) dt_linears(t, x[0], part, n, y);
    for (int i = 0; i < n && !same; i++) y[i] = dt_linear(t, x[i], part[i].weight, part[i].bias);
}

void dt__forward_each(dt_tape *t, dt_module *const *layer, int n, dt_tensor *x, dt_tensor **y)
{
    const char *before[DT_MAX_OUT];
    dt_tensor *in[DT_MAX_OUT];
    dt_linear_part part[DT_MAX_OUT];
    int open = 0;
    for (int i = 0; i < n; i++) y[i] = NULL;
    if (!can_join(t, layer, n)) {
        for (int i = 0; i < n; i++) y[i] = dt_forward(t, layer[i], x);
        return;
    }
    while (open < n && dt__module_enter(t, layer[open], &before[open]) == DT_OK) {
        in[open] = dt__run_hooks(t, layer[open], DT_SITE_INPUT, x);
        part[open] =
            (dt_linear_part){ dt_module_weight(t, layer[open]), dt__module_bias(t, layer[open]) };
        open++;
    }
    if (open == n) multiply(t, in, part, n, y);
    while (open-- > 0) dt__module_leave(t, layer[open], before[open], y, n);
}
