/* Draws random networks and builds them. */
#include "random_nets.h"

#include "io/model/model.h"
#include "nn/fold.h"
#include "nn/blocks/unit.h"
#include "schemes.h"
#include "testing.h"

enum { POOL_NONE, POOL_MAX, POOL_AVERAGE };

static int64_t pick(dt__stream *s, int64_t least, int64_t most)
{
    return least + (int64_t)dt__random_below(s, (uint64_t)(most - least + 1));
}

static bool chance(dt__stream *s, double p) { return dt__random_unit(s) < p; }

/* ---- geometry -------------------------------------------------------------------------------- */

static int64_t reach_of(const dt_conv_layer *l, int d)
{
    return (l->kernel[d] - 1) * l->conv.dilation[d] + 1;
}

/* One axis of a convolution that fits `size`, which becomes that of its result. */
static void draw_axis(dt__stream *s, random_layer *l, int d, int64_t *size)
{
    dt_conv_options *o = &l->conv.conv;
    l->conv.kernel[d] = pick(s, 1, chance(s, 0.2) ? 6 : 3);
    o->stride[d] = chance(s, 0.3) ? pick(s, 2, 3) : 1;
    o->dilation[d] = chance(s, 0.2) ? pick(s, 2, 3) : 1;
    o->padding[d] = chance(s, 0.6) ? pick(s, 0, 2) : 0;
    if (!l->transposed) {
        while (reach_of(&l->conv, d) > *size + 2 * o->padding[d]) l->conv.kernel[d]--;
        *size = (*size + 2 * o->padding[d] - reach_of(&l->conv, d)) / o->stride[d] + 1;
        return;
    }
    if (*size > 8) o->stride[d] = 1;
    o->output_padding[d] = pick(s, 0, dt__max_i64(o->stride[d], o->dilation[d]) - 1);
    const int64_t whole = (*size - 1) * o->stride[d] + reach_of(&l->conv, d) + o->output_padding[d];
    o->padding[d] = dt__min_i64(o->padding[d], (whole - 1) / 2);
    *size = whole - 2 * o->padding[d];
}

static void draw_groups(dt__stream *s, dt_conv_layer *l)
{
    if (chance(s, 0.25)) { /* depthwise */
        l->conv.groups = l->in;
        l->out = l->in * (chance(s, 0.3) ? 2 : 1);
    } else if (chance(s, 0.25)) {
        for (int64_t g = 2; g <= 4; g++) {
            if (l->in % g == 0) l->conv.groups = g;
        }
        l->out = dt__round_up(l->out, l->conv.groups);
    }
}

static void draw_pool(dt__stream *s, random_layer *l, int64_t size[2])
{
    dt_pool_options *o = &l->window;
    l->pool = (int)pick(s, POOL_MAX, POOL_AVERAGE);
    *o = (dt_pool_options){ .ceil_mode = chance(s, 0.3), .count_include_pad = chance(s, 0.5) };
    for (int d = 0; d < 2; d++) {
        o->kernel[d] = dt__min_i64(pick(s, 2, 3), size[d]);
        o->stride[d] = chance(s, 0.5) ? 0 : pick(s, 1, 2);
        o->padding[d] = chance(s, 0.7) ? 0 : o->kernel[d] / 2;
    }
}

static int64_t pooled(const dt_pool_options *o, int d, int64_t size)
{
    const int64_t stride = o->stride[d] == 0 ? o->kernel[d] : o->stride[d];
    const int64_t room = size + 2 * o->padding[d] - o->kernel[d];
    int64_t n = room / stride + 1;
    if (o->ceil_mode && room % stride != 0 && n * stride < size + o->padding[d]) n++;
    return n;
}

static void draw_layer(dt__stream *s, random_net *d, random_layer *l, int64_t in, int64_t size[2])
{
    l->transposed = chance(s, 0.2);
    l->norm = chance(s, 0.5);
    l->activation = (int)pick(s, 0, 7);
    l->conv = (dt_conv_layer){ .in = in, .out = pick(s, 1, chance(s, 0.2) ? 48 : 20) };
    l->conv.bias = !l->norm || chance(s, 0.3);
    l->conv.conv = dt_conv_defaults();
    draw_groups(s, &l->conv);
    for (int a = 0; a < d->axes; a++) draw_axis(s, l, a, &size[a]);
    if (d->axes != 2 || !chance(s, 0.4)) return;
    draw_pool(s, l, size);
    for (int a = 0; a < 2; a++) size[a] = pooled(&l->window, a, size[a]);
}

/* ---- settings -------------------------------------------------------------------------------- */

static void draw_weight(dt__stream *s, int preset, dt_quant_patch *w)
{
    static const int64_t groups[] = { 8, 16, 32, 64, 1 << 20 };
    const bool learned = preset == DT_INT4_INT4;
    *w = (dt_quant_patch){ 0 };
    w->quant.bits = pick(s, 2, 8);
    w->has_bits = chance(s, 0.5);
    w->quant.granularity = (int)pick(s, DT_PER_TENSOR, learned ? DT_PER_CHANNEL : DT_PER_GROUP);
    w->has_granularity = chance(s, 0.4);
    const int few = weight_schemes() - plain_schemes();
    if (chance(s, 0.25)) {
        patch_scheme(w, (int)(learned ? plain_schemes() + pick(s, 0, few - 1)
                                      : pick(s, 0, weight_schemes() - 1)));
    }
    w->has_scheme = true; /* else symmetric, which has any bits and groups */
    if (dt__scheme_of(w->quant.scheme)->bits == 0) w->has_bits = true;
    if (learned) return;
    w->quant.group_size = groups[pick(s, 0, 4)];
    w->has_group_size = chance(s, 0.6);
    w->quant.scale_dtype = (int)pick(s, DT_SCALE_F32, DT_SCALE_BF16);
    w->has_scale_dtype = chance(s, 0.3);
    w->quant.ste = DT_STE_CLIPPED;
    w->has_ste = chance(s, 0.2);
    w->quant.range = DT_RANGE_STATIC; /* of least error */
    w->has_range = chance(s, 0.15);
    if (preset == DT_INT8_BLOCK_INT4_WEIGHT) {
        w->has_granularity = w->has_scheme = false;
        if (w->quant.bits < 2) w->has_bits = false; /* of scheme binary */
    } else if (chance(s, 0.06)) {
        patch_blocks(w, (int)pick(s, 0, DT__SCHEMES));
    }
    const bool values = preset == DT_MXFP8_MXFP8 || preset == DT_MXFP8_MXFP4;
    if (TEST_OF_BLOCKS(preset) && !values) *w = (dt_quant_patch){ 0 };
    if (values && chance(s, 0.5)) *w = (dt_quant_patch){ 0 }; /* else any, times values of x */
}

static void draw_input(dt__stream *s, int preset, dt_quant_patch *a)
{
    *a = (dt_quant_patch){ 0 };
    if (preset == DT_INT4_INT4) {
        a->quant.bits = pick(s, 2, 8);
        a->has_bits = chance(s, 0.4);
        a->quant.shift = chance(s, 0.5);
        a->has_shift = chance(s, 0.5);
        a->quant.save = (int)pick(s, DT_SAVED_COMPACT, DT_SAVED_EXACT);
        a->has_save = chance(s, 0.5);
    } else if (preset == DT_INT8_STATIC_INT8_WEIGHT) {
        a->quant.observer = (int)pick(s, DT_OBSERVER_MINMAX, DT_OBSERVER_MSE);
        a->has_observer = chance(s, 0.7);
    } else if (preset == DT_NVFP4_NVFP4) {
        a->quant.observer = (int)pick(s, DT_OBSERVER_MINMAX, DT_OBSERVER_PERCENTILE);
        a->has_observer = chance(s, 0.5);
        a->quant.range = DT_RANGE_DYNAMIC;
        a->has_range = chance(s, 0.3);
    } else if (TEST_OF_BLOCKS(preset) && chance(s, 0.3)) {
        const int other = (int)pick(s, DT_SCHEME_MXFP4, DT_SCHEME_MXFP6);
        a->quant.scheme =
            preset == DT_MXFP4_MXFP4 ? other : other - DT_SCHEME_MXFP4 + DT_SCHEME_MXFP8;
        a->has_scheme = preset != DT_INT8_BLOCK_Q4_0_WEIGHT;
    }
}

static void draw_settings(dt__stream *s, random_net *d)
{
    d->qat = dt_qat_defaults();
    d->qat.preset = (int)pick(s, DT_INT8_DYNAMIC_INT4_WEIGHT, TEST_PRESETS - 1);
    d->qat.forward = chance(s, 0.15) ? DT_FORWARD_SIMULATED : DT_FORWARD_INTEGER;
    d->qat.fold_norm = chance(s, 0.7);
    d->freeze = chance(s, 0.4);
    draw_weight(s, d->qat.preset, &d->qat.weight);
    draw_input(s, d->qat.preset, &d->qat.activation);
}

random_net random_net_of(uint64_t seed)
{
    dt__stream s = dt__stream_of(seed, DT__FOR_USER);
    random_net d = { .seed = seed,
                     .axes = chance(&s, 0.2) ? 1 : 2,
                     .n = (int)pick(&s, 1, RANDOM_NET_DEEPEST) };
    d.batch = pick(&s, 2, 5);
    d.channels = pick(&s, 1, 9);
    d.size[0] = pick(&s, 1, d.axes == 1 ? 40 : 12);
    d.size[1] = d.axes == 1 ? 1 : pick(&s, 1, 12);
    int64_t size[2] = { d.size[0], d.size[1] }, in = d.channels;
    for (int i = 0; i < d.n; i++) {
        draw_layer(&s, &d, &d.layers[i], in, size);
        in = d.layers[i].conv.out;
    }
    d.average = d.axes == 2 && chance(&s, 0.5);
    d.features = d.average ? in : in * size[0] * size[1];
    d.outputs = d.features <= 4000 && chance(&s, 0.7) ? pick(&s, 1, 12) : 0;
    draw_settings(&s, &d);
    if (d.n > 1 && chance(&s, 0.2)) {
        d.qat.rules[0] = (dt_qat_rule){ .match = "blocks.0", .skip = true, .has_skip = true };
        d.qat.n_rules = 1;
    }
    d.float_step = chance(&s, 0.3);
    return d;
}

/* ---- the net --------------------------------------------------------------------------------- */

typedef struct block {
    dt__unit unit;
    int pool;
    dt_pool_options window;
} block;

static void run_block(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                      int n_out)
{
    const block *s = dt_module_state(m);
    (void)n_in;
    (void)n_out;
    dt_tensor *y = dt__unit_forward(t, &s->unit, in[0]);
    if (s->pool == POOL_MAX) y = dt_max_pool2d(t, y, &s->window, NULL);
    if (s->pool == POOL_AVERAGE) y = dt_avg_pool2d(t, y, &s->window);
    out[0] = y;
}

static const dt_module_type block_type = { .name = "block", .forward = run_block };

typedef struct net {
    dt_module *blocks, *head;
    bool average;
} net;

static void run_net(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const net *s = dt_module_state(m);
    (void)n_in;
    (void)n_out;
    dt_tensor *x = in[0];
    for (int64_t i = 0; i < s->blocks->n_children; i++)
        x = dt_forward(t, s->blocks->children[i], x);
    if (s->head != NULL) {
        if (s->average) x = dt_global_avg_pool2d(t, x);
        x = dt_forward(t, s->head, dt_flatten(t, x, 1, -1));
    }
    out[0] = x;
}

static const dt_module_type net_type = { .name = "net", .forward = run_net };
static const dt_module_type list_type = { .name = "list" };

static void add(dt_ctx *ctx, dt_module *m, const char *name, dt_status made, dt_module *const *part)
{
    TEST_OK(ctx, made);
    TEST_OK(ctx, dt_module_add(m, name, *part));
}

static dt_status create_conv(dt_ctx *ctx, const random_net *d, const random_layer *l,
                             dt_module **out)
{
    if (d->axes == 1) {
        return (l->transposed ? dt_conv_transpose1d_create : dt_conv1d_create)(ctx, &l->conv, out);
    }
    return (l->transposed ? dt_conv_transpose2d_create : dt_conv2d_create)(ctx, &l->conv, out);
}

static void add_block(dt_ctx *ctx, const random_net *d, const random_layer *l, dt_module *m)
{
    block *s = dt_module_state(m);
    add(ctx, m, "conv", create_conv(ctx, d, l, &s->unit.layer), &s->unit.layer);
    if (l->norm) {
        dt_module **norm = &s->unit.norm;
        add(ctx, m, "norm",
            (d->axes == 1 ? dt_batch_norm1d_create : dt_batch_norm2d_create)(ctx, l->conv.out, 0.1,
                                                                             1e-5, norm),
            norm);
        dt__set_norm(s->unit.layer, s->unit.norm);
    }
    const char *name = dt_activation_names[l->activation];
    add(ctx, m, "activation", dt_activation_create(ctx, name, &s->unit.activation),
        &s->unit.activation);
    s->pool = l->pool;
    s->window = l->window;
}

static dt_module *build(dt_ctx *ctx, const random_net *d)
{
    dt_module *m, *part = NULL;
    TEST_OK(ctx, dt_module_create(ctx, &net_type, sizeof(net), &m));
    net *s = dt_module_state(m);
    s->average = d->average;
    add(ctx, m, "blocks", dt_module_create(ctx, &list_type, 0, &s->blocks), &s->blocks);
    for (int i = 0; i < d->n; i++) {
        const char name[2] = { (char)('0' + i), 0 };
        add(ctx, s->blocks, name, dt_module_create(ctx, &block_type, sizeof(block), &part), &part);
        add_block(ctx, d, &d->layers[i], part);
    }
    if (d->outputs == 0) return m;
    add(ctx, m, "head", dt_linear_create(ctx, d->features, d->outputs, true, &s->head), &s->head);
    return m;
}

/* ---- families -------------------------------------------------------------------------------- */

static int norms_there_are(void)
{
    int n = 0;
    while (dt_norm_names[n] != NULL) n++;
    return n;
}

static dt_cnn_options draw_cnn(dt__stream *s, random_net *d)
{
    dt_cnn_options o = { .norms = { 1, 0.1, 1e-5 }, .head = (int)pick(s, 0, 1), .outputs = 5 };
    d->size[0] = d->size[1] = pick(s, 6, 12);
    o.n_blocks = pick(s, 1, 3);
    for (int64_t i = 0; i < o.n_blocks; i++) {
        o.blocks[i] = (dt_cnn_block){ .out = 2 * pick(s, 1, 9),
                                      .kernel = 3,
                                      .stride = pick(s, 1, 2),
                                      .padding = 1,
                                      .groups = i > 0 ? pick(s, 1, 2) : 1,
                                      .norm = (int)pick(s, 0, norms_there_are() - 1),
                                      .activation = (int)pick(s, 0, 7),
                                      .pool = i == 0 ? (int)pick(s, 0, 2) : 0 };
    }
    return o;
}

static dt_resnet_options draw_resnet(dt__stream *s, random_net *d)
{
    dt_resnet_options o = { .norms = { 1, 0.1, 1e-5 }, .depth = 6, .outputs = 4 };
    d->size[0] = pick(s, 5, 9);
    d->size[1] = pick(s, 5, 9);
    o.shortcut = (int)pick(s, 0, 1);
    o.norm = (int)pick(s, 0, norms_there_are() - 1);
    o.widths = (dt_ints){ 2, { pick(s, 2, 8), pick(s, 8, 12) } };
    return o;
}

static dt_unet_options draw_unet(dt__stream *s, random_net *d)
{
    dt_unet_options o = { .norms = { 1, 0.1, 1e-5 }, .outputs = pick(s, 1, 3) };
    d->size[0] = 4 * pick(s, 1, 3);
    d->size[1] = 4 * pick(s, 1, 3);
    o.widths = (dt_ints){ 3, { pick(s, 2, 8), pick(s, 2, 8), pick(s, 2, 12) } };
    o.up = chance(s, 0.5) ? (dt_ints){ 4, { 2, 2, 0, 0 } } : (dt_ints){ 4, { 3, 2, 1, 1 } };
    o.norm = (int)pick(s, 0, norms_there_are() - 1);
    o.activation = (int)pick(s, 0, 7);
    return o;
}

static dt_gpt_options draw_gpt(dt__stream *s, random_net *d)
{
    dt_gpt_options o = { .vocab = d->vocab = pick(s, 2, 50),
                         .layers = pick(s, 1, 2),
                         .heads = pick(s, 1, 3),
                         .bias = chance(s, 0.5),
                         .tied = chance(s, 0.5),
                         .dropout = chance(s, 0.3) ? 0.2 : 0,
                         .eps = 1e-5 };
    d->tokens = pick(s, 1, 17);
    o.context = d->tokens + pick(s, 0, 3);
    o.width = o.heads * pick(s, 1, 20);
    o.hidden = chance(s, 0.5) ? 0 : pick(s, 1, 70);
    o.parallel = chance(s, 0.3);
    o.gelu_erf = chance(s, 0.3);
    if (o.width / o.heads >= 4 && chance(s, 0.3)) { /* two elements, or all of an even number */
        const int64_t width = o.width / o.heads;
        o.rotated = width % 2 == 0 && chance(s, 0.5) ? 1 : 2.5 / (double)width;
        o.theta = 1e4;
    }
    return o;
}

static dt_llama_options draw_llama(dt__stream *s, random_net *d)
{
    dt_llama_options o = { .vocab = d->vocab = pick(s, 2, 50),
                           .layers = pick(s, 1, 2),
                           .kv_heads = pick(s, 1, 2),
                           .hidden = pick(s, 1, 70),
                           .tied = chance(s, 0.5),
                           .qkv_bias = chance(s, 0.3),
                           .out_bias = chance(s, 0.3),
                           .mlp_bias = chance(s, 0.3),
                           .qk_norm = chance(s, 0.4),
                           .theta = chance(s, 0.5) ? 10000 : 500000,
                           .eps = 1e-5,
                           .rope = { .scaling = (int)pick(s, 0, 2),
                                     .factor = 4,
                                     .low_freq_factor = 1,
                                     .high_freq_factor = 4,
                                     .original_context = 8 } };
    d->tokens = pick(s, 1, 17);
    o.context = d->tokens + pick(s, 0, 3);
    o.heads = o.kv_heads * pick(s, 1, 3);
    const bool shared = chance(s, 0.5); /* else heads are as wide as they like */
    o.head_width = shared ? 0 : 2 * pick(s, 1, 9);
    o.width = shared ? o.heads * 2 * pick(s, 1, 9) : pick(s, 3, 40);
    return o;
}

/* Quantization rules for the token table, learned positions, or every table and linear layer. */
static void draw_tables(dt__stream *s, random_net *d, bool tied)
{
    static const char *const matches[] = { "*tokens", "positions", "*mlp*", "*attn*", "*0*q*" };
    const bool gpt = strcmp(d->family->name, "gpt") == 0 && d->options.gpt.rotated == 0;
    for (int i = 0; i < 5; i++) {
        if (!chance(s, 0.3) || (i == 1 && !gpt)) continue;
        dt_qat_rule *rule = &d->qat.rules[d->qat.n_rules++];
        *rule = (dt_qat_rule){ .match = matches[i] };
        if (i > 0 || !tied) draw_weight(s, d->qat.preset, &rule->weight);
    }
}

/* Replaces the mlp by experts, with a rule of the recipe for them and their router. */
static void draw_experts(dt__stream *s, random_net *d)
{
    dt_moe_options *o = &d->options.llama.moe;
    *o = (dt_moe_options){ .given = true, .experts = pick(s, 1, 5), .balance = 0.01, .z = 0.001 };
    o->top_k = pick(s, 1, o->experts);
    o->normalize = chance(s, 0.7);
    for (int64_t i = 0; i < d->qat.n_rules; i++) {
        if (strcmp(d->qat.rules[i].match, "*mlp*") == 0) d->qat.rules[i].match = "*moe*";
    }
}

/* Options in which blocks of OLMo 2, SmolLM3, Gemma 3 and others differ. */
static void draw_block(dt__stream *s, dt_llama_options *o)
{
    dt_block_options *b = &o->block;
    *b = (dt_block_options){ .given = true,
                             .norm_plus_one = chance(s, 0.5),
                             .scaled_tokens = chance(s, 0.5),
                             .qk_norm_all = chance(s, 0.3),
                             .query_width = chance(s, 0.5) ? 5.5 : 0,
                             .unrotated = chance(s, 0.3) ? pick(s, 1, 2) : 0,
                             .window = chance(s, 0.8) ? pick(s, 1, 9) : 0 };
    if (!o->moe.given) {
        b->norms = (int)pick(s, 0, 2);
        b->activation = (int)pick(s, 0, 1);
        if (chance(s, 0.3)) b->hadamard = o->hidden & -o->hidden;
    }
    if (b->window == 0) return;
    b->full_every = pick(s, 0, 3);
    b->local_theta = chance(s, 0.5) ? 1000 : 0;
}

static const dt_family *family_named(const char *name)
{
    int i = 0;
    while (strcmp(dt_family_at(i)->name, name) != 0) i++;
    return dt_family_at(i);
}

static dt_mlp_options draw_mlp(dt__stream *s, const random_net *d)
{
    dt_mlp_options o = { .norm = (int)pick(s, 0, 2),
                         .activation = (int)pick(s, 0, 7),
                         .dropout = chance(s, 0.3) ? 0.2 : 0,
                         .bias = chance(s, 0.5),
                         .momentum = 0.1,
                         .eps = 1e-5 };
    o.sizes.v[o.sizes.n++] = d->channels * d->size[0] * d->size[1];
    for (int64_t n = pick(s, 1, 4); n > 0; n--) o.sizes.v[o.sizes.n++] = pick(s, 1, 70);
    return o;
}

random_net random_net_of_family(uint64_t seed, const char *family)
{
    dt__stream s = dt__stream_of(seed, DT__FOR_USER);
    random_net d = { .seed = seed, .axes = 2, .batch = pick(&s, 2, 4), .channels = pick(&s, 1, 3) };
    d.n = 1;
    d.float_step = chance(&s, 0.3);
    draw_settings(&s, &d);
    dt_cnn_options cnn = draw_cnn(&s, &d);
    dt_resnet_options resnet = draw_resnet(&s, &d);
    dt_unet_options unet = draw_unet(&s, &d);
    cnn.image = resnet.image = unet.image = (dt_ints){ 3, { d.channels, d.size[0], d.size[1] } };
    d.family = family_named(family);
    if (strcmp(family, "cnn") == 0) d.options.cnn = cnn;
    if (strcmp(family, "resnet") == 0) d.options.resnet = resnet;
    if (strcmp(family, "unet") == 0) d.options.unet = unet;
    if (strcmp(family, "mlp") == 0) d.options.mlp = draw_mlp(&s, &d);
    if (strcmp(family, "gpt") == 0) {
        d.options.gpt = draw_gpt(&s, &d);
        draw_tables(&s, &d, d.options.gpt.tied);
    }
    if (strcmp(family, "llama") == 0) {
        d.options.llama = draw_llama(&s, &d);
        draw_tables(&s, &d, d.options.llama.tied);
        if (chance(&s, 0.5)) draw_experts(&s, &d);
        if (chance(&s, 0.5)) draw_block(&s, &d.options.llama);
    }
    return d;
}

/* ---- suites ---------------------------------------------------------------------------------- */

dt_module *random_net_create(dt_ctx *ctx, const random_net *d)
{
    dt_module *m;
    if (d->family == NULL) return build(ctx, d);
    TEST_EACH(d->family->create(ctx, &d->options, &m) == DT_OK, "network %llu: %s",
              (unsigned long long)d->seed, dt_error(ctx));
    return m;
}

static void fill_ids(const random_net *d, dt_tensor *x)
{
    dt__stream *s = &dt_ctx_of(x)->stream[DT__FOR_USER];
    int32_t *ids = dt_data_mut(x);
    for (int64_t i = 0; i < x->count; i++) {
        ids[i] = (int32_t)dt__random_below(s, (uint64_t)d->vocab);
    }
}

void random_net_fill(const random_net *d, dt_tensor *x)
{
    if (d->vocab > 0) fill_ids(d, x);
    else TEST_OK(dt_ctx_of(x), dt_fill_normal(x, 0.1, 1));
}

dt_tensor *random_net_input(dt_ctx *ctx, const random_net *d)
{
    dt_tensor *x;
    const int64_t dims[4] = { d->batch, d->channels, d->size[0], d->size[1] };
    const int64_t ids[2] = { d->batch, d->tokens };
    TEST_OK(ctx, d->vocab > 0 ? dt_tensor_create(ctx, DT_I32, 2, ids, &x)
                              : dt_tensor_create(ctx, DT_F32, 2 + d->axes, dims, &x));
    random_net_fill(d, x);
    return x;
}

void random_net_observe(dt_ctx *ctx, const random_net *d, dt_module *m)
{
    dt_tape *t;
    dt_tensor *x = random_net_input(ctx, d);
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_no_grad(t, true);
    dt_train(m, true);
    dt_forward(t, m, x);
    TEST_EACH(dt_tape_status(t) == DT_OK, "network %llu: %s", (unsigned long long)d->seed,
              dt_error(ctx));
    dt_train(m, false);
    dt_tape_free(t);
    dt_tensor_free(x);
}

void random_net_save(const random_net *d, dt_module *m, const char *path)
{
    const dt_model_info info = { .family = d->family, .options = &d->options };
    TEST_EACH(dt_model_save(m, d->family == NULL ? NULL : &info, path) == DT_OK, "network %llu: %s",
              (unsigned long long)d->seed, dt_error(dt_module_ctx(m)));
}

dt_module *random_net_load(dt_ctx *ctx, const random_net *d, const char *path)
{
    dt_module *m;
    if (d->family != NULL) {
        TEST_EACH(dt_model_load(ctx, path, &m, NULL) == DT_OK, "network %llu: %s",
                  (unsigned long long)d->seed, dt_error(ctx));
        return m;
    }
    dt_file *file;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    m = random_net_create(ctx, d);
    const dt__restoring r = { .file = file, .m = m, .quantized = true };
    TEST_EACH(dt__restore(&r) == DT_OK, "network %llu: %s", (unsigned long long)d->seed,
              dt_error(ctx));
    dt_file_close(file);
    return m;
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* Hooks see every input of a call; an index of experts is a second one. */
static dt_tensor *count_call(void *user, dt_tape *t, dt_module *m, dt_tensor *x)
{
    (void)t;
    if (m->type != &dt__nn_grouped_linear || dt__is_float(x->dtype)) ++*(int64_t *)user;
    return x;
}

static dt_status hook_leaf(void *user, const char *path, dt_module *m)
{
    (void)path;
    const bool made_of_others = m->n_children > 0 && m->type->quantizable == DT_NOT_QUANTIZED;
    if (made_of_others || m->type->forward == NULL) return DT_OK;
    return dt_hook_add(m, DT_SITE_INPUT, count_call, user, NULL, NULL);
}

dt_status random_net_count_calls(dt_module *m, int64_t *calls)
{
    return dt_module_visit_modules(m, hook_leaf, calls);
}
