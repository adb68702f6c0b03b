/* The router of a mixture of experts: a logit an expert.      y = x W^T      weight [experts, in]
 * A linear layer of a type of its own, which no preset quantizes: its few weights decide which others are
 * used at all. */
#include "nn/module.h"

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)n_in;
    (void)n_out;
    out[0] = dt_linear(t, in[0], dt_module_weight(t, m), NULL);
}

const dt_module_type dt__nn_router = {
    .name = "router",
    .forward = forward,
    .quantizable = DT_QUANTIZED_WEIGHT_ONLY,
};
