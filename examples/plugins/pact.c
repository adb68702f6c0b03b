/* pact.c: a plugin with a kind of layer, PACT [Choi et al. 2018]: an activation whose upper end is
 * learned,
 *     y = min(relu(x), alpha)    dx = dy where 0 < x < alpha    dalpha = sum of dy where x > alpha
 * The layer behind it quantizes 0 ... alpha with all of its codes: with `activation: {range:
 * static, scheme: asymmetric, observer: minmax}` the range that it observes ends at alpha.
 *
 *     cc -shared -fPIC -O2 -I include examples/plugins/pact.c -o pact.so
 *     detent train examples/plugins/pact.yaml run.plugins=[./pact.so] */
#include <detent/experimental/ops.h>
#include <detent/experimental/plugin.h>

#include <stddef.h>

typedef struct pact_options {
    dt_layer_head head;
    double alpha;
} pact_options;

/* All of it are ops that detent has: so gradients, exports and integers follow. */
static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)n_in;
    (void)n_out;
    dt_tensor *floor = dt_neg(t, dt_param(m, "alpha"));
    out[0] = dt_neg(t, dt_maximum(t, dt_neg(t, dt_relu(t, in[0])), floor)); /* the smaller one */
}

static const dt_module_type pact = { .name = "pact", .forward = forward };

static dt_status add_alpha(dt_ctx *ctx, dt_module *m, double alpha)
{
    const int64_t one = 1;
    dt_tensor *x;
    dt_status s = dt_tensor_create(ctx, DT_F32, 1, &one, &x);
    if (s != DT_OK) return s;
    s = dt_fill(x, alpha);
    if (s == DT_OK) return dt_module_add_param(m, "alpha", x); /* owns it from here on */
    dt_tensor_free(x);
    return s;
}

static dt_status create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                        dt_module **out)
{
    const pact_options *o = options;
    (void)in;
    (void)n_in;
    *out = NULL;
    dt_status s = dt_module_create(ctx, &pact, 0, out);
    if (s == DT_OK) s = add_alpha(ctx, *out, o->alpha);
    if (s == DT_OK) return s;
    dt_module_free(*out);
    *out = NULL;
    return s;
}

static const dt_key keys[] = {
    { "pact", DT_KEY_STRING, offsetof(pact_options, head.name), .text = "name of the layer" },
    { "from", DT_KEY_STRINGS, offsetof(pact_options, head.from), .fallback = "[]",
      .text = "the layer to read; none: the layer before" },
    { "alpha", DT_KEY_REAL, offsetof(pact_options, alpha), .least = 1e-6, .most = 1e6,
      .fallback = "4", .text = "the upper end before training" },
    { 0 },
};

static const dt_layer_type layer = {
    .item = { "pact", "relu with a learned upper end", keys, sizeof(pact_options) },
    .least_in = 1,
    .most_in = 1,
    .create = create,
};

static dt_status start(dt_ctx *ctx) { return dt_layer_register(ctx, &layer); }

DT_PLUGIN("pact", "the activation PACT, with a learned upper end", start)
