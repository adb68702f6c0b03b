/* Low-rank adapters of linear layers.      W' = W + (alpha / rank) B A      [Hu et al. 2022, LoRA]
 * Beside a packed weight:                  y = x W^T + b + ((alpha / rank) x A^T) B^T
 * A is uniform in +-1/sqrt(in) (Kaiming initialization with a = sqrt(5)) and B is 0, so training
 * starts from W. */
#include "nn/layers/lora.h"

#include "nn/layers/scalar.h"

#include <math.h>

bool dt__can_lora(const dt_module *m) { return m->type == &dt__nn_linear; }

dt_tensor *dt__lora_product(dt_tape *t, const dt_module *m, dt_tensor *x, dt_tensor *residual)
{
    dt_tensor *a = dt__entry_find(m, "lora_a")->x, *b = dt__entry_find(m, "lora_b")->x;
    dt_tensor *h = dt_linear(t, x, a, NULL);
    const double factor = m->lora.alpha / (double)m->lora.rank;
    if (h != NULL && factor != 1) h = dt__times(t, h, factor);
    return dt_linear_act(t, h, b, NULL, &(dt_linear_after){ DT_ACT_NONE, residual });
}

bool dt__lora_is_apart(const dt_tape *t, const dt_module *m)
{
    if (!dt__has_lora(m) || m->lora.beside || t->no_grad) return false;
    for (const dt__hook *h = m->hooks; h != NULL; h = h->next) {
        if (h->site != DT_SITE_WEIGHT) continue;
        if (h->is_straight == NULL || !h->is_straight(h->user)) return false;
    }
    return !dt_requires_grad(dt__entry_find(m, "weight")->x);
}

dt_tensor *dt__lora_linear(dt_tape *t, dt_module *m, dt_tensor *x)
{
    const bool before = dt_no_grad(t, true);
    dt_tensor *w = dt_module_weight(t, m);
    dt_no_grad(t, before);
    dt_tensor *y = dt_linear(t, x, w, dt__module_bias(t, m));
    return dt_lora_gradient(t, y, x, dt__entry_find(m, "lora_a")->x, dt__entry_find(m, "lora_b")->x,
                            m->lora.alpha);
}

void dt__lora_remove(dt_module *m)
{
    dt__module_remove(m, "lora_a");
    dt__module_remove(m, "lora_b");
    m->lora = (dt__lora){ .rank = 0 };
}

static dt_status add_params(dt_module *m, int64_t rank)
{
    const dt_tensor *w = dt__entry_find(m, "weight")->x;
    const int64_t in = w->dims[1], out = w->dims[0];
    const double bound = 1.0 / sqrt((double)in);
    dt_tensor *x;
    DT__TRY(dt__new_param(m, "lora_a", 2, (const int64_t[]){ rank, in }, &x));
    DT__TRY(dt__draw_uniform(x, DT__FOR_INIT, -bound, bound));
    return dt__new_param(m, "lora_b", 2, (const int64_t[]){ out, rank }, &x);
}

dt_status dt__lora_attach(dt_module *m, const dt__lora *lora)
{
    const dt_status s = add_params(m, lora->rank);
    if (s == DT_OK) m->lora = *lora;
    else dt__lora_remove(m);
    return s;
}
