/* Low-rank adapters of linear layers.      W' = W + (alpha / rank) B A      [Hu et al. 2022, LoRA]
 * A is uniform in +-1/sqrt(in) (Kaiming initialization with a = sqrt(5)) and B is 0, so training
 * starts from W. */
#include "nn/lora.h"

#include <math.h>

bool dt__can_lora(const dt_module *m) { return m->type == &dt__nn_linear; }

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
