/* The model families that a recipe can name, and the keys of their options. */
#include "core/core.h"

#include <detent/nn.h>

static const char *const norm_names[] = { "none", "batch", "layer", NULL };

#define AT(field) .offset = offsetof(dt_mlp_options, field)

const dt_key dt_mlp_keys[] = {
    { "sizes", DT_KEY_INTS, AT(sizes), .least = 1, .most = 1 << 24, .fallback = "!", .fewest = 2,
      .text = "width of the input, of each hidden layer, and of the output" },
    { "activation", DT_KEY_CHOICE, AT(activation), .choices = dt_activation_names,
      .fallback = "relu", .text = "what follows each hidden layer" },
    { "norm", DT_KEY_CHOICE, AT(norm), .choices = norm_names, .fallback = "none",
      .text = "normalization between a hidden layer and its activation" },
    { "dropout", DT_KEY_REAL, AT(dropout), .most = 0.9999, .fallback = "0",
      .text = "share of hidden values that training drops" },
    { "bias", DT_KEY_BOOL, AT(bias), .fallback = "true",
      .text = "whether hidden layers have a bias; the head always has one" },
    { "momentum", DT_KEY_REAL, AT(momentum), .most = 1, .fallback = "0.1",
      .text = "batch norm: weight of a batch in the running statistics" },
    { "eps", DT_KEY_REAL, AT(eps), .most = 1, .fallback = "1e-5",
      .text = "norms: added to the variance" },
    { 0 },
};

static dt_status create_mlp(dt_ctx *ctx, const void *options, dt_module **out)
{
    return dt_mlp_create(ctx, options, out);
}

static const dt_family families[] = {
    { "mlp", "linear layers with an activation between them", dt_mlp_keys, sizeof(dt_mlp_options),
      create_mlp },
};

const dt_family *dt_family_at(int i)
{
    return i >= 0 && i < DT__COUNT_OF(families) ? &families[i] : NULL;
}
