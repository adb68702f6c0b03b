/* Self-attention [Vaswani et al. 2017], with grouped queries [Ainslie et al. 2023].
 *     q = rotate(norm_q(Wq x))      k = rotate(norm_k(Wk x))      v = Wv x      per head
 *     y = Wo attention(q, k, v), causal
 * The plan says whether there are norms (over each head or over all heads together), a rotation
 * (with another frequency in long texts), and a sliding window. */
#include "nn/cache/cache.h"
#include "nn/lists/layer_cases.h"
#include "nn/layers/scalar.h"
#include "nn/blocks/transformer.h"

typedef struct attention {
    dt__attention_plan plan;
    dt_module *layer[4]; /* DT__Q ... DT__OUT */
    dt_module *norm[2];
    int cache; /* DT_CACHE_...: how passes without a decoder read keys and values */
} attention;

/* The rotation for a pass of n tokens. */
static const dt_rotary_options *rotary_of(const dt_tape *t, const dt__attention_plan *p, int64_t n)
{
    const bool far = p->near_tokens > 0 && dt__cache_text(t, n) > p->near_tokens;
    return far ? &p->far_rotary : &p->rotary;
}

/* Reshapes [B, T, heads width] to [B, T, heads, width], and applies the norm and the rotation of q
 * or k. */
static dt_tensor *heads_of(dt_tape *t, const attention *s, int which, dt_tensor *x,
                           dt_tensor *position)
{
    if (x == NULL) return NULL;
    const int64_t width = s->plan.head_width;
    dt_module *norm = which == DT__V ? NULL : s->norm[which];
    if (norm != NULL && s->plan.norm_all) x = dt__then(t, x, dt_forward(t, norm, x));
    if (x == NULL) return NULL;
    const int64_t dims[] = { x->dims[0], x->dims[1], x->dims[2] / width, width };
    x = dt__then(t, x, dt_reshape(t, x, 4, dims));
    if (which == DT__V) return x;
    if (norm != NULL && !s->plan.norm_all) x = dt__then(t, x, dt_forward(t, norm, x));
    if (position != NULL && s->plan.rotates) {
        x = dt__then(t, x, dt_rotary(t, x, position, rotary_of(t, &s->plan, dims[1])));
    }
    return x;
}

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const attention *s = dt_module_state(m);
    dt_tensor *x[3], *y;
    (void)n_out;
    dt_forward_each(t, s->layer, 3, in[0], x);
    for (int i = 0; i < 3; i++) x[i] = heads_of(t, s, i, x[i], n_in > 1 ? in[1] : NULL);
    dt_attention_operands qkv = { .q = x[DT__Q], .k = x[DT__K], .v = x[DT__V] };
    if (dt__cache_join(t, m, &qkv) != DT_OK) return;
    x[DT__K] = qkv.k;
    x[DT__V] = qkv.v;
    y = dt_attention(t, &qkv,
                     &(dt_attention_options){ .causal = true,
                                              .scale = s->plan.scale,
                                              .window = s->plan.window,
                                              .cache = t->cache == NULL ? s->cache : DT_CACHE_F32 },
                     NULL);
    for (int i = 0; i < 3; i++) dt__drop_step(t, x[i], y);
    if (y == NULL) return;
    const int64_t dims[] = { y->dims[0], y->dims[1], y->dims[2] * y->dims[3] };
    y = dt__then(t, y, dt_reshape(t, y, 3, dims));
    out[0] = dt__then(t, y, dt_forward(t, s->layer[DT__OUT], y));
}

const dt_module_type dt__nn_attention = { .name = "attention", .forward = forward };

dt_status dt_set_cache(dt_module *m, int cache)
{
    bool any = false;
    DT__NEED(dt_module_ctx(m), m);
    DT__TRY(dt__cache_check(m->ctx, "set_cache", cache));
    DT__EACH_MODULE(layer, m) {
        if (layer->type != &dt__nn_attention || m->type->language == NULL) continue;
        ((attention *)dt_module_state(layer))->cache = cache;
        any = true;
    }
    if (any) return DT_OK;
    return dt_fail(m->ctx, DT_ERR_UNSUPPORTED,
                   "a %s has no cache of keys and values; language models have", m->type->name);
}

static dt_status build(dt_module *m, const dt__attention_plan *p)
{
    attention *s = dt_module_state(m);
    const int64_t q = p->heads * p->head_width, kv = p->kv_heads * p->head_width;
    const dt__linear_plan layer[4] = {
        [DT__Q] = { p->width, q, p->qkv_bias, p->deviation[0] },
        [DT__K] = { p->width, kv, p->qkv_bias, p->deviation[0] },
        [DT__V] = { p->width, kv, p->qkv_bias, p->deviation[0] },
        [DT__OUT] = { q, p->width, p->out_bias, p->deviation[1] },
    };
    s->plan = *p;
    for (int i = 0; i < 4; i++) {
        DT__TRY(dt__add_linear(m, p->name[i], &layer[i], &s->layer[i]));
    }
    for (int i = 0; i < 2 && p->norm[i] != NULL; i++) {
        dt_module *norm = NULL;
        const int64_t width = !p->norm_all ? p->head_width : i == DT__Q ? q : kv;
        const dt_status made = p->create_norm(dt_module_ctx(m), width, p->eps, &norm);
        DT__TRY(dt__add_made(m, p->norm[i], made, norm, &s->norm[i]));
    }
    return DT_OK;
}

dt_status dt__attention_create(dt_ctx *ctx, const dt__attention_plan *plan, dt_module **out)
{
    dt_module *m;
    *out = NULL;
    DT__TRY(dt_module_create(ctx, &dt__nn_attention, sizeof(attention), &m));
    return dt__layer_done(build(m, plan), m, out);
}

static const dt__attention_plan usual = {
    .name = { "q", "k", "v", "out" },
    .norm = { "q_norm", "k_norm" },
    .create_norm = dt_rms_norm_create,
    .width = 8,
    .heads = 2,
    .kv_heads = 1,
    .head_width = 4,
    .qkv_bias = true,
    .rotates = true,
    .rotary = { .theta = 10000 },
    .eps = 1e-5,
    .deviation = { 0.5, 0.3 },
};

static dt_status make(dt_ctx *ctx, dt_module **out)
{
    dt__attention_plan plan = usual;
    plan.rotary = dt_rotary_defaults();
    return dt__attention_create(ctx, &plan, out);
}

static dt_status make_simple(dt_ctx *ctx, dt_module **out)
{
    dt__attention_plan plan = usual;
    plan.norm[0] = plan.norm[1] = NULL;
    plan.kv_heads = 2;
    plan.rotates = plan.qkv_bias = false;
    plan.out_bias = true;
    return dt__attention_create(ctx, &plan, out);
}

/* Norms over all heads, without rotation although positions are given. */
static dt_status make_joint(dt_ctx *ctx, dt_module **out)
{
    dt__attention_plan plan = usual;
    plan.norm_all = true;
    plan.rotates = plan.qkv_bias = false;
    return dt__attention_create(ctx, &plan, out);
}

/* As in Gemma, in a block with a window. */
static dt_status make_sliding(dt_ctx *ctx, dt_module **out)
{
    dt__attention_plan plan = usual;
    plan.create_norm = dt__rms_norm_create_plus_one;
    plan.rotary = dt_rotary_defaults();
    plan.qkv_bias = false;
    plan.window = 3;
    plan.scale = 0.3;
    return dt__attention_create(ctx, &plan, out);
}

/* Reshapes [2, 5, n * 4] to [2, 5, n, 4]. */
static dt_tensor *project(dt_tape *t, dt_tensor *x, dt_tensor *w, dt_tensor *b)
{
    const int64_t dims[] = { 2, 5, w->dims[0] / 4, 4 };
    return dt_reshape(t, dt_linear(t, x, w, b), 4, dims);
}

static dt_tensor *plain(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    const dt_rotary_options rotary = dt_rotary_defaults();
    dt_tensor *q = project(t, in[0], dt_param(m, "q.weight"), dt_param(m, "q.bias"));
    dt_tensor *k = project(t, in[0], dt_param(m, "k.weight"), dt_param(m, "k.bias"));
    dt_tensor *v = project(t, in[0], dt_param(m, "v.weight"), dt_param(m, "v.bias"));
    q = dt_rotary(t, dt_rms_norm(t, q, dt_param(m, "q_norm.weight"), 1e-5), in[1], &rotary);
    k = dt_rotary(t, dt_rms_norm(t, k, dt_param(m, "k_norm.weight"), 1e-5), in[1], &rotary);
    const dt_attention_operands qkv = { .q = q, .k = k, .v = v };
    dt_tensor *y = dt_reshape(t, dt_attention(t, &qkv, NULL, NULL), 3, in[0]->dims);
    return dt_linear(t, y, dt_param(m, "out.weight"), NULL);
}

static dt_tensor *plain_sliding(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    const dt_rotary_options rotary = dt_rotary_defaults();
    const dt_attention_options how = { .causal = true, .scale = 0.3, .window = 3 };
    dt_tensor *x[2];
    for (int i = 0; i < 2; i++) {
        const char *const weight[] = { "q.weight", "k.weight" };
        const char *const norm[] = { "q_norm.weight", "k_norm.weight" };
        dt_tensor *by = dt__plus(t, dt_param(m, norm[i]), 1.0);
        x[i] = dt_rms_norm(t, project(t, in[0], dt_param(m, weight[i]), NULL), by, 1e-5);
        x[i] = dt_rotary(t, x[i], in[1], &rotary);
    }
    dt_tensor *v = project(t, in[0], dt_param(m, "v.weight"), NULL);
    const dt_attention_operands qkv = { .q = x[0], .k = x[1], .v = v };
    dt_tensor *y = dt_reshape(t, dt_attention(t, &qkv, &how, NULL), 3, in[0]->dims);
    return dt_linear(t, y, dt_param(m, "out.weight"), NULL);
}

static dt_tensor *plain_joint(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    dt_tensor *q = dt_linear(t, in[0], dt_param(m, "q.weight"), NULL);
    dt_tensor *k = dt_linear(t, in[0], dt_param(m, "k.weight"), NULL);
    q = dt_rms_norm(t, q, dt_param(m, "q_norm.weight"), 1e-5);
    k = dt_rms_norm(t, k, dt_param(m, "k_norm.weight"), 1e-5);
    const dt_attention_operands qkv = { .q = dt_reshape(t, q, 4, (const int64_t[]){ 2, 5, 2, 4 }),
                                        .k = dt_reshape(t, k, 4, (const int64_t[]){ 2, 5, 1, 4 }),
                                        .v = project(t, in[0], dt_param(m, "v.weight"), NULL) };
    dt_tensor *y = dt_reshape(t, dt_attention(t, &qkv, NULL, NULL), 3, in[0]->dims);
    return dt_linear(t, y, dt_param(m, "out.weight"), NULL);
}

#define PLACES                                                                                     \
    {                                                                                              \
        { 5 }, .dtype = DT_I32, .given = true, .values = { 0, 1, 2, 3, 4 }                         \
    }
#define STATE                                                                                      \
    "q.weight q.bias k.weight k.bias v.weight v.bias out.weight q_norm.weight k_norm.weight"
#define JOINT "q.weight k.weight v.weight out.weight q_norm.weight k_norm.weight"
#define SIMPLE "q.weight k.weight v.weight out.weight out.bias"

static const dt__layer_case cases[] = {
    { "rotated, with norms", make, .in = { { { 2, 5, 8 } }, PLACES }, .state = STATE,
      .plain = plain,
      .first = { { "q.weight", -2, 2 }, { "k.bias", 0, 0 }, { "q_norm.weight", 1, 1 } } },
    { "norms over all heads", make_joint, .in = { { { 2, 5, 8 } }, PLACES }, .state = JOINT,
      .plain = plain_joint },
    { "a window", make_sliding, .in = { { { 2, 5, 8 } }, PLACES }, .state = JOINT,
      .plain = plain_sliding, .first = { { "q_norm.weight", 0, 0 } } },
    { "plain", make_simple, .in = { { { 2, 5, 8 } } }, .state = SIMPLE },
    { "another width", make_simple, .in = { { { 2, 5, 9 } } }, .state = SIMPLE,
      .fails = DT_ERR_SHAPE, .says = "linear" },
};
DT__LAYER_CASES(attention, cases)
