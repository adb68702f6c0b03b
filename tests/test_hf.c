/* Hugging Face folders: golden/hf (logits, losses, gradients and greedy text of checkpoints;
 * unusual folders that load, broken ones that do not), saving, links, damaged settings, exports. */
#include "testing.h"

#include "io/hf/hf.h"

#include <detent/experimental/io.h>
#include <detent/experimental/ops.h>
#include <detent/qat.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static dt_ctx *make_context(void)
{
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    return ctx;
}

static void free_context(dt_ctx *ctx)
{
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}

/* ---- the checkpoints ------------------------------------------------------------------------ */

/* A model and its entry in golden/hf. */
typedef struct trial {
    dt_ctx *ctx;
    dt_module *m;
    dt_file *golden;
    const char *name;
    double tolerance; /* of logits; gradients ten times as much */
} trial;

static dt_tensor *load(const trial *t, const char *name, dt_dtype dtype)
{
    dt_tensor *x;
    TEST_OK(t->ctx, dt_file_load(t->golden, name, dtype, &x));
    return x;
}

/* The largest difference, and the largest value. */
static double gap(const dt_tensor *got, const dt_tensor *want)
{
    const float *a = dt_data(got);
    const double *b = dt_data(want);
    double most = 0, scale = 0;
    ck_assert_int_eq(dt_count(got), dt_count(want));
    for (int64_t i = 0; i < dt_count(got); i++) {
        most = fmax(most, fabs((double)a[i] - b[i]));
        scale = fmax(scale, fabs(b[i]));
        if (isnan(a[i])) return INFINITY;
    }
    return most / scale;
}

static void check_gap(const trial *t, const char *what, const dt_tensor *got, double tolerance)
{
    dt_tensor *want = load(t, what, DT_F64);
    const double found = gap(got, want);
    ck_assert_msg(found <= tolerance, "%s: %s is off by %.2e", t->name, what, found);
    dt_tensor_free(want);
}

/* A copy of a module's input, in float; inputs of other dtypes are left out. */
static dt_tensor *copy_input(void *user, dt_tape *t, dt_module *m, dt_tensor *x)
{
    dt_tensor **to = user;
    int64_t dims[DT_MAX_RANK];
    (void)t;
    if (*to != NULL || dt_dtype_of(x) != DT_F32) return x;
    for (int i = 0; i < dt_rank(x); i++) dims[i] = dt_dim(x, i);
    TEST_OK(dt_module_ctx(m),
            dt_tensor_from(dt_module_ctx(m), DT_F32, dt_rank(x), dims, dt_data(x), to));
    return x;
}

#define LAYERS 2 /* at most */

typedef struct inside {
    dt_tensor *in[LAYERS + 2]; /* of each layer, of the last norm, of the head */
    dt_tensor *routed[LAYERS];
    uint64_t id[2 * LAYERS + 2];
    int layers;
} inside;

static void watch(const trial *t, const char *path, dt_tensor **to, uint64_t *id)
{
    dt_module *m = dt_module_at(t->m, path);
    TEST_OK(t->ctx, dt_hook_add(m, DT_SITE_INPUT, copy_input, to, NULL, id));
}

static void watch_all(const trial *t, inside *s)
{
    char path[64];
    const bool mixed = dt_file_find(t->golden, "router_logits") != NULL;
    *s = (inside){ .layers = dt_file_find(t->golden, "hidden.3") != NULL ? 2 : 1 };
    for (int i = 0; i < s->layers; i++) {
        snprintf(path, sizeof path, "model.layers.%d", i);
        watch(t, path, &s->in[i], &s->id[i]);
        snprintf(path, sizeof path, "model.layers.%d.moe.router", i);
        if (mixed) watch(t, path, &s->routed[i], &s->id[LAYERS + 2 + i]);
    }
    watch(t, "model.norm", &s->in[s->layers], &s->id[s->layers]);
    watch(t, "lm_head", &s->in[s->layers + 1], &s->id[s->layers + 1]);
}

static void unwatch_all(const trial *t, const inside *s)
{
    char path[64];
    for (int i = 0; i < s->layers; i++) {
        snprintf(path, sizeof path, "model.layers.%d", i);
        TEST_OK(t->ctx, dt_unhook(dt_module_at(t->m, path), s->id[i]));
        snprintf(path, sizeof path, "model.layers.%d.moe.router", i);
        if (s->routed[i] != NULL) {
            TEST_OK(t->ctx, dt_unhook(dt_module_at(t->m, path), s->id[LAYERS + 2 + i]));
        }
    }
    for (int i = 0; i < LAYERS; i++) dt_tensor_free(s->routed[i]);
    for (int i = 0; i < LAYERS + 2; i++) dt_tensor_free(s->in[i]);
    TEST_OK(t->ctx, dt_unhook(dt_module_at(t->m, "model.norm"), s->id[s->layers]));
    TEST_OK(t->ctx, dt_unhook(dt_module_at(t->m, "lm_head"), s->id[s->layers + 1]));
}

/* The routers' logits, layer after layer, and how uneven they are. */
static void check_routing(const trial *t, dt_tape *tape, const inside *s)
{
    dt_tensor *logits[LAYERS], *all;
    char path[64];
    for (int i = 0; i < s->layers; i++) {
        snprintf(path, sizeof path, "model.layers.%d.moe.router.weight", i);
        const int64_t width = dt_dim(s->routed[i], -1);
        dt_tensor *rows = dt_reshape(tape, s->routed[i], 2, (const int64_t[]){ -1, width });
        logits[i] = dt_linear(tape, rows, dt_param(t->m, path), NULL);
    }
    ck_assert_int_eq(s->layers, 2);
    all = dt_concat(tape, logits, 2, 0);
    TEST_OK(t->ctx, dt_tape_status(tape));
    check_gap(t, "router_logits", all, t->tolerance);
    dt_load_balance_options o = dt_load_balance_defaults();
    o.top_k = 2;
    dt_tensor *loss = dt_load_balance_loss(tape, all, &o);
    TEST_OK(t->ctx, dt_tape_status(tape));
    check_gap(t, "load_balance", loss, t->tolerance);
}

static void check_inside(const trial *t, dt_tape *tape, const inside *s)
{
    char name[32];
    for (int i = 0; i < s->layers + 2; i++) {
        snprintf(name, sizeof name, "hidden.%d", i);
        check_gap(t, name, s->in[i], t->tolerance);
    }
    if (s->routed[0] != NULL) check_routing(t, tape, s);
}

static void check_logits(const trial *t)
{
    inside s;
    dt_tape *tape;
    dt_tensor *ids = load(t, "ids", DT_I32);
    TEST_OK(t->ctx, dt_tape_create(t->ctx, &tape));
    dt_train(t->m, false);
    watch_all(t, &s);
    dt_tensor *logits = dt_forward(tape, t->m, ids);
    TEST_OK(t->ctx, dt_tape_status(tape));
    check_gap(t, "logits", logits, t->tolerance);
    check_inside(t, tape, &s);
    unwatch_all(t, &s);
    dt_tape_free(tape);
    dt_tensor_free(ids);
}

/* Golden labels have the position of their own token; in detent a position's label is the next
 * token. */
static dt_tensor *shifted_labels(const trial *t)
{
    dt_tensor *labels = load(t, "labels", DT_I32);
    int32_t *v = dt_data_mut(labels);
    const int64_t width = dt_dim(labels, 1);
    for (int64_t i = 0; i < dt_count(labels); i++) {
        v[i] = i % width == width - 1 ? -100 : v[i + 1];
    }
    return labels;
}

/* The parameter with a folder's name; *own is set to the handle of an expert, to be freed. */
static dt_tensor *param_named(const trial *t, const char *name, dt_tensor **own)
{
    static const char *const ours[] = { "gate", "down", "up" };
    char path[TEST_PATH];
    int layer, expert, matrix;
    if (sscanf(name, "model.layers.%d.block_sparse_moe.experts.%d.w%d", &layer, &expert, &matrix) ==
        3) {
        snprintf(path, sizeof path, "model.layers.%d.moe.w_%s.weight", layer, ours[matrix - 1]);
        *own = dt_grouped_expert(dt_param(t->m, path), expert);
        return *own;
    }
    if (strstr(name, ".block_sparse_moe.gate.") != NULL) {
        sscanf(name, "model.layers.%d", &layer);
        snprintf(path, sizeof path, "model.layers.%d.moe.router.weight", layer);
        return dt_param(t->m, path);
    }
    return dt_param(t->m, name);
}

static void check_gradients(const trial *t)
{
    char names[512], what[TEST_PATH];
    const char *listed = dt_file_meta(t->golden, "grads");
    ck_assert_ptr_nonnull(listed);
    snprintf(names, sizeof names, "%s", listed);
    for (char *rest = names, *name; (name = strtok_r(rest, ",", &rest)) != NULL;) {
        dt_tensor *own = NULL;
        const dt_tensor *w = param_named(t, name, &own);
        ck_assert_msg(w != NULL && dt_grad(w) != NULL, "%s: no gradient of %s", t->name, name);
        snprintf(what, sizeof what, "grad.%s", name);
        check_gap(t, what, dt_grad(w), 10 * t->tolerance);
        dt_tensor_free(own);
    }
}

static void check_loss(const trial *t)
{
    dt_tape *tape;
    dt_tensor *ids = load(t, "ids", DT_I32), *labels = shifted_labels(t);
    TEST_OK(t->ctx, dt_tape_create(t->ctx, &tape));
    dt_tensor *logits = dt_forward(tape, t->m, ids);
    dt_tensor *rows = dt_reshape(tape, logits, 2, (const int64_t[]){ dt_count(labels), -1 });
    dt_tensor *of_rows = dt_reshape(tape, labels, 1, (const int64_t[]){ dt_count(labels) });
    dt_tensor *loss = dt_cross_entropy(tape, rows, of_rows, NULL);
    TEST_OK(t->ctx, dt_backward(tape, loss, NULL));
    check_gap(t, "loss", loss, t->tolerance);
    if (t->tolerance < 1e-4) check_gradients(t);
    dt_tape_free(tape);
    dt_tensor_free(ids);
    dt_tensor_free(labels);
}

static int32_t next_token(const trial *t, const int32_t *ids, int64_t n)
{
    dt_tape *tape;
    dt_tensor *x;
    TEST_OK(t->ctx, dt_tensor_create(t->ctx, DT_I32, 2, (const int64_t[]){ 1, n }, &x));
    memcpy(dt_data_mut(x), ids, (size_t)n * sizeof *ids);
    TEST_OK(t->ctx, dt_tape_create(t->ctx, &tape));
    dt_tensor *logits = dt_forward(tape, t->m, x);
    TEST_OK(t->ctx, dt_tape_status(tape));
    const int64_t vocab = dt_dim(logits, 2);
    const float *last = (const float *)dt_data(logits) + (n - 1) * vocab;
    int64_t best = 0;
    for (int64_t i = 1; i < vocab; i++) best = last[i] > last[best] ? i : best;
    dt_tape_free(tape);
    dt_tensor_free(x);
    return (int32_t)best;
}

static void check_greedy(const trial *t)
{
    int32_t ids[128];
    dt_tensor *prompt = load(t, "prompt", DT_I32), *want = load(t, "greedy", DT_I32);
    int64_t n = dt_count(prompt);
    ck_assert_int_le(n + dt_count(want), 128);
    memcpy(ids, dt_data(prompt), (size_t)n * sizeof *ids);
    for (int64_t i = 0; i < dt_count(want); i++) {
        ids[n] = next_token(t, ids, n);
        n++;
    }
    ck_assert_msg(memcmp(ids + dt_count(prompt), dt_data(want), (size_t)dt_count(want) * 4) == 0,
                  "%s: other greedy text", t->name);
    dt_tensor_free(prompt);
    dt_tensor_free(want);
}

static void check_checkpoint(const char *folder, const char *golden, double tolerance)
{
    char path[TEST_PATH];
    trial t = { .ctx = make_context(), .name = folder, .tolerance = tolerance };
    dt_model_info info;
    TEST_OK(t.ctx, dt_hf_load(t.ctx, folder, &t.m, &info));
    snprintf(path, sizeof path, "%s.golden.safetensors", golden);
    TEST_OK(t.ctx, dt_file_open(t.ctx, path, &t.golden));
    check_logits(&t);
    check_loss(&t);
    check_greedy(&t);
    dt_file_close(t.golden);
    dt_model_info_free(t.ctx, &info);
    dt_module_free(t.m);
    free_context(t.ctx);
}

static test_names checkpoints; /* those with reference values beside them */

START_TEST(test_checkpoints)
{
    char folder[TEST_PATH], name[80];
    snprintf(name, sizeof name, "hf/%s", checkpoints.name[_i]);
    if (!test_golden(folder, name)) return;
    check_checkpoint(folder, folder, 1e-5);
    char file[TEST_PATH];
    test_join(file, folder, "model.safetensors");
    if (!test_file_exists(file)) return;
    dt_ctx *ctx = make_context();
    dt_module *m;
    TEST_FAILS(ctx, DT_ERR_FORMAT, "the folder does, with its config.json: give the folder",
               dt_model_load(ctx, file, &m, NULL));
    dt_ctx_free(ctx);
}
END_TEST

/* ---- unusual and broken folders ------------------------------------------------------------- */

static test_names odd;

/* Whether a file of the folder holds a text. */
static bool holds(const char *folder, const char *file, const char *text)
{
    char path[TEST_PATH];
    size_t n;
    test_join(path, folder, file);
    if (!test_file_exists(path)) return false;
    char *bytes = test_read_file(path, &n);
    const size_t m = strlen(text);
    bool found = false;
    for (size_t i = 0; i + m <= n && !found; i++) found = memcmp(bytes + i, text, m) == 0;
    free(bytes);
    return found;
}

/* Folders that differ from `tiny`, or `tiny-tied`, but mean the same. Some weights in float16 are
 * less accurate. */
START_TEST(test_odd)
{
    char folder[TEST_PATH], golden[TEST_PATH], name[80];
    snprintf(name, sizeof name, "hf/odd/%s", odd.name[_i]);
    if (!test_golden(folder, name)) return;
    const bool tied = holds(folder, "config.json", "\"tie_word_embeddings\": true");
    const bool halves = holds(folder, "model.safetensors", "\"F16\"");
    if (!test_golden(golden, tied ? "hf/tiny-tied" : "hf/tiny")) return;
    check_checkpoint(folder, golden, halves ? 2e-3 : 1e-5);
}
END_TEST

/* Whether the error contains the one or two words of golden/hf/index.json. */
static const struct {
    const char *name;
    dt_status status;
    const char *words[2];
} broken[] = {
    { "missing-tensor", DT_ERR_FORMAT, { "missing (model.layers.0.mlp.up_proj.weight)", "" } },
    { "extra-tensor", DT_ERR_FORMAT, { "not of this model", "model.layers.0.self_attn.q_norm" } },
    { "extra-layer", DT_ERR_FORMAT, { "not of this model", "model.layers.1.mlp.up_proj.weight" } },
    { "wrong-shape",
      DT_ERR_FORMAT,
      { "model.layers.0.mlp.down_proj.weight is F32[24,16]", "[16,24]" } },
    { "wrong-vocab", DT_ERR_FORMAT, { "model.embed_tokens.weight is F32[31,16]", "[32,16]" } },
    { "no-head", DT_ERR_FORMAT, { "missing (lm_head.weight)", "" } },
    { "integer-weight", DT_ERR_FORMAT, { "model.layers.0.mlp.up_proj.weight' is I32", "BF16" } },
    { "missing-shard", DT_ERR_FORMAT, { "model-00002-of-00002.safetensors", "index.json" } },
    { "not-in-shard",
      DT_ERR_FORMAT,
      { "'lm_head.weight' is not in its shard", "model-00002-of-00002.safetensors" } },
    { "not-in-index",
      DT_ERR_FORMAT,
      { "model.norm.weight", "not in model.safetensors.index.json" } },
    { "shard-outside", DT_ERR_FORMAT, { "../../tiny/model.safetensors", "must be in the folder" } },
    { "index-not-json", DT_ERR_FORMAT, { "model.safetensors.index.json", "ends" } },
    { "truncated-data", DT_ERR_FORMAT, { "model.safetensors", "beyond" } },
    { "truncated-header", DT_ERR_FORMAT, { "model.safetensors", "header" } },
    { "truncated-length", DT_ERR_FORMAT, { "model.safetensors", "length" } },
    { "empty", DT_ERR_FORMAT, { "model.safetensors", "0 bytes" } },
    { "header-too-long", DT_ERR_FORMAT, { "model.safetensors", "1152921504606846976" } },
    { "header-not-json", DT_ERR_FORMAT, { "model.safetensors", "the header" } },
    { "trailing-bytes", DT_ERR_FORMAT, { "model.safetensors", "end at byte" } },
    { "overlap", DT_ERR_FORMAT, { "model.safetensors", "overlap" } },
    { "hole", DT_ERR_FORMAT, { "model.safetensors", "no tensor" } },
    { "offsets-backward", DT_ERR_FORMAT, { "input_layernorm.weight", "before" } },
    { "size-mismatch", DT_ERR_FORMAT, { "model.layers.0.input_layernorm.weight", "need" } },
    { "huge-shape", DT_ERR_FORMAT, { "model.layers.0.input_layernorm.weight", "too large" } },
    { "bad-dtype", DT_ERR_FORMAT, { "model.layers.0.mlp.down_proj.weight", "F7" } },
    { "duplicate-name", DT_ERR_FORMAT, { "model.layers.0.input_layernorm.weight", "twice" } },
    { "config-missing-key", DT_ERR_FORMAT, { "config.json", "hidden_size" } },
    { "config-not-json", DT_ERR_FORMAT, { "config.json", "" } },
    { "config-wrong-type", DT_ERR_FORMAT, { "config.json", "num_hidden_layers" } },
    { "config-negative", DT_ERR_FORMAT, { "config.json", "num_hidden_layers" } },
    { "kv-not-divisor", DT_ERR_FORMAT, { "num_attention_heads 4", "num_key_value_heads 3" } },
    { "unknown-model", DT_ERR_UNSUPPORTED, { "model_type", "mamba" } },
    { "unknown-rope", DT_ERR_UNSUPPORTED, { "rope_scaling", "spiral" } },
    { "unknown-activation", DT_ERR_UNSUPPORTED, { "hidden_act", "wobble" } },
    { "no-config", DT_ERR_IO, { "config.json", "" } },
    { "no-weights", DT_ERR_IO, { "model.safetensors", "model.safetensors.index.json" } },
    { "tied-head-differs", DT_ERR_FORMAT, { "lm_head.weight", "model.embed_tokens.weight" } },
};

#define BROKEN ((int)(sizeof broken / sizeof broken[0]))

static void check_refused(const char *folder, dt_status status, const char *const words[2])
{
    dt_ctx *ctx = make_context();
    dt_module *m;
    dt_model_info info;
    const dt_status got = dt_model_load(ctx, folder, &m, &info);
    ck_assert_msg(got == status, "%s: %s: %s", folder, dt_status_name(got), dt_error(ctx));
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(strstr(dt_error(ctx), words[i]) != NULL, "no '%s' in: %s", words[i],
                      dt_error(ctx));
    }
    ck_assert_ptr_null(m);
    ck_assert_ptr_null(info.memory);
    free_context(ctx);
}

START_TEST(test_broken)
{
    char folder[TEST_PATH], name[64];
    snprintf(name, sizeof name, "hf/broken/%s", broken[_i].name);
    if (test_golden(folder, name)) check_refused(folder, broken[_i].status, broken[_i].words);
}
END_TEST

/* Also folders that the table does not list. */
START_TEST(every_broken_folder_is_refused)
{
    test_names all;
    test_golden_names("hf/broken", "/", &all);
    ck_assert_int_gt(all.n, 0);
    for (int i = 0; i < all.n; i++) {
        char folder[TEST_PATH], name[80];
        dt_ctx *ctx = make_context();
        dt_module *m;
        dt_model_info info;
        snprintf(name, sizeof name, "hf/broken/%s", all.name[i]);
        ck_assert(test_golden(folder, name));
        const dt_status status = dt_model_load(ctx, folder, &m, &info);
        ck_assert_msg(status != DT_OK && m == NULL && dt_error(ctx)[0] != 0, "%s", all.name[i]);
        free_context(ctx);
    }
}
END_TEST

/* ---- detent.hf ------------------------------------------------------------------------------- */

static const struct {
    const char *text, *words; /* NULL: it is read */
} origins[] = {
    { "{\"config.json\": \"{}\", \"dtype\": \"BF16\", \"tied_head\": true, \"dtypes\": {\"b\": "
      "\"F32\", \"a\": \"F16\"}, \"files\": {\"chat_template.jinja\": \"x\"}}",
      NULL },
    { "{\"config.json\": \"{}\", \"dtype\": \"BF16\", \"dtype\": \"F32\"}",
      "'dtype' occurs twice" },
    { "{\"config.json\": \"{}\", \"config.json\": \"{}\", \"dtype\": \"F32\"}",
      "'config.json' occurs twice" },
    { "{\"dtypes\": {}, \"config.json\": \"{}\", \"dtype\": \"F32\", \"dtypes\": {}}",
      "'dtypes' occurs twice" },
    { "{\"dtypes\": {\"a\": \"F32\", \"b\": \"F16\", \"a\": \"F16\"}}", "'a' occurs twice" },
    { "{\"files\": {\"chat_template.jinja\": \"x\", \"chat_template.jinja\": \"y\"}}",
      "'chat_template.jinja' occurs twice" },
    { "{\"files\": {\"../x\": \"y\"}}", "'../x' is not allowed here" },
    { "{\"dtypes\": {\"a\": \"I8\"}}", "'I8' is not allowed here" },
    { "{\"dtype\": \"I8\"}", "'I8' is not a dtype of such a folder" },
    { "{\"zebra\": 1}", "unknown key 'zebra'" },
    { "{\"dtype\": \"F32\"}", "config.json or dtype is missing" },
    { "{\"config.json\": \"{}\"}", "config.json or dtype is missing" },
    { "[]", "" },
    { "{\"config.json\": 1}", "" },
    { "{\"dtypes\": []}", "" },
    { "{\"dtypes\": {\"a\": 1}}", "" },
    { "{\"tied_head\": 1}", "" },
    { "{\"dtype\": \"F32\" \"dtypes\": {}}", "" },
    { "{\"config.json\": \"{}\", \"dtype\": \"F32\"} {}", "" },
};

START_TEST(test_origins)
{
    dt_ctx *ctx = make_context();
    dt__hf_origin o;
    const dt_status status = dt__hf_origin_read(ctx, origins[_i].text, &o);
    ck_assert_int_eq(status, origins[_i].words == NULL ? DT_OK : DT_ERR_FORMAT);
    if (status == DT_OK) {
        ck_assert_str_eq(dt__hf_dtype_of(&o, "a"), "F16");
        ck_assert_str_eq(dt__hf_dtype_of(&o, "b"), "F32");
        ck_assert_str_eq(dt__hf_dtype_of(&o, "c"), "BF16");
        dt__hf_origin_free(&o);
    } else {
        ck_assert_msg(strstr(dt_error(ctx), origins[_i].words) != NULL, "%s", dt_error(ctx));
    }
    free_context(ctx);
}
END_TEST

/* ---- settings ------------------------------------------------------------------------------- */

/* The config of `tiny` with keys added before its own: of two equal keys the first one counts. */
static void make_folder(char folder[TEST_PATH], const char *config)
{
    char from[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "config.json");
    test_write_text(path, config);
    if (!test_golden(from, "hf/tiny")) return;
    ck_assert_int_eq(test_shell(NULL, "cp %s/model.safetensors %s", from, folder), 0);
}

#define TINY                                                                                       \
    "\"model_type\": \"llama\", \"vocab_size\": 32, \"hidden_size\": 16, \"num_hidden_layers\": "  \
    "1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"intermediate_size\": 24"

static const struct {
    const char *keys; /* after those of tiny */
    dt_status status;
    const char *words[2];
} settings[] = {
    { "", DT_OK, { "", "" } },
    { ", \"sliding_window\": null, \"head_dim\": null, \"rope_scaling\": null", DT_OK, { "", "" } },
    { ", \"quantization_config\": null, \"hidden_act\": null", DT_OK, { "", "" } },
    { ", \"hidden_act\": \"swish\", \"pretraining_tp\": 2", DT_OK, { "", "" } },
    { ", \"sliding_window\": 2048", DT_OK, { "", "" } },
    { ", \"sliding_window\": 2047", DT_ERR_UNSUPPORTED, { "sliding_window 2047", "2048" } },
    { ", \"layer_types\": [\"full_attention\"]", DT_OK, { "", "" } },
    { ", \"layer_types\": [\"full_attention\", \"full_attention\"]",
      DT_ERR_FORMAT,
      { "layer_types", "num_hidden_layers" } },
    { ", \"layer_types\": [\"chunked_attention\"]",
      DT_ERR_FORMAT,
      { "layer_types", "chunked_attention" } },
    { ", \"layer_types\": [\"sliding_attention\"]",
      DT_ERR_UNSUPPORTED,
      { "layer_types", "window" } },
    { ", \"quantization_config\": {\"bits\": 4}",
      DT_ERR_UNSUPPORTED,
      { "quantization_config", "" } },
    { ", \"auto_map\": {}", DT_ERR_UNSUPPORTED, { "auto_map", "" } },
    { ", \"attention_dropout\": 0.1", DT_ERR_UNSUPPORTED, { "attention_dropout", "0.1" } },
    { ", \"partial_rotary_factor\": 0.5", DT_ERR_UNSUPPORTED, { "partial_rotary_factor", "" } },
    { ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}", DT_OK, { "", "" } },
    { ", \"rope_scaling\": {\"type\": \"linear\"}", DT_ERR_FORMAT, { "rope_scaling", "factor" } },
    { ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1}",
      DT_ERR_FORMAT,
      { "rope_scaling", "high_freq_factor" } },
    { ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, "
      "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 64}",
      DT_ERR_UNSUPPORTED,
      { "low_freq_factor 4", "high_freq_factor 4" } },
    { ", \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2, \"beta\": 1}",
      DT_ERR_UNSUPPORTED,
      { "rope_scaling", "beta" } },
    { ", \"rope_scaling\": {\"rope_type\": \"default\", \"type\": \"linear\"}",
      DT_ERR_UNSUPPORTED,
      { "rope_type", "type" } },
    { ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}, \"rope_parameters\": "
      "{\"rope_theta\": 500, \"rope_type\": \"default\"}",
      DT_ERR_UNSUPPORTED,
      { "rope_scaling and rope_parameters", "differ" } },
    { ", \"rope_theta\": 10000, \"rope_parameters\": {\"rope_theta\": 500}",
      DT_ERR_UNSUPPORTED,
      { "rope_theta", "500" } },
    { ", \"rope_theta\": 0", DT_ERR_UNSUPPORTED, { "rope_theta", "above 0" } },
    { ", \"rope_theta\": 1e999", DT_ERR_FORMAT, { "rope_theta", "range of double" } },
    { ", \"rms_norm_eps\": \"1e-5\"", DT_ERR_FORMAT, { "rms_norm_eps", "number" } },
    { ", \"vocab_size\": 32", DT_ERR_FORMAT, { "vocab_size", "twice" } },
    { ", \"max_position_embeddings\": 2048.0", DT_ERR_FORMAT, { "max_position_embeddings", "" } },
    { ", \"head_dim\": 7", DT_ERR_FORMAT, { "", "" } },
    { ", \"head_dim\": 1000000000", DT_ERR_FORMAT, { "", "" } },
    { ", \"attention_bias\": true", DT_ERR_FORMAT, { "missing", "q_proj.bias" } },
    { ", \"attention_bias\": 1", DT_ERR_FORMAT, { "attention_bias", "true or false" } },
    { "} {", DT_ERR_FORMAT, { "config.json", "nothing may follow" } },
    { ", \"a\": [[[[{\"b\": [1e5, \"\\u00e9\", null, true]}]]]]", DT_OK, { "", "" } },
};

#define SETTINGS ((int)(sizeof settings / sizeof settings[0]))

START_TEST(test_settings)
{
    char folder[TEST_PATH], text[2048];
    dt_ctx *ctx = make_context();
    dt_module *m;
    snprintf(text, sizeof text, "{" TINY "%s}\n", settings[_i].keys);
    make_folder(folder, text);
    const dt_status s = dt_hf_load(ctx, folder, &m, NULL);
    ck_assert_msg(s == settings[_i].status, "%s: %s: %s", settings[_i].keys, dt_status_name(s),
                  dt_error(ctx));
    for (int i = 0; i < 2 && s != DT_OK; i++) {
        ck_assert_msg(strstr(dt_error(ctx), settings[_i].words[i]) != NULL, "no '%s' in: %s",
                      settings[_i].words[i], dt_error(ctx));
    }
    dt_module_free(m);
    free_context(ctx);
}
END_TEST

/* Settings that imply more values than the tensors have are an error before memory is allocated. */
START_TEST(test_huge)
{
    static const char *const keys[] = { "vocab_size", "hidden_size", "num_hidden_layers",
                                        "intermediate_size", "num_attention_heads" };
    char folder[TEST_PATH], text[2048], own[64];
    for (int i = 0; i < 5; i++) {
        dt_ctx *ctx = make_context();
        dt_module *m;
        snprintf(text, sizeof text, "{" TINY "}\n");
        snprintf(own, sizeof own, "\"%s\": ", keys[i]);
        char *at = strstr(text, own) + strlen(own), *rest = at + strcspn(at, ",}");
        memmove(at + 10, rest, strlen(rest) + 1);
        memcpy(at, "1000000000", 10);
        make_folder(folder, text);
        const dt_status s = dt_hf_load(ctx, folder, &m, NULL);
        ck_assert_msg(s == DT_ERR_FORMAT, "%s: %s: %s", keys[i], dt_status_name(s), dt_error(ctx));
        ck_assert_uint_lt(dt_memory_of(ctx).peak, (size_t)256 << 20);
        free_context(ctx);
    }
}
END_TEST

/* A file that is longer than any of its kind is not read. */
START_TEST(test_long)
{
    char folder[TEST_PATH];
    dt__hf_text text;
    dt_ctx *ctx = make_context();
    make_folder(folder, "{" TINY "}\n");
    TEST_FAILS(ctx, DT_ERR_FORMAT, "8 are the most that it may have",
               dt__hf_text_read(ctx, folder, "config.json", 8, &text));
    dt__hf_text_free(ctx, &text);
    free_context(ctx);
}
END_TEST

/* ---- damaged files -------------------------------------------------------------------------- */

/* After a change of any byte of config.json the model loads, or there is an error, and no memory
 * leaks. */
START_TEST(test_every_byte)
{
    char from[TEST_PATH], folder[TEST_PATH], path[TEST_PATH];
    size_t size;
    static const char *const files[] = { "config.json", "model.safetensors.index.json" };
    if (!test_golden(from, "hf/odd/two-shards")) return;
    test_folder(folder);
    ck_assert_int_eq(test_shell(NULL, "cp %s/* %s && chmod u+w %s/*", from, folder, folder), 0);
    test_join(path, folder, files[_i]);
    char *text = test_read_file(path, &size);
    dt_ctx *ctx = make_context();
    static const char with[] = { 0, '"', '}', '9', ',', (char)0xff, '/', ' ' };
    for (size_t at = 0; at < size; at++) {
        dt_module *m;
        const char before = text[at];
        text[at] = with[at % sizeof with];
        test_write_file(path, text, size);
        const dt_status s = dt_hf_load(ctx, folder, &m, NULL);
        TEST_EACH(s == DT_OK || s == DT_ERR_FORMAT || s == DT_ERR_UNSUPPORTED || s == DT_ERR_IO,
                  "byte %zu: %s: %s", at, dt_status_name(s), dt_error(ctx));
        dt_module_free(m);
        text[at] = before;
    }
    for (size_t n = 0; n + 2 < size; n++) {
        dt_module *m;
        test_write_file(path, text, n);
        TEST_EACH(dt_hf_load(ctx, folder, &m, NULL) != DT_OK, "%zu bytes are enough", n);
    }
    free(text);
    free_context(ctx);
}
END_TEST

static dt_status load_and_save(dt_ctx *ctx, void *user)
{
    char to[TEST_PATH];
    dt_module *m = NULL;
    dt_model_info info = { .family = NULL };
    test_join(to, user, "new");
    test_remove(to);
    dt_status s = dt_hf_load(ctx, user, &m, &info);
    if (s == DT_OK) s = dt_hf_save(m, &info, NULL, to);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    TEST_EACH((s == DT_OK) == test_file_exists(to), "%s: half a folder", dt_status_name(s));
    return s;
}

START_TEST(test_memory_fails)
{
    char from[TEST_PATH], folder[TEST_PATH];
    if (!test_golden(from, "hf/odd/two-shards")) return;
    test_folder(folder);
    ck_assert_int_eq(test_shell(NULL, "cp %s/* %s", from, folder), 0);
    ck_assert_int_gt(test_every_allocation(load_and_save, folder), 100);
    test_join(from, folder, "new");
    test_remove(from);
    ck_assert_int_eq(test_shell(NULL, "test $(ls -A %s | wc -l) = 4", folder), 0);
}
END_TEST

/* ---- links ---------------------------------------------------------------------------------- */

/* Links are followed within the folder, and into the blobs of the cache it belongs to. */
START_TEST(test_links)
{
    char from[TEST_PATH], folder[TEST_PATH];
    if (!test_golden(from, "hf/odd/two-shards")) return;
    test_folder(folder);
    ck_assert_int_eq(
        test_shell(NULL,
                   "cd %s && mkdir -p cache/blobs cache/snapshots/1 other in evil && cp %s/* "
                   "cache/blobs && cp %s/* other && for f in cache/blobs/*; do ln -s "
                   "../../blobs/${f##*/} cache/snapshots/1/${f##*/}; done && cp %s/* in && mv "
                   "in/config.json in/real && ln -s real in/config.json && cp %s/* evil && rm -f "
                   "evil/model-00002* && ln -s ../other/model-00002-of-00002.safetensors evil/",
                   folder, from, from, from, from),
        0);
    dt_ctx *ctx = make_context();
    static const char *const good[] = { "cache/snapshots/1", "cache/snapshots/1/", "in", "other" };
    char path[TEST_PATH];
    dt_module *m;
    for (int i = 0; i < 4; i++) {
        test_join(path, folder, good[i]);
        TEST_OK(ctx, dt_hf_load(ctx, path, &m, NULL));
        dt_module_free(m);
    }
    test_join(path, folder, "evil");
    TEST_FAILS(ctx, DT_ERR_FORMAT, "out of the folder", dt_hf_load(ctx, path, &m, NULL));
    test_join(path, folder, "none");
    TEST_FAILS(ctx, DT_ERR_IO, "not a folder", dt_hf_load(ctx, path, &m, NULL));
    free_context(ctx);
}
END_TEST

/* With both a single file and shards, the single file is read, with a message. */
static void note_line(void *user, const char *line) { snprintf(user, 256, "%s", line); }

START_TEST(test_both)
{
    char from[TEST_PATH], folder[TEST_PATH], said[256] = "";
    dt_ctx *ctx;
    dt_module *m;
    if (!test_golden(from, "hf/odd/two-shards")) return;
    test_folder(folder);
    ck_assert_int_eq(test_shell(NULL,
                                "cp %s/* %s/../../tiny/model.safetensors %s && rm -f %s/*-of-*",
                                from, from, folder, folder),
                     0);
    const dt_ctx_options options = { .log = note_line, .log_user = said };
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    TEST_OK(ctx, dt_hf_load(ctx, folder, &m, NULL));
    ck_assert_ptr_nonnull(strstr(said, "model.safetensors.index.json is not"));
    dt_module_free(m);
    free_context(ctx);
}
END_TEST

/* ---- saving --------------------------------------------------------------------------------- */

static void check_same_tensors(dt_ctx *ctx, const char *a, const char *b)
{
    dt_file *file[2];
    TEST_OK(ctx, dt_file_open(ctx, a, &file[0]));
    TEST_OK(ctx, dt_file_open(ctx, b, &file[1]));
    ck_assert_int_eq(dt_file_count(file[0]), dt_file_count(file[1]));
    for (int64_t i = 0; i < dt_file_count(file[0]); i++) {
        const dt_file_entry *x = dt_file_at(file[0], i), *y = dt_file_find(file[1], x->name);
        TEST_EACH(y != NULL && strcmp(x->dtype, y->dtype) == 0 && x->bytes == y->bytes &&
                      memcmp(x->data, y->data, x->bytes) == 0,
                  "%s: '%s' has other bytes", a, x->name);
    }
    dt_file_close(file[0]);
    dt_file_close(file[1]);
}

/* Loaded, saved as a model file, loaded and saved again as a folder: tensors and texts stay. */
static void check_round_trip(const char *folder)
{
    char own[TEST_PATH], file[TEST_PATH], to[TEST_PATH];
    dt_ctx *ctx = make_context();
    dt_module *m;
    dt_model_info info;
    test_folder(own);
    test_join(file, own, "model.safetensors");
    test_join(to, own, "hf");
    TEST_OK(ctx, dt_hf_load(ctx, folder, &m, &info));
    TEST_OK(ctx, dt_model_save(m, &info, file));
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    TEST_OK(ctx, dt_model_load(ctx, file, &m, &info));
    TEST_OK(ctx, dt_hf_save(m, &info, NULL, to));
    check_same_tensors(ctx, folder, to);
    ck_assert_int_eq(test_shell(NULL, "cmp %s/config.json %s/config.json", folder, to), 0);
    ck_assert_int_eq(test_shell(NULL,
                                "! test -e %s/generation_config.json || cmp "
                                "%s/generation_config.json %s/generation_config.json",
                                folder, folder, to),
                     0);
    TEST_FAILS(ctx, DT_ERR_IO, "not empty", dt_hf_save(m, &info, NULL, to));
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    free_context(ctx);
}

START_TEST(test_round_trips)
{
    char folder[TEST_PATH], name[80];
    const bool first = _i < checkpoints.n;
    snprintf(name, sizeof name, first ? "hf/%s" : "hf/odd/%s",
             first ? checkpoints.name[_i] : odd.name[_i - checkpoints.n]);
    if (test_golden(folder, name)) check_round_trip(folder);
}
END_TEST

/* Every class of models is written as one that loads again with the same options. */
START_TEST(test_new_config)
{
    static const dt_llama_options plain = { .vocab = 11,
                                            .context = 32,
                                            .layers = 2,
                                            .heads = 4,
                                            .width = 16,
                                            .hidden = 24,
                                            .theta = 500,
                                            .eps = 1e-6,
                                            .rope = { .factor = 1,
                                                      .low_freq_factor = 1,
                                                      .high_freq_factor = 4,
                                                      .original_context = 8192 } };
    dt_llama_options o = plain;
    if (_i == 1) o.qkv_bias = true;
    if (_i == 2) o.qk_norm = o.tied = true;
    if (_i == 3) o.qkv_bias = o.out_bias = o.mlp_bias = true;
    if (_i == 4) o.rope = (dt_rope_options){ DT_ROPE_LLAMA3, 8, 1, 4, 64 };
    if (_i == 5) o.rope = (dt_rope_options){ DT_ROPE_LINEAR, 2, 1, 4, 8192 };
    if (_i == 6) o.out_bias = true;
    char own[TEST_PATH], to[TEST_PATH], file[TEST_PATH];
    dt_ctx *ctx = make_context();
    dt_module *m, *again;
    dt_model_info info = { .options = &o }, said;
    for (int i = 0; (info.family = dt_family_at(i)) != NULL; i++) {
        if (strcmp(info.family->name, "llama") == 0) break;
    }
    test_folder(own);
    test_join(to, own, "hf");
    test_join(file, own, "float.safetensors");
    TEST_OK(ctx, dt_llama_create(ctx, &o, &m));
    if (_i == 6) {
        TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, "out_bias", dt_hf_save(m, &info, NULL, to));
        ck_assert_int_eq(test_shell(NULL, "test -z \"$(ls -A %s)\"", own), 0);
    } else {
        TEST_OK(ctx, dt_hf_save(m, &info, &(dt_hf_options){ .dtype = DT_HF_F32 }, to));
        TEST_OK(ctx, dt_model_save(m, &info, file));
        TEST_OK(ctx, dt_hf_load(ctx, to, &again, &said));
        const dt_llama_options *got = said.options;
        o.kv_heads = o.heads;
        o.head_width = o.width / o.heads;
        ck_assert_int_eq(got->kv_heads, 4);
        ck_assert_int_eq(got->head_width, 4);
        ck_assert(got->qkv_bias == o.qkv_bias && got->out_bias == o.out_bias);
        ck_assert(got->mlp_bias == o.mlp_bias && got->qk_norm == o.qk_norm && got->tied == o.tied);
        ck_assert(got->rope.scaling == o.rope.scaling && got->rope.factor == o.rope.factor);
        ck_assert(got->theta == 500 && got->eps == 1e-6 && got->context == 32);
        check_same_tensors(ctx, file, to);
        dt_model_info_free(ctx, &said);
        dt_module_free(again);
    }
    dt_module_free(m);
    free_context(ctx);
}
END_TEST

/* To nearest, ties to even, as the reference rounds. */
static void check_halves(dt_ctx *ctx, const dt_file *golden, int dtype, const char *name)
{
    char own[TEST_PATH], to[TEST_PATH];
    dt_module *m;
    dt_tensor *values;
    dt_file *file;
    TEST_OK(ctx, dt_file_load(golden, "f32", DT_F32, &values));
    float *x = dt_data_mut(values);
    const int64_t n = dt_count(values);
    dt_llama_options o = { .vocab = n,
                           .context = 8,
                           .layers = 1,
                           .heads = 1,
                           .width = 2,
                           .hidden = 2,
                           .tied = true,
                           .theta = 500,
                           .eps = 1e-6,
                           .rope = { DT_ROPE_PLAIN, 1, 1, 4, 8192 } };
    dt_model_info info = { .options = &o };
    for (int i = 0; (info.family = dt_family_at(i)) != NULL; i++) {
        if (strcmp(info.family->name, "llama") == 0) break;
    }
    const dt_file_entry *want = dt_file_find(golden, name);
    TEST_OK(ctx, dt_llama_create(ctx, &o, &m));
    float *w = dt_data_mut(dt_param(m, "model.embed_tokens.weight"));
    const uint16_t *half = want->data;
    for (int64_t i = 0; i < n; i++) { /* finite ones that become infinite are refused */
        uint16_t h;
        memcpy(&h, half + i, sizeof h);
        const bool infinite = dtype == DT_HF_F16 ? (h & 0x7fff) == 0x7c00 : (h & 0x7fff) == 0x7f80;
        w[2 * i] = w[2 * i + 1] = infinite && !isinf(x[i]) ? 0 : x[i];
    }
    test_folder(own);
    test_join(to, own, "hf");
    TEST_OK(ctx, dt_hf_save(m, &info, &(dt_hf_options){ .dtype = dtype }, to));
    TEST_OK(ctx, dt_file_open(ctx, to, &file));
    const dt_file_entry *got = dt_file_find(file, "model.embed_tokens.weight");
    for (int64_t i = 0; i < n; i++) {
        uint16_t a, b;
        memcpy(&a, (const char *)got->data + 4 * i, sizeof a);
        memcpy(&b, half + i, sizeof b);
        if (w[2 * i] == 0 && x[i] != 0) continue;
        TEST_EACH(a == b || isnan(x[i]), "%s of %g: %04x, not %04x", name, (double)x[i], a, b);
    }
    w[0] = dtype == DT_HF_F16 ? 70000.0f : 3.4028235e38f;
    test_join(to, own, "beyond");
    TEST_FAILS(ctx, DT_ERR_NUMERIC, "model.embed_tokens.weight",
               dt_hf_save(m, &info, &(dt_hf_options){ .dtype = dtype }, to));
    ck_assert(!test_file_exists(to));
    dt_file_close(file);
    dt_tensor_free(values);
    dt_module_free(m);
}

START_TEST(test_halves)
{
    char path[TEST_PATH];
    dt_file *golden;
    if (!test_golden(path, "hf/halves.safetensors")) return;
    dt_ctx *ctx = make_context();
    TEST_OK(ctx, dt_file_open(ctx, path, &golden));
    check_halves(ctx, golden, DT_HF_F16, "f16");
    check_halves(ctx, golden, DT_HF_BF16, "bf16");
    dt_file_close(golden);
    free_context(ctx);
}
END_TEST

/* ---- quantized models ----------------------------------------------------------------------- */

START_TEST(test_quantized)
{
    char folder[TEST_PATH], own[TEST_PATH], to[TEST_PATH], file[TEST_PATH];
    dt_module *m;
    dt_model_info info;
    if (!test_golden(folder, "hf/tiny")) return;
    dt_ctx *ctx = make_context();
    test_folder(own);
    TEST_OK(ctx, dt_hf_load(ctx, folder, &m, &info));
    dt_qat_options qat = dt_qat_defaults();
    qat.weight.quant.group_size = 8;
    qat.weight.has_group_size = true;
    TEST_OK(ctx, dt_prepare(m, &qat));
    test_join(to, own, "masters");
    TEST_OK(ctx, dt_hf_save(m, &info, NULL, to));
    check_same_tensors(ctx, folder, to);
    test_join(to, own, "images");
    TEST_OK(ctx, dt_hf_save(m, &info, &(dt_hf_options){ .dequantize = true }, to));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    test_join(file, own, "integers"); /* which has values of integers alone */
    TEST_OK(ctx, dt_hf_save(m, &info, NULL, file));
    check_same_tensors(ctx, to, file);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    free_context(ctx);
}
END_TEST

/* ---- the program ---------------------------------------------------------------------------- */

#define DETENT DETENT_BINARY_DIR "/detent"

/* Options that a recipe leaves out come from the folder; options that it gives must equal the
 * folder's. */
START_TEST(test_recipe)
{
    char folder[TEST_PATH], own[TEST_PATH], path[TEST_PATH], text[3 * TEST_PATH], *said;
    if (!test_golden(folder, "hf/tiny")) return;
    test_folder(own);
    test_join(path, own, "r.yaml");
    snprintf(text, sizeof text,
             "run: {dir: %s/run}\nmodel: {family: llama, init: %s}\ndata: {format: digits}\n"
             "train: {epochs: 1}\n",
             own, folder);
    test_write_text(path, text);
    ck_assert_int_eq(test_shell(&said, DETENT " config show %s", path), 0);
    ck_assert_ptr_nonnull(strstr(said, "kv_heads: 1 "));
    ck_assert_ptr_nonnull(strstr(said, "theta: 500 "));
    ck_assert_ptr_nonnull(strstr(said, "# model.init"));
    free(said);
    ck_assert_int_eq(
        test_shell(&said, DETENT " config show %s model.heads=4 model.eps=1e-5 2>&1", path), 2);
    ck_assert_ptr_nonnull(strstr(said, "'model.heads' is 4, but it is 2 in"));
    ck_assert_ptr_null(strstr(said, "'model.eps'"));
    free(said);
    ck_assert_int_eq(test_shell(&said, DETENT " config show %s model.init=%s/none 2>&1", path, own),
                     2);
    ck_assert_ptr_nonnull(strstr(said, "no such file"));
    ck_assert_ptr_null(strstr(said, "missing key"));
    free(said);
    ck_assert_int_eq(test_shell(&said, DETENT " config show %s model.init=%s 2>&1", path, own), 2);
    ck_assert_ptr_nonnull(strstr(said, "config.json"));
    free(said);
}
END_TEST

START_TEST(test_commands)
{
    char folder[TEST_PATH], own[TEST_PATH], *said;
    if (!test_golden(folder, "hf/odd/two-shards")) return;
    test_folder(own);
    ck_assert_int_eq(test_shell(&said, DETENT " inspect %s 2>&1", folder), 0);
    ck_assert_ptr_nonnull(strstr(said, "model.layers.0.self_attn.q_proj.weight"));
    free(said);
    ck_assert_int_eq(test_shell(NULL, DETENT " check %s > /dev/null", folder), 0);
    ck_assert_int_eq(
        test_shell(&said, DETENT " export %s --format hf -o %s/a --dtype bf16 2>&1", folder, own),
        0);
    free(said);
    ck_assert_int_eq(test_shell(NULL, "grep -q '\"dtype\": \"bfloat16\"' %s/a/config.json", own),
                     0);
    ck_assert_int_eq(test_shell(&said, DETENT " export %s --format hf -o %s/a 2>&1", folder, own),
                     4);
    ck_assert_ptr_nonnull(strstr(said, "not empty"));
    free(said);
    ck_assert_int_eq(
        test_shell(&said, DETENT " export %s --format gguff -o %s/b 2>&1", folder, own), 2);
    ck_assert_ptr_nonnull(strstr(said, "hf"));
    free(said);
    ck_assert_int_eq(test_shell(&said,
                                DETENT " eval %s data.format=text data.test=[%s/config.json] "
                                       "data.tokenizer=bytes data.context=4 2>&1",
                                folder, folder),
                     4);
    ck_assert_ptr_nonnull(strstr(said, "of a vocabulary of 32, but the data have 4 of 256"));
    free(said);
    ck_assert_int_eq(test_shell(&said, DETENT " convert %s -o %s/b 2>&1", folder, own), 4);
    ck_assert_ptr_nonnull(strstr(said, "a float model"));
    free(said);
}
END_TEST

Suite *test_hf_suite(void)
{
    Suite *s = suite_create("hf");
    TCase *c = tcase_create("hf");
    tcase_set_timeout(c, 240);
    test_golden_names("hf", ".golden.safetensors", &checkpoints);
    test_golden_names("hf/odd", "/", &odd);
    tcase_add_loop_test(c, test_checkpoints, 0, checkpoints.n);
    tcase_add_loop_test(c, test_odd, 0, odd.n);
    tcase_add_loop_test(c, test_broken, 0, BROKEN);
    tcase_add_test(c, every_broken_folder_is_refused);
    tcase_add_loop_test(c, test_origins, 0, (int)(sizeof origins / sizeof origins[0]));
    tcase_add_loop_test(c, test_settings, 0, SETTINGS);
    tcase_add_test(c, test_huge);
    tcase_add_test(c, test_long);
    tcase_add_loop_test(c, test_every_byte, 0, 2);
    tcase_add_test(c, test_memory_fails);
    tcase_add_test(c, test_links);
    tcase_add_test(c, test_both);
    tcase_add_loop_test(c, test_round_trips, 0, checkpoints.n + odd.n);
    tcase_add_loop_test(c, test_new_config, 0, 7);
    tcase_add_test(c, test_halves);
    tcase_add_test(c, test_quantized);
    tcase_add_test(c, test_recipe);
    tcase_add_test(c, test_commands);
    suite_add_tcase(s, c);
    return s;
}
