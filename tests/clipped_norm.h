/* A module for tests of exporters. */
#ifndef TESTS_CLIPPED_NORM_H
#define TESTS_CLIPPED_NORM_H

#include "testing.h"

#include <detent/experimental/nn.h>
#include <detent/experimental/ops.h>

/* A batch norm with its activation fused, in evaluation, as a program may call it. */
static void norm_and_clip(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                          int n_out)
{
    const dt_batch_norm_options o = { .eps = 1e-5, .activation = *(int *)dt_module_state(m) };
    const dt_batch_norm_operands p = { .weight = dt_param(m, "weight"),
                                       .bias = dt_param(m, "bias"),
                                       .running_mean = dt_param(m, "mean"),
                                       .running_var = dt_param(m, "var") };
    (void)n_in;
    (void)n_out;
    out[0] = dt_batch_norm1d(t, in[0], &p, &o);
}

static const dt_module_type clipped_norm = { .name = "clipped_norm", .forward = norm_and_clip };

/* Its results lie around 3, so that relu6 bounds some from above. */
static dt_module *create_clipped_norm(dt_ctx *of, int activation)
{
    static const char *const names[] = { "weight", "bias", "mean", "var" };
    static const double low[] = { 4, 2, -1, 0.5 }, high[] = { 8, 4, 1, 2 };
    dt_module *m;
    TEST_OK(of, dt_module_create(of, &clipped_norm, sizeof activation, &m));
    *(int *)dt_module_state(m) = activation;
    for (int i = 0; i < 4; i++) {
        dt_tensor *p;
        TEST_OK(of, dt_tensor_create(of, DT_F32, 1, (const int64_t[]){ 3 }, &p));
        TEST_OK(of, dt_fill_uniform(p, low[i], high[i]));
        TEST_OK(of, dt_module_add_param(m, names[i], p));
    }
    return m;
}

static const int clipped_activations[] = { DT_ACT_NONE, DT_ACT_RELU, DT_ACT_RELU6 };

#endif
