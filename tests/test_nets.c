/* Whole networks against reference values: outputs, loss, every gradient, running statistics, and
 * the weights after some steps of each optimizer, in f64 and f32 (golden/nets says how they were
 * made). Networks, optimizers, settings and steps are those that are there. */
#include "module_to.h"
#include "testing.h"

#include "nn/module.h"

#include <detent/experimental/io.h>
#include <detent/experimental/nn.h>
#include <detent/ops.h>
#include <detent/experimental/optim.h>
#include <detent/qat.h>
#include <detent/experimental/train.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Relative to a tensor's largest value. */
typedef struct tolerance {
    double value, gradient, sgd, adam;
} tolerance;

static const tolerance exact = { 1e-10, 1e-10, 1e-10, 1e-10 };
static const tolerance single = { 1e-5, 1e-4, 1e-5, 1e-3 };

typedef struct net {
    const struct kind *kind;
    dt_ctx *ctx;
    dt_tape *t;
    dt_file *file;
    dt_dtype dtype;
    const tolerance *tol;
    dt_module *m;
    dt_tensor *x, *target;
} net;

typedef struct kind {
    const char *net;    /* in the file's metadata */
    const char *output; /* "logits": of labels; "y": of images */
    const char *input;  /* "x"; "ids" of language models */
    dt_status (*create)(const net *n, dt_module **out);
} kind;

/* ---- reading --------------------------------------------------------------------------------- */

static const char *meta(const net *n, const char *run, const char *key)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s", run, key);
    const char *text = dt_file_meta(n->file, name);
    ck_assert_msg(text != NULL, "no metadata %s", name);
    return text;
}

static double number(const net *n, const char *run, const char *key)
{
    return strtod(meta(n, run, key), NULL);
}

static dt_ints ints(const char *text)
{
    dt_ints list = { 0 };
    while (*text != '\0') {
        char *end;
        list.v[list.n++] = strtoll(text, &end, 10);
        text = *end == ',' ? end + 1 : end;
    }
    return list;
}

static dt_tensor *load(const net *n, const char *name, dt_dtype dtype)
{
    dt_tensor *x;
    TEST_OK(n->ctx, dt_file_load(n->file, name, dtype, &x));
    return x;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static double at(const dt_tensor *x, int64_t i)
{
    return dt_dtype_of(x) == DT_F32 ? (double)((const float *)dt_data(x))[i]
                                    : ((const double *)dt_data(x))[i];
}

static void compare(const net *n, const dt_tensor *got, const char *name, double relative)
{
    ck_assert_msg(got != NULL, "%s: nothing to compare (%s)", name, dt_error(n->ctx));
    dt_tensor *want = load(n, name, DT_F64);
    ck_assert_msg(dt_count(got) == dt_count(want), "%s: expected %lld elements, %lld", name,
                  (long long)dt_count(got), (long long)dt_count(want));
    double largest = 0.0;
    for (int64_t i = 0; i < dt_count(want); i++) largest = fmax(largest, fabs(at(want, i)));
    for (int64_t i = 0; i < dt_count(want); i++) {
        const double a = at(got, i), b = at(want, i);
        ck_assert_msg(fabs(a - b) <= relative * largest, "%s[%lld] = %.17g, %.17g wanted", name,
                      (long long)i, a, b);
    }
    dt_tensor_free(want);
}

static void compare_number(double got, const net *n, const char *run, const char *what, int i,
                           double relative)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s", run, what);
    dt_tensor *want = load(n, name, DT_F64);
    const double b = at(want, i);
    ck_assert_msg(fabs(got - b) <= relative * fabs(b), "%s[%d] = %.17g, %.17g wanted", name, i, got,
                  b);
    dt_tensor_free(want);
}

/* The files' names of experts' weights are those of their layers. */
static void name_entry(char name[256], const char *prefix, const char *path)
{
    const int used = snprintf(name, 256, "%s.%s", prefix, path);
    const int tail = (int)strlen(".weight");
    if (strstr(path, ".moe.w_") != NULL) name[used - tail] = '\0';
}

typedef struct comparison {
    const net *n;
    const char *weights, *buffers; /* prefixes; NULL: left out */
    bool gradients;
    double relative;
} comparison;

/* Key biases: softmax makes their gradient rounding noise, which Adam amplifies. */
static bool is_noise(const net *n, const char *path)
{
    const char *noise = dt_file_meta(n->file, "noise");
    const size_t at =
        noise == NULL || strlen(noise) > strlen(path) ? 0 : strlen(path) - strlen(noise);
    return noise != NULL && strcmp(path + at, noise) == 0;
}

static dt_status compare_entry(void *user, const char *path, dt_tensor *x, dt_entry_kind entry_kind)
{
    const comparison *c = user;
    const char *prefix = entry_kind == DT_PARAM ? c->weights : c->buffers;
    if (prefix == NULL || dt_param_path(c->n->m, x) != path) return DT_OK;
    if (c->relative > 0.0 && is_noise(c->n, path)) return DT_OK;
    char name[256];
    name_entry(name, prefix, path);
    compare(c->n, c->gradients ? dt_grad(x) : x, name, c->relative);
    return DT_OK;
}

static void compare_all(const net *n, const char *weights, const char *buffers, bool gradients,
                        double relative)
{
    comparison c = { n, weights, buffers, gradients, relative };
    dt_module_visit(n->m, compare_entry, &c);
}

/* ---- a network ------------------------------------------------------------------------------- */

typedef struct state {
    const net *n;
    dt_named entry[64];
    char name[64][128];
    int64_t count;
} state;

static dt_status read_entry(void *user, const char *path, dt_tensor *x, dt_entry_kind entry_kind)
{
    state *s = user;
    if (dt_param_path(s->n->m, x) != path) return DT_OK;
    char name[256];
    name_entry(name, entry_kind == DT_PARAM ? "w0" : "buf0", path);
    snprintf(s->name[s->count], sizeof s->name[0], "%s", path);
    s->entry[s->count] = (dt_named){ s->name[s->count], load(s->n, name, s->n->dtype) };
    s->count++;
    return DT_OK;
}

/* Weights and statistics as they were at first. */
static void restart(const net *n)
{
    state s = { .n = n };
    dt_module_visit(n->m, read_entry, &s);
    TEST_OK(n->ctx, dt_module_load(n->m, s.entry, s.count));
    for (int64_t i = 0; i < s.count; i++) dt_tensor_free(s.entry[i].x);
    dt_zero_grad(n->m);
    dt_train(n->m, true);
}

static dt_status create_mlp(const net *n, dt_module **out)
{
    const dt_mlp_options options = {
        .sizes = ints(meta(n, "model", "sizes")),
        .norm = 1,
        .eps = 1e-5,
        .momentum = number(n, "model", "momentum"),
    };
    return dt_mlp_create(n->ctx, &options, out);
}

static dt_norm_options norms(const net *n)
{
    return (dt_norm_options){ .momentum = number(n, "model", "momentum"), .eps = 1e-5 };
}

/* "out:kernel:stride:padding:pool,..." */
static void read_blocks(const char *text, dt_cnn_options *o)
{
    static const char *const pools[] = { "none", "max", "avg" };
    for (; *text != '\0'; text += *text == ',') {
        dt_cnn_block *b = &o->blocks[o->n_blocks++];
        char pool[8] = "";
        long long v[4];
        int used = 0;
        ck_assert_int_eq(
            sscanf(text, "%lld:%lld:%lld:%lld:%7[a-z]%n", &v[0], &v[1], &v[2], &v[3], pool, &used),
            5);
        *b = (dt_cnn_block){ v[0], v[1], v[2], v[3], .groups = 1, .norm = DT_NORM_BATCH };
        while (strcmp(pools[b->pool], pool) != 0) b->pool++;
        text += used;
    }
}

static dt_status create_cnn(const net *n, dt_module **out)
{
    dt_cnn_options options = {
        .image = ints(meta(n, "model", "image")),
        .outputs = (int64_t)number(n, "model", "classes"),
        .norms = norms(n),
    };
    read_blocks(meta(n, "model", "blocks"), &options);
    return dt_cnn_create(n->ctx, &options, out);
}

/* "width:stride,...": here one block a stage. */
static dt_status create_resnet(const net *n, dt_module **out)
{
    dt_resnet_options options = {
        .image = ints(meta(n, "model", "image")),
        .shortcut = strcmp(meta(n, "model", "shortcut"), "conv") == 0,
        .norm = DT_NORM_BATCH,
        .outputs = (int64_t)number(n, "model", "classes"),
        .norms = norms(n),
    };
    for (const char *text = meta(n, "model", "blocks"); text != NULL; text = strchr(text, ',')) {
        text += *text == ',';
        options.widths.v[options.widths.n++] = strtoll(text, NULL, 10);
    }
    options.depth = 2 + 2 * options.widths.n;
    return dt_resnet_create(n->ctx, &options, out);
}

static dt_status create_unet(const net *n, dt_module **out)
{
    dt_unet_options options = {
        .image = ints(meta(n, "model", "image")),
        .widths = ints(meta(n, "model", "widths")),
        .up = ints(meta(n, "model", "up")),
        .norm = DT_NORM_BATCH,
        .norms = norms(n),
    };
    options.outputs = options.image.v[0];
    return dt_unet_create(n->ctx, &options, out);
}

static bool is_set(const net *n, const char *key)
{
    char name[64];
    snprintf(name, sizeof name, "model.%s", key);
    const char *text = dt_file_meta(n->file, name);
    return text != NULL && strcmp(text, "true") == 0;
}

static dt_status create_gpt(const net *n, dt_module **out)
{
    const dt_gpt_options options = {
        .vocab = (int64_t)number(n, "model", "vocab"),
        .context = (int64_t)number(n, "model", "context"),
        .layers = (int64_t)number(n, "model", "layers"),
        .heads = (int64_t)number(n, "model", "heads"),
        .width = (int64_t)number(n, "model", "width"),
        .hidden = (int64_t)number(n, "model", "hidden"),
        .bias = is_set(n, "bias"),
        .tied = is_set(n, "tied"),
        .eps = 1e-5,
    };
    return dt_gpt_create(n->ctx, &options, out);
}

static dt_moe_options mixture(const net *n)
{
    if (dt_file_meta(n->file, "model.experts") == NULL) return (dt_moe_options){ .given = false };
    return (dt_moe_options){ .given = true,
                             .experts = (int64_t)number(n, "model", "experts"),
                             .top_k = (int64_t)number(n, "model", "top_k"),
                             .normalize = true,
                             .balance = number(n, "model", "balance_coef"),
                             .z = number(n, "model", "z_coef") };
}

static dt_status create_llama(const net *n, dt_module **out)
{
    const dt_llama_options options = {
        .vocab = (int64_t)number(n, "model", "vocab"),
        .context = 16,
        .layers = (int64_t)number(n, "model", "layers"),
        .heads = (int64_t)number(n, "model", "heads"),
        .kv_heads = (int64_t)number(n, "model", "kv_heads"),
        .width = (int64_t)number(n, "model", "width"),
        .hidden = (int64_t)number(n, "model", "hidden"),
        .tied = is_set(n, "tied"),
        .theta = number(n, "model", "theta"),
        .eps = number(n, "model", "eps"),
        .moe = mixture(n),
    };
    return dt_llama_create(n->ctx, &options, out);
}

typedef struct text {
    char bytes[4096];
    size_t n;
} text;

static void put(text *t, const char *format, ...) DT_PRINTF(2, 3);
static void put(text *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(t->bytes + t->n, sizeof t->bytes - t->n, format, arguments);
    va_end(arguments);
    t->n += (size_t)n;
    ck_assert_uint_lt(t->n, sizeof t->bytes);
}

/* Convolutions of stride 2 to a code, and transposed ones back to the same sizes, as a list. */
static void write_autoencoder(const net *n, text *t)
{
    const dt_ints image = ints(meta(n, "model", "image")),
                  widths = ints(meta(n, "model", "widths"));
    int64_t sides[DT_MAX_LIST][2] = { { image.v[1], image.v[2] } };
    const int deep = widths.n;
    put(t,
        "run: {dir: r}\ndata: {format: digits}\ntrain: {epochs: 1}\nmodel:\n  family: layers\n"
        "  input: [%s]\n  layers:\n",
        meta(n, "model", "image"));
    for (int i = 0; i < deep; i++) {
        for (int k = 0; k < 2; k++) sides[i + 1][k] = (sides[i][k] + 1) / 2;
        put(t,
            "  - {conv2d: encoder.%d, out: %d, kernel: 3, stride: 2, padding: 1, bias: true, "
            "norm: group, norm_groups: %s, activation: silu}\n",
            i, (int)widths.v[i], meta(n, "model", "groups"));
    }
    const int width = (int)widths.v[deep - 1], high = (int)sides[deep][0],
              wide = (int)sides[deep][1];
    put(t,
        "  - flatten\n  - {linear: to_code, out: %s}\n  - {linear: from_code, out: %d}\n"
        "  - {reshape: image, shape: [%d, %d, %d]}\n",
        meta(n, "model", "code"), width * high * wide, width, high, wide);
    for (int i = deep - 1; i >= 0; i--) {
        put(t,
            "  - {conv_transpose2d: decoder.%d.tconv, out: %d, kernel: 3, stride: 2, padding: 1, "
            "output_padding: [%d, %d], bias: true}\n  - %s\n",
            i, i > 0 ? (int)widths.v[i - 1] : (int)image.v[0], (int)(1 - sides[i][0] % 2),
            (int)(1 - sides[i][1] % 2), i > 0 ? "silu" : "sigmoid");
    }
}

static dt_status create_autoencoder(const net *n, dt_module **out)
{
    text t = { .n = 0 };
    dt_recipe *r;
    write_autoencoder(n, &t);
    const dt_recipe_source source = {
        .path = "list.yaml", .text = t.bytes, .bytes = t.n, .leave_files = true
    };
    TEST_OK(n->ctx, dt_recipe_read(n->ctx, &source, &r));
    const dt_model_options *o = &dt_recipe_get(r)->model;
    const dt_status status = o->family->create(n->ctx, o->options, out);
    dt_recipe_free(r);
    return status;
}

static const kind kinds[] = {
    { "mlp", "logits", "x", create_mlp },
    { "cnn", "logits", "x", create_cnn },
    { "resnet", "logits", "x", create_resnet },
    { "unet", "y", "x", create_unet },
    { "gpt", "logits", "ids", create_gpt },
    { "llama", "logits", "ids", create_llama },
    { "autoencoder", "y", "x", create_autoencoder },
};

static test_names files; /* golden/nets */

/* NULL where the file is none of a network: schedules, and cells (test_recurrent.c). */
static const kind *kind_of(const dt_file *f)
{
    const char *name = dt_file_meta(f, "net");
    if (name == NULL || dt_file_meta(f, "optimizers") == NULL) return NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].net, name) != 0) continue;
        return kinds[i].create != create_autoencoder || test_parsers() ? &kinds[i] : NULL;
    }
    ck_abort_msg("no family for the network '%s'", name);
    return NULL;
}

static bool has_labels(const net *n) { return strcmp(n->kind->output, "logits") == 0; }

static bool has_ids(const net *n) { return strcmp(n->kind->input, "ids") == 0; }

/* The loss of the batch, from the model's output `y`; language models do not read `y`. */
static dt_tensor *loss_of(const net *n, dt_tensor *y)
{
    if (has_ids(n)) return dt_token_loss(n->t, n->m, n->x, n->target, NULL, NULL);
    return has_labels(n) ? dt_cross_entropy(n->t, y, n->target, NULL)
                         : dt_mse(n->t, y, n->target, DT_REDUCE_MEAN);
}

/* False where there is no such file, or none of a network. */
static bool open_net(net *n, const char *file, dt_dtype dtype)
{
    char path[TEST_PATH], name[TEST_PATH];
    snprintf(name, sizeof name, "nets/%s.safetensors", file);
    if (!test_golden(path, name)) return false;
    *n = (net){ .dtype = dtype, .tol = dtype == DT_F64 ? &exact : &single };
    ck_assert_int_eq(dt_ctx_create(&n->ctx, NULL), DT_OK);
    TEST_OK(n->ctx, dt_file_open(n->ctx, path, &n->file));
    n->kind = kind_of(n->file);
    if (n->kind == NULL) {
        dt_file_close(n->file);
        dt_ctx_free(n->ctx);
        return false;
    }
    TEST_OK(n->ctx, dt_tape_create(n->ctx, &n->t));
    TEST_OK(n->ctx, n->kind->create(n, &n->m));
    TEST_OK(n->ctx, module_to(n->m, dtype));
    n->x = has_ids(n) ? load(n, "batch.ids", DT_I32) : load(n, "batch.x", dtype);
    const bool to_itself = dt_file_find(n->file, "batch.target") == NULL;
    n->target = has_labels(n) ? load(n, "batch.labels", DT_I32)
                              : load(n, to_itself ? "batch.x" : "batch.target", dtype);
    restart(n);
    return true;
}

static void close_net(net *n)
{
    dt_tensor_free(n->x);
    dt_tensor_free(n->target);
    dt_module_free(n->m);
    dt_file_close(n->file);
    dt_tape_free(n->t);
    dt_ctx_free(n->ctx);
}

/* ---- the first pass -------------------------------------------------------------------------- */

static void first_pass(const char *file, dt_dtype dtype)
{
    net n;
    char name[32];
    if (!open_net(&n, file, dtype)) return;
    dt_tensor *y = dt_forward(n.t, n.m, n.x);
    dt_tensor *loss = loss_of(&n, y);
    snprintf(name, sizeof name, "out.%s", n.kind->output);
    compare(&n, y, name, n.tol->value);
    compare(&n, loss, "loss", n.tol->value);
    compare_all(&n, NULL, "buf1", false, n.tol->value);
    TEST_OK(n.ctx, dt_backward(n.t, loss, NULL));
    compare_all(&n, "grad", NULL, true, n.tol->gradient);
    dt_tape_reset(n.t);
    restart(&n);
    dt_train(n.m, false);
    snprintf(name, sizeof name, "eval0.%s", n.kind->output);
    compare(&n, dt_forward(n.t, n.m, n.x), name, n.tol->value);
    compare_all(&n, "w0", "buf0", false, 0.0); /* evaluation changes nothing */
    close_net(&n);
}

START_TEST(first_pass_f64) { first_pass(files.name[_i], DT_F64); }
END_TEST

START_TEST(first_pass_f32) { first_pass(files.name[_i], DT_F32); }
END_TEST

/* ---- steps ----------------------------------------------------------------------------------- */

/* By the begin of a run's name. */
static int rule_of(const char *run)
{
    static const struct {
        const char *begin;
        int rule;
    } rules[] = {
        { "sgd", DT_SGD }, { "adamw", DT_ADAMW }, { "adam", DT_ADAM }, { "lion", DT_LION }
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strncmp(run, rules[i].begin, strlen(rules[i].begin)) == 0) return rules[i].rule;
    }
    ck_abort_msg("no optimizer for the run '%s'", run);
    return 0;
}

static dt_optimizer_options options_of(const net *n, const char *run, int rule)
{
    dt_optimizer_options o = { .name = rule,
                               .lr = number(n, run, "lr"),
                               .weight_decay = number(n, run, "weight_decay") };
    o.decay = strcmp(meta(n, run, "decay"), "all") == 0 ? DT_DECAY_ALL : DT_DECAY_MATRICES;
    if (rule == DT_SGD) {
        o.momentum = number(n, run, "momentum");
        o.nesterov = strcmp(meta(n, run, "nesterov"), "true") == 0;
    } else {
        o.beta1 = number(n, run, "beta1");
        o.beta2 = number(n, run, "beta2");
        o.eps = number(n, run, "eps");
    }
    return o;
}

static void one_step(const net *n, dt_optimizer *o, const char *run, double relative)
{
    const dt_schedule schedule = {
        .name = DT_COSINE,
        .warmup_steps = (int64_t)number(n, run, "warmup"),
        .total_steps = (int64_t)number(n, run, "total"),
        .floor = number(n, run, "floor"),
    };
    const int64_t update = dt_optimizer_updates(o);
    dt_tape_reset(n->t);
    dt_zero_grad(n->m);
    dt_tensor *loss = loss_of(n, has_ids(n) ? NULL : dt_forward(n->t, n->m, n->x));
    ck_assert_ptr_nonnull(loss);
    compare_number(dt_item(loss), n, run, "loss", (int)update, relative);
    TEST_OK(n->ctx, dt_backward(n->t, loss, NULL));
    double norm;
    TEST_OK(n->ctx, dt_clip_grad_norm(n->m, n->t, number(n, run, "clip"), &norm));
    compare_number(norm, n, run, "norm", (int)update, relative * 10);
    const double rate = dt_schedule_rate(&schedule, number(n, run, "lr"), update);
    compare_number(rate, n, run, "lr", (int)update, 1e-14);
    TEST_OK(n->ctx, dt_optimizer_step(o, n->t, rate));
}

static void all_steps(net *n, const char *run)
{
    const int rule = rule_of(run);
    const dt_optimizer_options options = options_of(n, run, rule);
    const double relative = rule == DT_SGD ? n->tol->sgd : n->tol->adam;
    dt_optimizer *o;
    dt_tape_reset(n->t);
    restart(n);
    TEST_OK(n->ctx, dt_optimizer_create(n->m, &options, &o));
    const int steps = atoi(dt_file_meta(n->file, "steps"));
    ck_assert_int_gt(steps, 0);
    for (int step = 0; step < steps; step++) one_step(n, o, run, relative);
    char weights[64], buffers[64], eval[64];
    snprintf(weights, sizeof weights, "%s.w", run);
    snprintf(buffers, sizeof buffers, "%s.buf", run);
    snprintf(eval, sizeof eval, "%s.eval", run);
    if (dt_file_meta(n->file, "partial") == NULL) { /* otherwise the file only has losses and
                                                    * norms */
        compare_all(n, weights, buffers, false, relative);
        dt_tape_reset(n->t);
        dt_train(n->m, false);
        compare(n, dt_forward(n->t, n->m, n->x), eval, relative);
    }
    dt_optimizer_free(o);
}

static void steps_of_each(const char *file, dt_dtype dtype)
{
    net n;
    test_names runs;
    if (!open_net(&n, file, dtype)) return;
    test_list(dt_file_meta(n.file, "optimizers"), &runs);
    ck_assert_int_gt(runs.n, 0);
    for (int i = 0; i < runs.n; i++) all_steps(&n, runs.name[i]);
    close_net(&n);
}

START_TEST(steps_f64) { steps_of_each(files.name[_i], DT_F64); }
END_TEST

START_TEST(steps_f32) { steps_of_each(files.name[_i], DT_F32); }
END_TEST

/* ---- accumulation ---------------------------------------------------------------------------- */

/* The first or the second half of the rows of x. */
static dt_tensor *half_of(const net *n, dt_tensor *x, int half)
{
    const int64_t rows = x->dims[0] / 2;
    dt_tensor *y;
    TEST_OK(n->ctx, dt_tensor_narrow(x, 0, half * rows, rows, &y));
    return y;
}

/* One pass with half the rows. The sum is divided by the number of counted labels in all rows. */
static void add_half(const net *n, int half, double labels)
{
    dt_tensor *ids = half_of(n, n->x, half), *target = half_of(n, n->target, half), *share;
    dt_token_loss_options o = dt_token_loss_defaults();
    o.head.reduction = DT_REDUCE_SUM;
    TEST_OK(n->ctx, dt_tensor_create(n->ctx, n->dtype, 0, NULL, &share));
    TEST_OK(n->ctx, dt_fill(share, 1 / labels));
    dt_tape_reset(n->t);
    dt_tensor *loss = dt_token_loss(n->t, n->m, ids, target, &o, NULL);
    TEST_OK(n->ctx, dt_backward(n->t, loss, share));
    dt_tensor_free(share);
    dt_tensor_free(ids);
    dt_tensor_free(target);
}

/* Micro-batches with different numbers of counted labels give the gradient of the whole batch. */
START_TEST(micro_batches_add_up_by_counted_labels)
{
    net n;
    if (!open_net(&n, "gpt_untied", _i == 0 ? DT_F64 : DT_F32)) return;
    dt_tensor *counts = load(&n, "accumulate.counts", DT_I32);
    const int32_t *count = dt_data(counts);
    for (int half = 0; half < 2; half++) add_half(&n, half, count[0] + count[1]);
    compare_all(&n, "grad", NULL, true, n.tol->gradient);
    const dt_tensor *g = dt_grad(dt_param(n.m, "blocks.1.mlp.up.weight"));
    compare(&n, g, "accumulate.by_count.grad.blocks.1.mlp.up.weight", n.tol->gradient);
    dt_tensor_free(counts);
    close_net(&n);
}
END_TEST

/* ---- building -------------------------------------------------------------------------------- */

static const dt_norm_options usual = { 4, 0.1, 1e-5 };

/* The CNN of mnist-cnn: four convolutions, 32,378 parameters. */
static dt_cnn_options small_cnn(void)
{
    static const int64_t out[] = { 16, 32, 32, 48 }, stride[] = { 1, 2, 1, 2 };
    dt_cnn_options o = { .image = { 3, { 1, 28, 28 } }, .n_blocks = 4, .outputs = 10 };
    for (int i = 0; i < 4; i++) {
        o.blocks[i] = (dt_cnn_block){ out[i], 3, stride[i], 1, 1, .norm = DT_NORM_BATCH };
    }
    o.blocks[3].pool = 1;
    o.norms = usual;
    return o;
}

static dt_resnet_options resnet20(void)
{
    return (dt_resnet_options){ .image = { 3, { 3, 32, 32 } },
                                .depth = 20,
                                .widths = { 3, { 16, 32, 64 } },
                                .norm = DT_NORM_BATCH,
                                .outputs = 10,
                                .norms = usual };
}

static dt_unet_options small_unet(void)
{
    return (dt_unet_options){ .image = { 3, { 1, 28, 28 } },
                              .widths = { 3, { 8, 16, 32 } },
                              .up = { 4, { 2, 2, 0, 0 } },
                              .norm = DT_NORM_BATCH,
                              .outputs = 1,
                              .norms = usual };
}

static dt_status create_all(dt_ctx *ctx, void *user)
{
    const dt_cnn_options cnn = small_cnn();
    const dt_resnet_options resnet = resnet20();
    const dt_unet_options unet = small_unet();
    dt_module *m[3] = { NULL };
    dt_status status = dt_cnn_create(ctx, &cnn, &m[0]);
    if (status == DT_OK) status = dt_resnet_create(ctx, &resnet, &m[1]);
    if (status == DT_OK) status = dt_unet_create(ctx, &unet, &m[2]);
    for (int i = 0; i < 3; i++) {
        if (status == DT_OK && user != NULL) ((int64_t *)user)[i] = dt_param_count(m[i]);
        dt_module_free(m[i]);
    }
    return status;
}

START_TEST(families_have_known_numbers_of_parameters)
{
    dt_ctx *ctx;
    int64_t parameters[3];
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    TEST_OK(ctx, create_all(ctx, parameters));
    ck_assert_int_eq(parameters[0], 32378);
    ck_assert_int_eq(parameters[1], 269722);
    ck_assert_int_eq(parameters[2], 14345);
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

/* A preset for devices wants the shape of an example, which these models know without an option. */
START_TEST(families_know_the_shape_of_an_example)
{
    dt_ctx *ctx;
    dt_module *m[4];
    dt_qat_options o = dt_qat_defaults();
    const dt_mlp_options mlp = { .sizes = { 3, { 6, 8, 2 } } };
    const dt_cnn_options cnn = small_cnn();
    dt_resnet_options resnet = resnet20();
    const dt_unet_options unet = small_unet();
    resnet.depth = 8;
    resnet.shortcut = 1; /* conv */
    o.preset = DT_DEVICE_INT8;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_mlp_create(ctx, &mlp, &m[0]));
    TEST_OK(ctx, dt_cnn_create(ctx, &cnn, &m[1]));
    TEST_OK(ctx, dt_resnet_create(ctx, &resnet, &m[2]));
    TEST_OK(ctx, dt_unet_create(ctx, &unet, &m[3]));
    for (int i = 0; i < 4; i++) {
        TEST_OK(ctx, dt_prepare(m[i], &o));
        dt_module_free(m[i]);
    }
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    ck_assert_int_gt(test_every_allocation(create_all, NULL), 200);
}
END_TEST

START_TEST(options_that_do_not_fit_are_refused)
{
    dt_ctx *ctx;
    dt_module *m;
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    dt_cnn_options cnn = small_cnn();
    cnn.image.v[1] = 4; /* 4, 2, 2, 1: nothing is left to pool */
    TEST_FAILS(ctx, DT_ERR_ARG, "cnn: pool: a window of 2 pixels does not fit an image of 1",
               dt_cnn_create(ctx, &cnn, &m));
    cnn = small_cnn();
    cnn.blocks[1].groups = 3;
    TEST_FAILS(ctx, DT_ERR_ARG, "3 groups do not divide 16 and 32 channels",
               dt_cnn_create(ctx, &cnn, &m));
    cnn = small_cnn();
    for (int i = 0; i < 4; i++) cnn.blocks[i].norm = DT_NORM_GROUP;
    TEST_OK(ctx, dt_cnn_create(ctx, &cnn, &m)); /* 4 groups of 16, 32, 32 and 48 channels */
    ck_assert_int_eq(dt_param_count(m), 32378);
    dt_module_free(m);
    cnn.norms.groups = 5;
    TEST_FAILS(ctx, DT_ERR_ARG, "5", dt_cnn_create(ctx, &cnn, &m));
    cnn.image.n = 2;
    TEST_FAILS(ctx, DT_ERR_ARG, "requires channels, height and width",
               dt_cnn_create(ctx, &cnn, &m));
    dt_resnet_options resnet = resnet20();
    resnet.depth = 18;
    TEST_FAILS(ctx, DT_ERR_ARG, "depth 18 does not fit; with 3 widths it is 6 n + 2",
               dt_resnet_create(ctx, &resnet, &m));
    resnet = resnet20();
    resnet.widths.v[2] = 8;
    TEST_FAILS(ctx, DT_ERR_ARG, "pad cannot go from 32 channels to 8; conv can",
               dt_resnet_create(ctx, &resnet, &m));
    dt_unet_options unet = small_unet();
    unet.image.v[2] = 30;
    TEST_FAILS(ctx, DT_ERR_ARG, "15 pixels are halved to 7 at level 2, and come back as 14",
               dt_unet_create(ctx, &unet, &m));
    unet = small_unet();
    unet.up.n = 3;
    TEST_FAILS(ctx, DT_ERR_ARG, "up requires kernel, stride", dt_unet_create(ctx, &unet, &m));
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- optimizers and wrappers ----------------------------------------------------------------- */

typedef struct words {
    dt_ctx *ctx;
    dt_tape *t;
    dt_module *m; /* embedding `table`, linear `head` */
    dt_optimizer *o;
    dt_tensor *index;
} words;

static void words_open(words *w, int rule)
{
    static const int32_t index[6] = { 1, 4, 49, 0, 4, 7 };
    const int64_t n = 6;
    dt_module *part = NULL;
    ck_assert_int_eq(dt_ctx_create(&w->ctx, NULL), DT_OK);
    TEST_OK(w->ctx, dt_tape_create(w->ctx, &w->t));
    TEST_OK(w->ctx, dt_sequential_create(w->ctx, &w->m));
    TEST_OK(w->ctx, dt_embedding_create(w->ctx, 50, 48, &part));
    TEST_OK(w->ctx, dt_module_add(w->m, "table", part));
    TEST_OK(w->ctx, dt_linear_create(w->ctx, 48, 50, true, &part));
    TEST_OK(w->ctx, dt_module_add(w->m, "head", part));
    TEST_OK(w->ctx, dt_tensor_from(w->ctx, DT_I32, 1, &n, index, &w->index));
    dt_optimizer_options options = dt_optimizer_defaults();
    options.name = rule;
    options.momentum = rule == DT_SGD ? 0.9 : 0.0;
    TEST_OK(w->ctx, dt_optimizer_create(w->m, &options, &w->o));
}

static void words_close(words *w)
{
    dt_optimizer_free(w->o);
    dt_module_free(w->m);
    dt_tensor_free(w->index);
    dt_tape_free(w->t);
    ck_assert_uint_eq(dt_memory_of(w->ctx).used, 0);
    dt_ctx_free(w->ctx);
}

static double words_step(words *w)
{
    dt_tape_reset(w->t);
    dt_zero_grad(w->m);
    dt_tensor *loss = dt_cross_entropy(w->t, dt_forward(w->t, w->m, w->index), w->index, NULL);
    TEST_OK(w->ctx, dt_backward(w->t, loss, NULL));
    TEST_OK(w->ctx, dt_clip_grad_norm(w->m, w->t, 1.0, NULL));
    TEST_OK(w->ctx, dt_optimizer_step(w->o, w->t, 0.02));
    return dt_item(loss);
}

static dt_status check_slot(void *user, const char *slot, const char *path, dt_tensor *x)
{
    (void)path;
    if (strcmp(slot, "step") == 0) ck_assert_double_eq(dt_item(x), *(const int *)user);
    return DT_OK;
}

START_TEST(wrappers_train_under_every_scheme)
{
    words w;
    words_open(&w, _i);
    for (int i = 0; i < 11; i++) words_step(&w);
    dt_qat_options options = dt_qat_defaults();
    options.rules[0].match = "table"; /* presets do not quantize embeddings */
    options.rules[0].weight.has_bits = true;
    options.rules[0].weight.quant.bits = 8;
    options.n_rules = 1;
    TEST_OK(w.ctx, dt_prepare(w.m, &options));
    ck_assert(dt_is_fake_quant(dt_param(w.m, "table.weight")));
    ck_assert(dt_is_fake_quant(dt_param(w.m, "head.weight")));
    double loss = words_step(&w);
    const uint64_t allocations = dt_memory_of(w.ctx).allocations;
    for (int i = 0; i < 60; i++) loss = words_step(&w);
    ck_assert_uint_eq(dt_memory_of(w.ctx).allocations, allocations);
    ck_assert_double_lt(loss, 0.25); /* log(50) = 3.9 at first */
    int steps = 72;                  /* the state went on where it was */
    TEST_OK(w.ctx, dt_optimizer_visit(w.o, check_slot, &steps));
    TEST_OK(w.ctx, dt_convert(w.m, NULL, NULL));
    dt_tape_reset(w.t);
    TEST_FAILS(w.ctx, DT_ERR_STATE, "converted", dt_optimizer_step(w.o, w.t, 0.02));
    words_close(&w);
}
END_TEST

Suite *test_nets_suite(void)
{
    Suite *s = suite_create("nets");
    TCase *c = tcase_create("families");
    test_golden_names("nets", ".safetensors", &files);
    tcase_add_loop_test(c, first_pass_f64, 0, files.n);
    tcase_add_loop_test(c, first_pass_f32, 0, files.n);
    tcase_add_loop_test(c, steps_f64, 0, files.n);
    tcase_add_loop_test(c, steps_f32, 0, files.n);
    tcase_add_loop_test(c, micro_batches_add_up_by_counted_labels, 0, 2);
    tcase_add_test(c, families_have_known_numbers_of_parameters);
    tcase_add_test(c, families_know_the_shape_of_an_example);
    tcase_add_test(c, every_allocation_may_fail);
    tcase_add_test(c, options_that_do_not_fit_are_refused);
    tcase_add_loop_test(c, wrappers_train_under_every_scheme, DT_SGD, DT_ADAMW + 1);
    suite_add_tcase(s, c);
    return s;
}
