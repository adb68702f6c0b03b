/* The promise of test_fidelity.c for networks of convolutions: prepared in evaluation, converted, and
 * loaded from a file on 1 and on 3 threads, all with the same bits. Random nets of images and signals:
 * depth, channels, kernels, strides, paddings, dilations, groups and depthwise, transposed or not,
 * norms folded or not, activations, pools, with and without a linear head; every preset, bits,
 * granularity, groups that do not divide rows. One training step goes through each: gradients are
 * finite, and where a product was computed on codes, codes and no values are kept of its input.
 * 1000 networks, 60 under a sanitizer; DETENT_NETWORKS says otherwise, DETENT_SEED starts elsewhere. */
#include "testing.h"

#include "autograd/tape.h"
#include "core/core.h"
#include "io/model.h"
#include "nn/unit.h"

#include <detent/io.h>
#include <detent/optim.h>
#include <detent/qat.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(TEST_TSAN)
#define NETWORKS 60
#else
#define NETWORKS 1000
#endif
#define DEEPEST 4

typedef enum pool_kind { POOL_NONE, POOL_MAX, POOL_AVERAGE } pool_kind;

typedef struct drawn_layer {
    bool transposed, norm;
    dt_conv_layer conv;
    int activation;
    pool_kind pool;
    dt_pool_options window;
} drawn_layer;

typedef struct drawn {
    uint64_t seed;
    dt_model_info info; /* of a family; else `layers` say what it is */
    int axes;           /* 2: images, 1: signals */
    int64_t batch, channels, size[2];
    int n;
    drawn_layer layers[DEEPEST];
    bool average;              /* what the head takes: the mean of each channel, or all */
    int64_t features, outputs; /* of the head; outputs 0: none */
    dt_qat_options qat;
    bool float_step; /* a step before prepare */
    bool freeze;     /* folded norms, after a step, before one more */
} drawn;

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
static void draw_axis(dt__stream *s, drawn_layer *l, int d, int64_t *size)
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

static void draw_pool(dt__stream *s, drawn_layer *l, int64_t size[2])
{
    dt_pool_options *o = &l->window;
    l->pool = (pool_kind)pick(s, POOL_MAX, POOL_AVERAGE);
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

static void draw_layer(dt__stream *s, drawn *d, drawn_layer *l, int64_t in, int64_t size[2])
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

static void draw_weight(dt__stream *s, bool learned, dt_quant_patch *w)
{
    static const int64_t groups[] = { 8, 16, 32, 64, 1 << 20 };
    *w = (dt_quant_patch){ 0 };
    w->quant.bits = pick(s, 2, 8);
    w->has_bits = chance(s, 0.5);
    w->quant.granularity = (int)pick(s, DT_PER_TENSOR, learned ? DT_PER_CHANNEL : DT_PER_GROUP);
    w->has_granularity = chance(s, 0.4);
    if (learned) return;
    w->quant.group_size = groups[pick(s, 0, 4)];
    w->has_group_size = chance(s, 0.6);
    w->quant.scale_dtype = (int)pick(s, DT_SCALE_F32, DT_SCALE_BF16);
    w->has_scale_dtype = chance(s, 0.3);
    w->quant.rule = (int)pick(s, DT_RULE_SYMMETRIC, DT_RULE_ASYMMETRIC);
    w->has_rule = chance(s, 0.2);
    w->quant.ste = DT_STE_CLIPPED;
    w->has_ste = chance(s, 0.2);
    w->quant.range = DT_RANGE_STATIC; /* of least error */
    w->has_range = chance(s, 0.15);
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
    }
}

static void draw_settings(dt__stream *s, drawn *d)
{
    d->qat = dt_qat_defaults();
    d->qat.preset = (int)pick(s, DT_INT8_DYNAMIC_INT4_WEIGHT, DT_INT4_INT4);
    d->qat.forward = chance(s, 0.15) ? DT_FORWARD_SIMULATED : DT_FORWARD_INTEGER;
    d->qat.fold_norm = chance(s, 0.7);
    d->freeze = chance(s, 0.4);
    draw_weight(s, d->qat.preset == DT_INT4_INT4, &d->qat.weight);
    draw_input(s, d->qat.preset, &d->qat.activation);
}

static drawn draw(uint64_t seed)
{
    dt__stream s = dt__stream_of(seed, DT__FOR_USER);
    drawn d = { .seed = seed, .axes = chance(&s, 0.2) ? 1 : 2, .n = (int)pick(&s, 1, DEEPEST) };
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
    pool_kind pool;
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

static dt_status create_conv(dt_ctx *ctx, const drawn *d, const drawn_layer *l, dt_module **out)
{
    if (d->axes == 1) {
        return (l->transposed ? dt_conv_transpose1d_create : dt_conv1d_create)(ctx, &l->conv, out);
    }
    return (l->transposed ? dt_conv_transpose2d_create : dt_conv2d_create)(ctx, &l->conv, out);
}

static void add_block(dt_ctx *ctx, const drawn *d, const drawn_layer *l, dt_module *m)
{
    block *s = dt_module_state(m);
    add(ctx, m, "conv", create_conv(ctx, d, l, &s->unit.layer), &s->unit.layer);
    if (l->norm) {
        dt_module **norm = &s->unit.norm;
        add(ctx, m, "norm",
            (d->axes == 1 ? dt_batch_norm1d_create : dt_batch_norm2d_create)(ctx, l->conv.out, 0.1,
                                                                             1e-5, norm),
            norm);
        dt__unit_pair(s->unit.layer, s->unit.norm);
    }
    const char *name = dt_activation_names[l->activation];
    add(ctx, m, "activation", dt_activation_create(ctx, name, &s->unit.activation),
        &s->unit.activation);
    s->pool = l->pool;
    s->window = l->window;
}

static dt_module *build(dt_ctx *ctx, const drawn *d)
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

/* ---- running it ------------------------------------------------------------------------------ */

static dt_tensor *new_input(dt_ctx *ctx, const drawn *d)
{
    dt_tensor *x;
    const int64_t dims[4] = { d->batch, d->channels, d->size[0], d->size[1] };
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2 + d->axes, dims, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0.1, 1));
    return x;
}

static dt_tensor *input_like(dt_ctx *ctx, const dt_tensor *x)
{
    dt_tensor *y;
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, x->rank, x->dims, dt_data(x), &y));
    return y;
}

/* Of a product on codes nothing else is kept of the input, and that of an integer forward is one. */
static void check_record(const drawn *d, const dt__record *r)
{
    const bool product = strncmp(r->op->name, "conv", 4) == 0 || strcmp(r->op->name, "linear") == 0;
    if (!product || !r->coded) return;
    const dt__saved *x = &r->kept[0];
    TEST_EACH(x->codes == NULL || x->storage == NULL,
              "network %llu: %s keeps codes and values of x", (unsigned long long)d->seed,
              r->op->name);
}

static int codes_kept(const drawn *d, const dt_tape *t)
{
    int codes = 0;
    for (int64_t i = 0; i < t->n_records; i++) {
        check_record(d, t->records[i]);
        codes += t->records[i]->kept[0].codes != NULL;
    }
    return codes;
}

static void check_gradients(const drawn *d, dt_module *m)
{
    const dt__param *params;
    int64_t n;
    TEST_OK(m->ctx, dt__module_params(m, &params, &n));
    for (int64_t i = 0; i < n; i++) {
        const dt_tensor *g = dt_grad(params[i].x);
        TEST_EACH(g != NULL, "network %llu: no gradient of %s", (unsigned long long)d->seed,
                  params[i].path);
        for (int64_t k = 0; k < g->count; k++) {
            const float v = ((const float *)dt_data(g))[k];
            TEST_EACH(isfinite(v), "network %llu: the gradient of %s is %g at %lld",
                      (unsigned long long)d->seed, params[i].path, (double)v, (long long)k);
        }
    }
}

static bool quantizes_inputs(const drawn *d)
{
    return d->qat.preset != DT_INT4_WEIGHT && d->n > (int)d->qat.n_rules;
}

static void train_once(const drawn *d, dt_module *m, dt_tensor *x, bool prepared)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_optimizer *o;
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    dt_train(m, true);
    dt_tensor *y = dt_forward(t, m, x);
    dt_tensor *loss = dt_mean(t, dt_mul(t, y, y), NULL);
    TEST_EACH(loss != NULL, "network %llu: %s", (unsigned long long)d->seed, dt_error(ctx));
    const int codes = codes_kept(d, t);
    TEST_EACH(!prepared || !quantizes_inputs(d) || codes > 0, "network %llu keeps no codes",
              (unsigned long long)d->seed);
    TEST_EACH(dt_backward(t, loss, NULL) == DT_OK, "network %llu: %s", (unsigned long long)d->seed,
              dt_error(ctx));
    check_gradients(d, m);
    TEST_OK(ctx, dt_optimizer_step(o, t, 0.01));
    dt_zero_grad(m);
    dt_optimizer_free(o);
    dt_tape_free(t);
}

/* The output in evaluation mode, a copy. */
static float *outputs(const drawn *d, dt_module *m, dt_tensor *x, int64_t *n)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_train(m, false);
    dt_no_grad(t, true);
    dt_tensor *y = dt_forward(t, m, x);
    TEST_EACH(y != NULL, "network %llu: %s", (unsigned long long)d->seed, dt_error(ctx));
    *n = dt_count(y);
    float *copy = malloc((size_t)*n * sizeof(float) + 1);
    memcpy(copy, dt_data(y), (size_t)*n * sizeof(float));
    dt_tape_free(t);
    return copy;
}

static void compare(const drawn *d, const float *want, const float *got, int64_t n,
                    const char *what)
{
    for (int64_t i = 0; i < n; i++) {
        TEST_EACH(memcmp(&want[i], &got[i], sizeof got[i]) == 0,
                  "network %llu: %s: output %lld is %.9g, prepared %.9g",
                  (unsigned long long)d->seed, what, (long long)i, (double)got[i], (double)want[i]);
    }
}

/* Nets of no family are built again, those of a family by their file. */
static dt_module *load(dt_ctx *ctx, const drawn *d, const char *path)
{
    dt_module *m;
    if (d->info.family != NULL) {
        TEST_EACH(dt_model_load(ctx, path, &m, NULL) == DT_OK, "network %llu: %s",
                  (unsigned long long)d->seed, dt_error(ctx));
        return m;
    }
    dt_file *file;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    m = build(ctx, d);
    const dt__restoring r = { .file = file, .m = m, .quantized = true };
    TEST_EACH(dt__restore(&r) == DT_OK, "network %llu: %s", (unsigned long long)d->seed,
              dt_error(ctx));
    dt_file_close(file);
    return m;
}

static void check_loaded(const drawn *d, const char *path, int threads, const dt_tensor *x,
                         const float *want)
{
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = threads;
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    dt_module *m = load(ctx, d, path);
    ck_assert(dt_is_converted(m));
    dt_tensor *input = input_like(ctx, x);
    int64_t n;
    float *got = outputs(d, m, input, &n);
    compare(d, want, got, n, threads == 1 ? "loaded, 1 thread" : "loaded, 3 threads");
    free(got);
    dt_tensor_free(input);
    dt_module_free(m);
    dt_ctx_free(ctx);
}

static dt_module *create(dt_ctx *ctx, const drawn *d)
{
    dt_module *m;
    if (d->info.family == NULL) return build(ctx, d);
    TEST_EACH(d->info.family->create(ctx, d->info.options, &m) == DT_OK, "network %llu: %s",
              (unsigned long long)d->seed, dt_error(ctx));
    return m;
}

static int norms_to_fold(const drawn *d)
{
    int n = 0;
    for (int i = (int)d->qat.n_rules; i < d->n && d->qat.fold_norm; i++) n += d->layers[i].norm;
    return n;
}

static void check_network(const drawn *d, const char *path)
{
    dt_ctx_options options = dt_ctx_defaults();
    options.seed = d->seed;
    options.threads = 2;
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    dt_module *m = create(ctx, d);
    dt_tensor *x = new_input(ctx, d);
    if (d->float_step) train_once(d, m, x, false);
    TEST_EACH(dt_prepare(m, &d->qat) == DT_OK, "network %llu: %s", (unsigned long long)d->seed,
              dt_error(ctx));
    train_once(d, m, x, true);
    if (d->freeze) {
        dt_norms_freeze(m, true);
        train_once(d, m, x, true);
    }
    int64_t n;
    float *prepared = outputs(d, m, x, &n);
    dt_convert_report report;
    TEST_EACH(dt_convert(m, NULL, &report) == DT_OK, "network %llu: %s",
              (unsigned long long)d->seed, dt_error(ctx));
    TEST_EACH(d->info.family != NULL || report.folded == norms_to_fold(d),
              "network %llu: %d norms folded, not %d", (unsigned long long)d->seed,
              (int)report.folded, norms_to_fold(d));
    float *converted = outputs(d, m, x, &n);
    compare(d, prepared, converted, n, "converted");
    TEST_OK(ctx, dt_model_save(m, d->info.family == NULL ? NULL : &d->info, path));
    for (int threads = 1; threads <= 3; threads += 2) check_loaded(d, path, threads, x, prepared);
    free(prepared);
    free(converted);
    dt_tensor_free(x);
    dt_module_free(m);
    dt_ctx_free(ctx);
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

#define PARTS 4

START_TEST(prepared_converted_and_loaded_are_equal)
{
    const uint64_t first = number_from("DETENT_SEED", 1);
    const uint64_t count = number_from("DETENT_NETWORKS", NETWORKS);
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "net.safetensors");
    for (uint64_t i = (uint64_t)_i; i < count; i += PARTS) {
        const drawn d = draw(first + i);
        check_network(&d, path);
    }
    remove(path);
}
END_TEST

/* ---- families -------------------------------------------------------------------------------- */

static int norms_there_are(void)
{
    int n = 0;
    while (dt_norm_names[n] != NULL) n++;
    return n;
}

static dt_cnn_options draw_cnn(dt__stream *s, drawn *d)
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

static dt_resnet_options draw_resnet(dt__stream *s, drawn *d)
{
    dt_resnet_options o = { .norms = { 1, 0.1, 1e-5 }, .depth = 6, .outputs = 4 };
    d->size[0] = pick(s, 5, 9);
    d->size[1] = pick(s, 5, 9);
    o.shortcut = (int)pick(s, 0, 1);
    o.norm = (int)pick(s, 0, norms_there_are() - 1);
    o.widths = (dt_ints){ 2, { pick(s, 2, 8), pick(s, 8, 12) } };
    return o;
}

static dt_unet_options draw_unet(dt__stream *s, drawn *d)
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

static const dt_family *family_named(const char *name)
{
    int i = 0;
    while (strcmp(dt_family_at(i)->name, name) != 0) i++;
    return dt_family_at(i);
}

START_TEST(so_are_families)
{
    static const char *const names[] = { "cnn", "resnet", "unet" };
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "net.safetensors");
    const uint64_t count = number_from("DETENT_NETWORKS", NETWORKS) / 10;
    for (uint64_t seed = 1; seed <= count; seed++) {
        dt__stream s = dt__stream_of(seed, DT__FOR_USER);
        drawn d = { .seed = seed, .axes = 2, .batch = pick(&s, 2, 4), .channels = pick(&s, 1, 3) };
        d.n = 1;
        d.float_step = chance(&s, 0.3);
        draw_settings(&s, &d);
        dt_cnn_options cnn = draw_cnn(&s, &d);
        dt_resnet_options resnet = draw_resnet(&s, &d);
        dt_unet_options unet = draw_unet(&s, &d);
        const dt_ints image = { 3, { d.channels, d.size[0], d.size[1] } };
        cnn.image = resnet.image = unet.image = image;
        const void *const options[] = { &cnn, &resnet, &unet };
        d.info.family = family_named(names[_i]);
        d.info.options = options[_i];
        check_network(&d, path);
    }
    remove(path);
}
END_TEST

Suite *test_conv_nets_suite(void)
{
    Suite *s = suite_create("conv_nets");
    TCase *c = tcase_create("networks");
    tcase_set_timeout(c, 900);
    tcase_add_loop_test(c, prepared_converted_and_loaded_are_equal, 0, PARTS);
    tcase_add_loop_test(c, so_are_families, 0, 3);
    suite_add_tcase(s, c);
    return s;
}
