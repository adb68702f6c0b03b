/* Batch norm over all dimensions of [N, C] or [N, C, L] but the channels':
 * src/nn/convolution/batch_norm_layers.c. */
#include "nn/convolution/batch_norm_layers.h"
#include "nn/lists/layer_cases.h"

DT__BATCH_NORM_LAYER(batch_norm1d, "batch norm over all dimensions but 1, the channels",
                     x->rank < 1 ? dt__want_example_rank(ctx, "batch_norm1d", x, 1) : DT_OK)

/* ---- cases ---------------------------------------------------------------------------------- */

DT__MAKE(make, dt_batch_norm1d_create(ctx, 2, 0.1, 0.0, out))
DT__MAKE(make_usual, dt_batch_norm1d_create(ctx, 2, 0.1, 1e-5, out))
DT__MAKE(make_none, dt_batch_norm1d_create(ctx, 0, 0.1, 1e-5, out))
DT__MAKE(make_heavy, dt_batch_norm1d_create(ctx, 2, 1.1, 1e-5, out))
DT__MAKE(make_negative, dt_batch_norm1d_create(ctx, 2, 0.1, -1e-5, out))

#define STATE "weight bias !running_mean !running_var"
#define BATCH DT__GIVEN(DT__LIST(4, 2), 1, 5, 3, 5, 1, 7, 3, 7)
#define GIVEN                                                                                      \
    {                                                                                              \
        { "weight", { 2, 3 } },                                                                    \
        {                                                                                          \
            "bias", { 1, -1 }                                                                      \
        }                                                                                          \
    }

static const dt__layer_case cases[] = {
    { "the batch's moments", make, .in = { BATCH }, .state = STATE, .given = GIVEN, .n_y = 8,
      .y = { -1, -4, 3, -4, -1, 2, 3, 2 }, .training = true },
    { "running moments", make, .in = { BATCH }, .state = STATE,
      .given = { { "weight", { 2, 3 } },
                 { "bias", { 1, -1 } },
                 { "running_mean", { 1, 5 } },
                 { "running_var", { 4, 1 } } },
      .n_y = 8, .y = { 1, -1, 3, -1, 1, 5, 3, 5 } },
    { "more dimensions", make_usual, .in = { { { 3, 2, 5 } } }, .state = STATE,
      .first = { { "weight", 1, 1 },
                 { "bias", 0, 0 },
                 { "running_mean", 0, 0 },
                 { "running_var", 1, 1 } } },
    { "no channels", make_none, .fails = DT_ERR_ARG,
      .says = "batch_norm1d: the number of channels" },
    { "too much momentum", make_heavy, .fails = DT_ERR_ARG, .says = "momentum is 1.1" },
    { "eps below 0", make_negative, .fails = DT_ERR_ARG, .says = "eps" },
    { "other channels", make, .in = { { { 4, 3 } } }, .state = STATE, .fails = DT_ERR_SHAPE,
      .says = "batch_norm1d" },
};
DT__LAYER_CASES(batch_norm1d, cases)
