/* Batch norms that an integer network folds. Its integers are computed with the running statistics,
 *     W' = W f      b' = β + (b - μ) f      f = γ / sqrt(var + eps),
 * in training too. As long as batches update ranges, a pass in floats precedes the pass in
 * integers. In the float pass a norm uses the batch's statistics and updates the running ones, as
 * in training without quantization, and the ranges observe its results. */
#include "qat/device/device_plan.h"

#include <detent/experimental/ops.h>

bool dt__device_warms(const dt__plan_node *node)
{
    return node->m->folding == DT__FOLDED_PLANNED && dt_is_training(node->m->norm);
}

dt_tensor *dt__device_warm(dt_tape *t, const dt__plan_node *node, dt_tensor *x)
{
    dt_module *m = node->m;
    m->folding = DT__FOLDED; /* as under presets that keep floats between layers */
    dt_tensor *const in[] = { x, dt_module_weight(t, m), dt__module_bias(t, m) };
    dt_tensor *y = dt_apply(t, node->op, in, in[2] == NULL ? 2 : 3, node->options);
    y = dt_forward(t, m->norm, y);
    m->folding = DT__FOLDED_PLANNED;
    return y;
}
