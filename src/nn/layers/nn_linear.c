/* Linear layer.      y = x W^T + b      weight [out, in], bias [out], both initialized uniform in
 * +-1/sqrt(in) as in PyTorch [He et al. 2015 with a = sqrt(5)]. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/layers/lora.h"
#include "nn/module.h"
#include "ops/ops_list.h"

#include <math.h>

static void with_epilogue(dt_tape *t, dt_module *m, dt_tensor *x, const dt_epilogue *e,
                          dt_tensor **y)
{
    dt_tensor *residual = e->residual;
    if (dt__lora_is_apart(t, m)) {
        *y = dt__lora_linear(t, m, x);
        if (residual != NULL) *y = dt_add(t, *y, residual);
        *y = dt__activated(t, *y, e->activation);
        return;
    }
    if (m->lora.beside) residual = dt__lora_product(t, m, x, residual);
    *y = dt_linear_act(t, x, dt_module_weight(t, m), dt__module_bias(t, m),
                       &(dt_linear_after){ e->activation, residual });
}

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)n_in;
    (void)n_out;
    with_epilogue(t, m, in[0], &(dt_epilogue){ .activation = DT_ACT_NONE }, out);
}

/* Whether the input hooks of two modules returned the same tensor, or tensors that share codes, as
 * quantization with equal settings does. */
static bool are_same(dt_tape *t, dt_tensor *a, dt_tensor *b)
{
    const dt__kind *kind = dt__kind_of(a);
    dt__codes *of_a = NULL, *of_b = NULL;
    if (a == b) return true;
    if (kind->codes == NULL || dt__kind_of(b) != kind) return false;
    dt_status s = kind->codes(t, a, &of_a);
    if (s == DT_OK) s = kind->codes(t, b, &of_b);
    dt__tape_adopt(t, s);
    const bool same = s == DT_OK && of_a != NULL && of_a == of_b;
    dt__codes_release(of_a);
    dt__codes_release(of_b);
    return same;
}

/* dt_fusion.joint: queries, keys and values of attention, or gate and up of an mlp, as one
 * product. */
static void joint(dt_tape *t, dt_module *const *m, int n, dt_tensor *const *x, dt_tensor **y)
{
    dt_linear_part part[DT_MAX_OUT] = { { NULL } };
    bool apart = false;
    for (int i = 0; i < n; i++) apart = apart || dt__lora_is_apart(t, m[i]);
    for (int i = 0; i < n && apart; i++) {
        with_epilogue(t, m[i], x[i], &(dt_epilogue){ .activation = DT_ACT_NONE }, &y[i]);
    }
    if (apart) return;
    for (int i = 0; i < n; i++) {
        part[i] = (dt_linear_part){ dt_module_weight(t, m[i]), dt__module_bias(t, m[i]) };
    }
    bool same = t->status == DT_OK;
    for (int i = 0; i < n && same; i++) same = are_same(t, x[0], x[i]) && !m[i]->lora.beside;
    if (same) dt_linears(t, x[0], part, n, y);
    for (int i = 0; i < n && !same; i++) {
        dt_tensor *beside = m[i]->lora.beside ? dt__lora_product(t, m[i], x[i], NULL) : NULL;
        y[i] = dt_linear_act(t, x[i], part[i].weight, part[i].bias,
                             &(dt_linear_after){ DT_ACT_NONE, beside });
    }
}

/* dt_linear_act supports every activation, and a residual. */
static const dt_fusion fusion = {
    .forward = with_epilogue,
    .activations = ~UINT32_C(0),
    .residual = true,
    .joint = joint,
};

const dt_module_type dt__nn_linear = {
    .name = "linear",
    .forward = forward,
    .quantizable = DT_QUANTIZED_BY_PRESET,
    .fusion = &fusion,
};

static dt_status build(dt_module *m, int64_t in, int64_t out_features, bool bias)
{
    const double bound = 1.0 / sqrt((double)in);
    dt_tensor *x;
    DT__TRY(dt__new_param(m, "weight", 2, (const int64_t[]){ out_features, in }, &x));
    DT__TRY(dt__draw_uniform(x, DT__FOR_INIT, -bound, bound));
    if (!bias) return DT_OK;
    DT__TRY(dt__new_param(m, "bias", 1, &out_features, &x));
    return dt__draw_uniform(x, DT__FOR_INIT, -bound, bound);
}

dt_status dt_linear_create(dt_ctx *ctx, int64_t in, int64_t out_features, bool bias,
                           dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    *out = NULL;
    DT__TRY(dt__want_extent(ctx, "linear", "the number of inputs", in));
    DT__TRY(dt__want_extent(ctx, "linear", "the number of outputs", out_features));
    dt_module *m;
    DT__TRY(dt_module_create(ctx, &dt__nn_linear, 0, &m));
    return dt__layer_done(build(m, in, out_features, bias), m, out);
}

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("linear", dt_linear_layer),
    { "out", DT_KEY_INT, offsetof(dt_linear_layer, out), .least = 1, .most = 1 << 24,
      .fallback = "!", .text = "outputs" },
    DT__LAYER_AFTER(dt_linear_layer),
    { 0 },
};

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    const dt_linear_layer *o = options;
    (void)n_in;
    if (in->rank < 1) return dt__want_example_rank(ctx, "linear", in, 1);
    return dt_linear_create(ctx, in->dims[in->rank - 1], o->out,
                            dt__layer_bias(o->has_bias, o->bias, &o->after), out);
}

DT__LAYER_TYPE(linear, "y = x W^T + b over the last dimension", dt_linear_layer, layer_keys, 1, 1,
               .create = layer_create, .after = offsetof(dt_linear_layer, after), .part = "linear");

DT__MAKE(make, dt_linear_create(ctx, 3, 2, true, out))
DT__MAKE(make_plain, dt_linear_create(ctx, 40, 9, false, out))
DT__MAKE(make_large, dt_linear_create(ctx, 100, 50, true, out))
DT__MAKE(make_no_inputs, dt_linear_create(ctx, 0, 3, true, out))
DT__MAKE(make_no_outputs, dt_linear_create(ctx, 3, -1, true, out))
DT__MAKE(make_huge, dt_linear_create(ctx, INT64_MAX, 3, true, out))

static const dt__layer_case cases[] = {
    { "values", make, .in = { { { 1, 3 }, .given = true, .values = { 1, 0, -1 } } },
      .state = "weight bias",
      .given = { { "weight", { 1, 2, 3, 4, 5, 6 } }, { "bias", { 0.5, -0.5 } } }, .n_y = 2,
      .y = { -1.5, -2.5 } },
    { "no bias", make_plain, .in = { { { 2, 3, 40 } } }, .state = "weight" },
    { "first values", make_large, .in = { { { 70, 100 } } }, .state = "weight bias",
      .first = { { "weight", -0.1, 0.1 }, { "bias", -0.1, 0.1 } }, .rough = true },
    { "no inputs", make_no_inputs, .fails = DT_ERR_ARG, .says = "linear: the number of inputs" },
    { "no outputs", make_no_outputs, .fails = DT_ERR_ARG, .says = "linear: the number of outputs" },
    { "too large", make_huge, .fails = DT_ERR_ARG, .says = "large" },
    { "another width", make, .in = { { { 2, 4 } } }, .state = "weight bias", .fails = DT_ERR_SHAPE,
      .says = "linear" },
};
DT__LAYER_CASES(linear, cases)
