/* Family mlp: for each hidden size linear, norm, activation, dropout; then linear `head`.
 *     x_0 = flatten(x)      x_{i+1} = dropout(activation(norm_i(W_i x_i + b_i)))      y = head(x_h)
 * Paths: layers.i, norms.i, activation, dropout, head; numbers as in PyTorch's ModuleList. */
#include "nn/lists/layer_type.h"
#include "nn/families/family.h"
#include "nn/blocks/unit.h"

#include <stdio.h>

enum { NORM_NONE, NORM_BATCH, NORM_LAYER };

static const char *const norm_names[] = { "none", "batch", "layer", NULL };

#define AT(field) .offset = offsetof(dt_mlp_options, field)

const dt_key dt_mlp_keys[] = {
    { "sizes", DT_KEY_INTS, AT(sizes), .least = 1, .most = 1 << 24, .fallback = "!", .fewest = 2,
      .text = "widths of input, hidden layers and output" },
    { "activation", DT_KEY_CHOICE, AT(activation), .choices = dt_activation_names,
      .fallback = "relu", .text = "activation of the hidden layers" },
    { "norm", DT_KEY_CHOICE, AT(norm), .choices = norm_names, .fallback = "none",
      .text = "normalization between a hidden layer and its activation" },
    { "dropout", DT_KEY_REAL, AT(dropout), .most = 0.9999, .fallback = "0",
      .text = "share of hidden values that training drops" },
    { "bias", DT_KEY_BOOL, AT(bias), .fallback = "true",
      .text = "hidden layers have a bias; the head always has one" },
    { "momentum", DT_KEY_REAL, AT(momentum), .most = 1, .fallback = "0.1",
      .text = "batch norm: weight of a batch in the running statistics" },
    { "eps", DT_KEY_REAL, AT(eps), .most = 1, .fallback = "1e-5",
      .text = "norms: added to the variance" },
    { 0 },
};

typedef struct mlp {
    dt_module *layers, *norms, *activation, *dropout, *head; /* children; norms, dropout or NULL */
    int64_t inputs;
} mlp;

static dt_tensor *step(dt_tape *t, dt_module *part, dt_tensor *x, const dt_tensor *input)
{
    dt_tensor *y = dt_forward(t, part, x);
    if (x != input) dt__drop_step(t, x, y);
    return y;
}

static dt_tensor *hidden(dt_tape *t, const mlp *s, int64_t i, dt_tensor *x, const dt_tensor *input)
{
    const dt__unit u = { .layer = s->layers->children[i],
                         .norm = s->norms == NULL ? NULL : s->norms->children[i],
                         .activation = s->activation };
    dt_tensor *y = dt__unit_forward(t, &u, x);
    if (x != input) dt__drop_step(t, x, y);
    return y;
}

static dt_tensor *flatten(dt_tape *t, const mlp *s, dt_tensor *x)
{
    if (x->rank <= 2) return x;
    return dt_reshape(t, x, 2, (const int64_t[]){ x->dims[0], s->inputs });
}

DT__FORWARD(forward)
{
    const mlp *s = dt_module_state(m);
    dt_tensor *y = flatten(t, s, x);
    for (int64_t i = 0; i < s->layers->n_children; i++) {
        y = hidden(t, s, i, y, x);
        if (s->dropout != NULL) y = step(t, s->dropout, y, x);
    }
    return step(t, s->head, y, x);
}

static const dt_module_type mlp_type = { .name = "mlp", .forward = forward };

static dt_status norm_create(dt_ctx *ctx, const dt_mlp_options *o, int64_t width, dt_module **out)
{
    if (o->norm == NORM_LAYER) return dt_layer_norm_create(ctx, width, o->eps, out);
    return dt_batch_norm1d_create(ctx, width, o->momentum, o->eps, out);
}

static dt_status build_hidden(dt_module *m, const dt_mlp_options *o)
{
    mlp *s = dt_module_state(m);
    dt_ctx *ctx = dt_module_ctx(m);
    for (int i = 0; i + 2 < o->sizes.n; i++) {
        const int64_t in = o->sizes.v[i], width = o->sizes.v[i + 1];
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        dt_module *part = NULL;
        dt_status made = dt_linear_create(ctx, in, width, o->bias, &part);
        DT__TRY(dt__add_made(s->layers, name, made, part, &part));
        if (s->norms == NULL) continue;
        made = norm_create(ctx, o, width, &part);
        DT__TRY(dt__add_made(s->norms, name, made, part, &part));
    }
    return DT_OK;
}

static dt_status build(dt_module *m, const dt_mlp_options *o)
{
    mlp *s = dt_module_state(m);
    dt_ctx *ctx = dt_module_ctx(m);
    dt_module *part = NULL;
    const int64_t *last = o->sizes.v + o->sizes.n - 1;
    dt_status made = dt_module_create(ctx, &dt__nn_list, 0, &part);
    DT__TRY(dt__add_made(m, "layers", made, part, &s->layers));
    if (o->norm != NORM_NONE) {
        made = dt_module_create(ctx, &dt__nn_list, 0, &part);
        DT__TRY(dt__add_made(m, "norms", made, part, &s->norms));
    }
    DT__TRY(build_hidden(m, o));
    made = dt_activation_create(ctx, dt_activation_names[o->activation], &part);
    DT__TRY(dt__add_made(m, "activation", made, part, &s->activation));
    if (o->dropout > 0.0) {
        made = dt_dropout_create(ctx, o->dropout, &part);
        DT__TRY(dt__add_made(m, "dropout", made, part, &s->dropout));
    }
    made = dt_linear_create(ctx, last[-1], last[0], true, &part);
    s->inputs = o->sizes.v[0];
    return dt__add_made(m, "head", made, part, &s->head);
}

static dt_status check(dt_ctx *ctx, const dt_mlp_options *o)
{
    if (o == NULL || o->sizes.n < 2 || o->sizes.n > DT_MAX_LIST) {
        return dt_fail(ctx, DT_ERR_ARG, "mlp: expected sizes of the input and the output");
    }
    for (int i = 0; i < o->sizes.n; i++) {
        DT__TRY(dt__want_extent(ctx, "mlp", "a size", o->sizes.v[i]));
    }
    int activations = 0;
    while (dt_activation_names[activations] != NULL) activations++;
    if (o->activation < 0 || o->activation >= activations) {
        return dt_fail(ctx, DT_ERR_ARG, "mlp: activation %d is outside 0...%d", o->activation,
                       activations - 1);
    }
    if (o->norm < NORM_NONE || o->norm > NORM_LAYER) {
        return dt_fail(ctx, DT_ERR_ARG, "mlp: norm %d is outside 0...2", o->norm);
    }
    return dt__want_share(ctx, "mlp", "dropout", o->dropout);
}

DT__FAMILY_CREATE(mlp, 1, sizes.v)

DT__FAMILY_END(mlp, "linear layers with an activation between them",
               ((dt_example){ "sizes", 0, 1, { o->sizes.v[0] }, false }),
               ((dt_example){ "sizes", o->sizes.n - 1, 1, { o->sizes.v[o->sizes.n - 1] }, false }))
