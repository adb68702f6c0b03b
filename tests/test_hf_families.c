/* Folders of model classes beside Llama's (scripts/golden-families): logits, loss, gradients and
 * greedy text are transformers'; saved tensors have their bytes; prepared = converted = loaded;
 * adapters; exports write them or refuse them by name. */
#include "models.h"
#include "testing.h"

#include "io/model/model.h"

#include <detent/experimental/export.h>
#include <detent/experimental/io.h>
#include <detent/experimental/ops.h>
#include <detent/experimental/qat.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const names[] = { "gpt2",   "gpt2-untied", "phi3",   "olmo2",     "smollm3",
                                     "gemma3", "phi3-window", "pythia", "phi3-long", "mistral" };

enum { LONG = 8 }; /* an index */

#define NAMES ((int)(sizeof names / sizeof *names))

/* A model and its reference values. */
typedef struct trial {
    dt_ctx *ctx;
    dt_module *m;
    dt_model_info info;
    dt_file *golden;
    char folder[TEST_PATH];
} trial;

static bool open_trial(trial *t, int i)
{
    char path[TEST_PATH + 32], name[64];
    *t = (trial){ .ctx = NULL };
    snprintf(name, sizeof name, "hf/families/%s", names[i]);
    if (!test_golden(t->folder, name)) return false;
    ck_assert_int_eq(dt_ctx_create(&t->ctx, NULL), DT_OK);
    TEST_OK(t->ctx, dt_hf_load(t->ctx, t->folder, &t->m, &t->info));
    snprintf(path, sizeof path, "%s.golden.safetensors", t->folder);
    TEST_OK(t->ctx, dt_file_open(t->ctx, path, &t->golden));
    return true;
}

static void close_trial(trial *t)
{
    dt_file_close(t->golden);
    dt_model_info_free(t->ctx, &t->info);
    dt_module_free(t->m);
    ck_assert_uint_eq(dt_memory_of(t->ctx).used, 0);
    dt_ctx_free(t->ctx);
}

static dt_tensor *load(const trial *t, const char *name, dt_dtype dtype)
{
    dt_tensor *x;
    TEST_OK(t->ctx, dt_file_load(t->golden, name, dtype, &x));
    return x;
}

/* The largest difference from a reference, as a share of its largest value. */
static double gap(const trial *t, const char *name, const dt_tensor *got)
{
    dt_tensor *want = load(t, name, DT_F64);
    const float *a = dt_data(got);
    const double *b = dt_data(want);
    double most = 0, scale = 0;
    ck_assert_int_eq(dt_count(got), dt_count(want));
    for (int64_t i = 0; i < dt_count(got); i++) {
        const double d = fabs((double)a[i] - b[i]);
        most = d > most || isnan(d) ? d : most;
        scale = fmax(scale, fabs(b[i]));
    }
    dt_tensor_free(want);
    return most / scale;
}

#define TOLERANCE 1e-5 /* of logits; of gradients ten times as much */

static double check_gradients(const trial *t)
{
    char listed[1024], what[TEST_PATH];
    double most = 0;
    snprintf(listed, sizeof listed, "%s", dt_file_meta(t->golden, "grads"));
    for (char *rest = listed, *name; (name = strtok_r(rest, ",", &rest)) != NULL;) {
        const dt_tensor *w = dt_param(t->m, name);
        ck_assert_msg(w != NULL && dt_grad(w) != NULL, "no gradient of %s", name);
        snprintf(what, sizeof what, "grad.%s", name);
        const double found = gap(t, what, dt_grad(w));
        ck_assert_msg(found <= 10 * TOLERANCE, "%s is off by %.2e", what, found);
        most = fmax(most, found);
    }
    return most;
}

START_TEST(computes_what_transformers_does)
{
    trial t;
    dt_tape *tape;
    if (!open_trial(&t, _i)) return;
    dt_tensor *ids = load(&t, "ids", DT_I32), *labels = load(&t, "labels", DT_I32);
    TEST_OK(t.ctx, dt_tape_create(t.ctx, &tape));
    dt_tensor *logits = dt_forward(tape, t.m, ids);
    dt_tensor *rows = dt_reshape(tape, logits, 2, (const int64_t[]){ dt_count(ids), -1 });
    dt_tensor *flat = dt_reshape(tape, labels, 1, (const int64_t[]){ dt_count(ids) });
    dt_tensor *loss = dt_cross_entropy(tape, rows, flat, NULL);
    TEST_OK(t.ctx, dt_backward(tape, loss, NULL));
    const double of_logits = gap(&t, "logits", logits), of_loss = gap(&t, "loss", loss);
    ck_assert_msg(of_logits <= TOLERANCE, "logits are off by %.2e", of_logits);
    ck_assert_msg(of_loss <= TOLERANCE, "the loss is off by %.2e", of_loss);
    const double of_gradients = check_gradients(&t);
    printf("hf_families: %s: logits %.1e, loss %.1e, gradients %.1e\n", names[_i], of_logits,
           of_loss, of_gradients);
    dt_tape_free(tape);
    dt_tensor_free(ids);
    dt_tensor_free(labels);
    close_trial(&t);
}
END_TEST

/* In texts up to the original context, with the other factors. */
START_TEST(short_texts_have_short_factors)
{
    trial t;
    dt_tape *tape;
    dt_tensor *part;
    if (!open_trial(&t, LONG)) return;
    dt_tensor *ids = load(&t, "ids", DT_I32), *want = load(&t, "short_logits", DT_F64);
    TEST_OK(t.ctx, dt_tape_create(t.ctx, &tape));
    TEST_OK(t.ctx, dt_tensor_narrow(ids, 1, 0, dt_dim(want, 1), &part));
    const double found = gap(&t, "short_logits", dt_forward(tape, t.m, part));
    ck_assert_msg(found <= TOLERANCE, "logits are off by %.2e", found);
    printf("hf_families: %s: logits of short texts %.1e\n", names[LONG], found);
    dt_tape_free(tape);
    dt_tensor_free(part);
    dt_tensor_free(ids);
    dt_tensor_free(want);
    close_trial(&t);
}
END_TEST

static int32_t best_of(const dt_tensor *logits)
{
    const float *v = dt_data(logits);
    int64_t best = 0;
    for (int64_t i = 1; i < dt_count(logits); i++) best = v[i] > v[best] ? i : best;
    return (int32_t)best;
}

/* By a decoder, with its cache. */
START_TEST(greedy_text_is_transformers_s)
{
    trial t;
    dt_decoder *d;
    dt_tensor *logits;
    if (!open_trial(&t, _i)) return;
    dt_tensor *prompt = load(&t, "prompt", DT_I32), *want = load(&t, "greedy", DT_I32);
    const int32_t *right = dt_data(want);
    TEST_OK(t.ctx, dt_decoder_create(t.m, NULL, &d));
    TEST_OK(t.ctx, dt_decoder_feed(d, dt_data(prompt), dt_count(prompt), &logits));
    for (int64_t i = 0; i < dt_count(want); i++) {
        const int32_t id = best_of(logits);
        ck_assert_msg(id == right[i], "token %lld is %d, not %d", (long long)i, id, right[i]);
        TEST_OK(t.ctx, dt_decoder_feed(d, &id, 1, &logits));
    }
    dt_decoder_free(d);
    dt_tensor_free(prompt);
    dt_tensor_free(want);
    close_trial(&t);
}
END_TEST

/* The raw tensors of two files, not as detent names them. */
static void check_same_files(dt_ctx *ctx, const char *a, const char *b)
{
    char path[2][TEST_PATH];
    dt_file *file[2];
    const char *const folder[] = { a, b };
    for (int i = 0; i < 2; i++) {
        test_join(path[i], folder[i], "model.safetensors");
        TEST_OK(ctx, dt_file_open(ctx, path[i], &file[i]));
    }
    ck_assert_int_eq(dt_file_count(file[0]), dt_file_count(file[1]));
    for (int64_t i = 0; i < dt_file_count(file[0]); i++) {
        const dt_file_entry *x = dt_file_at(file[0], i), *y = dt_file_find(file[1], x->name);
        ck_assert_msg(y != NULL && x->rank == y->rank && x->bytes == y->bytes &&
                          memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims) == 0 &&
                          memcmp(x->data, y->data, x->bytes) == 0,
                      "'%s' has other bytes", x->name);
    }
    for (int i = 0; i < 2; i++) dt_file_close(file[i]);
}

static void logits_of(const trial *t, dt_module *m, float *to)
{
    dt_tape *tape;
    dt_tensor *ids = load(t, "ids", DT_I32);
    TEST_OK(t->ctx, dt_tape_create(t->ctx, &tape));
    dt_train(m, false);
    dt_no_grad(tape, true);
    dt_tensor *logits = dt_forward(tape, m, ids);
    TEST_OK(t->ctx, dt_tape_status(tape));
    memcpy(to, dt_data(logits), (size_t)dt_count(logits) * sizeof *to);
    dt_tape_free(tape);
    dt_tensor_free(ids);
}

#define LOGITS (2 * 24 * 61)

START_TEST(saved_folders_have_the_same_bytes)
{
    trial t;
    char own[TEST_PATH], file[TEST_PATH], to[TEST_PATH], other[TEST_PATH];
    dt_module *m;
    dt_model_info info;
    if (!open_trial(&t, _i)) return;
    test_folder(own);
    test_join(file, own, "model.safetensors");
    test_join(to, own, "hf");
    test_join(other, own, "new");
    TEST_OK(t.ctx, dt_model_save(t.m, &t.info, file));
    TEST_OK(t.ctx, dt_model_load(t.ctx, file, &m, &info));
    TEST_OK(t.ctx, dt_hf_save(m, &info, NULL, to));
    check_same_files(t.ctx, t.folder, to);
    ck_assert_int_eq(test_shell(NULL, "cmp %s/config.json %s/config.json", t.folder, to), 0);
    info.hf = NULL; /* a config.json of our own; Phi-3's blocks are Llama's, or a Mistral's */
    TEST_OK(t.ctx, dt_hf_save(m, &info, NULL, other));
    const bool other_class = strcmp(names[_i], "phi3") == 0 || strcmp(names[_i], "mistral") == 0;
    if (!other_class) check_same_files(t.ctx, t.folder, other);
    dt_model_info_free(t.ctx, &info);
    dt_module_free(m);
    TEST_OK(t.ctx, dt_hf_load(t.ctx, other, &m, NULL));
    static float y[2][LOGITS];
    logits_of(&t, t.m, y[0]);
    logits_of(&t, m, y[1]);
    ck_assert(memcmp(y[0], y[1], sizeof y[0]) == 0);
    dt_module_free(m);
    close_trial(&t);
}
END_TEST

static void prepare(const trial *t, int preset)
{
    dt_qat_options qat = dt_qat_defaults();
    qat.preset = preset;
    qat.weight.has_group_size = true;
    qat.weight.quant.group_size = 8;
    TEST_OK(t->ctx, dt_prepare(t->m, &qat));
}

static dt_status fill_b(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    int64_t *n = user;
    (void)kind;
    if (strstr(path, "lora_b") == NULL) return DT_OK;
    ++*n;
    return dt_fill(x, 0.01);
}

/* With adapters whose B is not 0. */
static void add_adapters(const trial *t)
{
    dt_lora_options lora = dt_lora_defaults();
    lora.rank = 2;
    TEST_OK(t->ctx, dt_lora_add(t->m, &lora));
    int64_t n = 0;
    TEST_OK(t->ctx, dt_module_visit(t->m, fill_b, &n));
    ck_assert_int_ge(n, 12);
}

static const int presets[] = { DT_INT8_DYNAMIC_INT4_WEIGHT, DT_INT4_WEIGHT };

START_TEST(prepared_is_converted_is_loaded)
{
    static float y[3][LOGITS];
    trial t;
    char own[TEST_PATH], file[TEST_PATH];
    dt_module *m;
    if (!open_trial(&t, _i / 2)) return;
    if (_i % 2 == 0) add_adapters(&t);
    prepare(&t, presets[_i % 2]);
    test_folder(own);
    test_join(file, own, "model.safetensors");
    logits_of(&t, t.m, y[0]);
    TEST_OK(t.ctx, dt_convert(t.m, NULL, NULL));
    logits_of(&t, t.m, y[1]);
    TEST_OK(t.ctx, dt_model_save(t.m, &t.info, file));
    TEST_OK(t.ctx, dt_model_load(t.ctx, file, &m, NULL));
    logits_of(&t, m, y[2]);
    for (int i = 1; i < 3; i++) ck_assert(memcmp(y[0], y[i], sizeof y[0]) == 0);
    dt_module_free(m);
    close_trial(&t);
}
END_TEST

/* Exports a model described by t->info with the weights of t->m. */
static void export_onnx(const trial *t, const dt_export_options *o, const char *path)
{
    dt_module *m;
    dt_export_difference d[DT_MAX_OUT];
    int n;
    TEST_OK(t->ctx, t->info.family->create(t->ctx, t->info.options, &m));
    TEST_OK(t->ctx, dt_module_copy_state(m, t->m));
    TEST_OK(t->ctx, dt_export(m, &t->info, "onnx", o, path, NULL));
    TEST_OK(t->ctx, dt_export_verify(m, &t->info, path, d, &n));
    ck_assert(n == 1 && d[0].relative < 1e-5);
    dt_module_free(m);
}

/* What keeps these models out of llama.cpp; NULL: nothing does. */
static const char *const no_gguf[NAMES] = {
    [4] = "block.unrotated 2: in llama.cpp's SmolLM3 it is 4",
    [5] = "block.query_width 12: in llama.cpp's Gemma 3 it is 8",
    [6] = "windows of Gemma 3 alone",
    [9] = "windows of Gemma 3 alone",
};

/* C and ONNX support every class, and ONNX computes the same; a format that lacks the class refuses
 * it by name. */
START_TEST(exports_write_or_refuse)
{
    trial t;
    char own[TEST_PATH], path[TEST_PATH];
    dt_export_options o = dt_export_defaults();
    if (!open_trial(&t, _i)) return;
    test_folder(own);
    test_join(path, own, "c");
    if (_i == LONG) {
        TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, "--context 16 is the most",
                   dt_export(t.m, &t.info, "c", &o, path, NULL));
        o.context = 16;
    }
    TEST_OK(t.ctx, dt_export(t.m, &t.info, "c", &o, path, NULL));
    o.context = 0;
    test_join(path, own, "model.onnx");
    if (_i == LONG) {
        TEST_FAILS(t.ctx, DT_ERR_UNSUPPORTED, "longrope takes other divisors in texts of more",
                   dt_export(t.m, &t.info, "onnx", &o, path, NULL));
        dt_llama_options *shorter = (dt_llama_options *)(uintptr_t)t.info.options;
        shorter->context = 16;
        shorter->longrope.attention_factor = 1.2;
    }
    export_onnx(&t, &o, path);
    test_join(path, own, "model.gguf");
    const dt_status s = dt_export(t.m, &t.info, "gguf", &o, path, NULL);
    if (no_gguf[_i] == NULL) {
        ck_assert_msg(s == DT_OK, "%s", dt_error(t.ctx));
    } else {
        ck_assert_int_eq(s, DT_ERR_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(dt_error(t.ctx), no_gguf[_i]));
    }
    close_trial(&t);
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------ */

static const struct {
    const char *name, *from, *to;
    dt_status status;
    const char *message;
} edits[] = {
    { "gpt2", "\"gelu_new\"", "\"relu\"", DT_ERR_UNSUPPORTED, "activation_function 'relu'" },
    { "gpt2", "\"scale_attn_weights\": true", "\"scale_attn_weights\": false", DT_ERR_UNSUPPORTED,
      "scale_attn_weights" },
    { "gpt2", "\"n_head\": 4", "\"n_head\": 5", DT_ERR_FORMAT, "n_embd 32 is not a multiple" },
    { "gpt2", "\"n_embd\": 32", "\"n_embd\": 16", DT_ERR_FORMAT, "c_attn" },
    { "gpt2", "\"attn_pdrop\": 0.1", "\"attn_pdrop\": 0.2", DT_OK, "" },
    { "phi3", "\"embd_pdrop\": 0.0", "\"embd_pdrop\": 0.1", DT_ERR_UNSUPPORTED, "embd_pdrop 0.1" },
    { "phi3", "\"sliding_window\": null", "\"sliding_window\": 8", DT_OK, "" },
    { "phi3", "\"sliding_window\": null", "\"sliding_window\": 0", DT_ERR_UNSUPPORTED,
      "sliding_window 0" },
    { "phi3-window", "\"sliding_window\": 6",
      "\"sliding_window\": 6, \"layer_types\": [\"sliding_attention\", \"full_attention\"]",
      DT_ERR_UNSUPPORTED, "layer_types: full_attention" },
    { "phi3", "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4", DT_ERR_FORMAT,
      "qkv_proj.weight' of 64 rows cannot be cut into 3" },
    { "phi3", "\"partial_rotary_factor\": 1.0", "\"partial_rotary_factor\": 0.5",
      DT_ERR_UNSUPPORTED, "partial_rotary_factor 0.5" },
    { "phi3-long", "\"longrope\"", "\"su\"", DT_ERR_UNSUPPORTED, "rope_type and type differ" },
    { "phi3-long", "\"rope_type\": \"longrope\"", "\"rope_type\": \"longrope\", \"factor\": 4",
      DT_OK, "" },
    { "phi3-long", "\"rope_type\": \"longrope\"", "\"rope_type\": \"longrope\", \"factor\": 5",
      DT_ERR_UNSUPPORTED, "factor 5 without attention_factor" },
    { "phi3-long", "\"rope_type\": \"longrope\"",
      "\"rope_type\": \"longrope\", \"attention_factor\": 1.5, \"factor\": 5", DT_OK, "" },
    { "phi3-long", "\"rope_type\": \"longrope\"",
      "\"rope_type\": \"longrope\", \"attention_factor\": 0", DT_ERR_UNSUPPORTED,
      "attention_factor 0" },
    { "phi3-long", "\"rope_type\": \"longrope\"", "\"rope_type\": \"longrope\", \"beta_fast\": 32",
      DT_ERR_UNSUPPORTED, "'beta_fast' is not supported" },
    { "phi3-long", "\"original_max_position_embeddings\": 16,\n  \"pad",
      "\"original_max_position_embeddings\": 8,\n  \"pad", DT_ERR_UNSUPPORTED,
      "original_max_position_embeddings is 8, and 16 in rope_parameters" },
    { "phi3-long", "\"original_max_position_embeddings\": 16,\n  \"pad", "\"pad",
      DT_ERR_UNSUPPORTED, "original_max_position_embeddings is 4096, and 16 in rope_parameters" },
    { "phi3-long", "      24.5", "      24.5, 30", DT_ERR_FORMAT, "long_factor has 5 entries" },
    { "phi3-long", "      24.5", "      0", DT_ERR_UNSUPPORTED, "long_factor: entry 3 is 0" },
    { "phi3-long", "\"short_factor\"", "\"shorter\"", DT_ERR_UNSUPPORTED, "'shorter'" },
    { "phi3-long", "\"short_factor\": [", "\"short_factor\": null, \"x\": [", DT_ERR_UNSUPPORTED,
      "'x'" },
    { "phi3-long", "\"model_type\": \"phi3\"", "\"model_type\": \"llama\"", DT_ERR_UNSUPPORTED,
      "longrope is supported in class phi3, not in llama" },
    { "phi3", "\"rope_type\": \"default\"", "\"rope_type\": \"default\", \"attention_factor\": 1.5",
      DT_ERR_UNSUPPORTED, "attention_factor is of longrope" },
    { "phi3", "\"rope_type\": \"default\"", "\"rope_type\": \"longrope\"", DT_ERR_FORMAT,
      "'short_factor' is missing" },
    { "smollm3", "    1,\n    0,\n    1,\n    0", "    1,\n    0,\n    0,\n    1",
      DT_ERR_UNSUPPORTED, "no_rope_layers: layer 2" },
    { "smollm3", "    1,\n    0,\n    1,\n    0", "    1,\n    0", DT_ERR_FORMAT,
      "no_rope_layers has 2 entries" },
    { "gpt2", "\"gelu_new\"", "\"gelu\"", DT_OK, "" },
    { "pythia", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"gelu_new\"", DT_OK, "" },
    { "pythia", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"relu\"", DT_ERR_UNSUPPORTED,
      "hidden_act 'relu'" },
    { "pythia", "\"use_parallel_residual\": true", "\"use_parallel_residual\": false", DT_OK, "" },
    { "pythia", "\"attention_bias\": true", "\"attention_bias\": false", DT_ERR_UNSUPPORTED,
      "attention_bias" },
    { "pythia", "\"num_attention_heads\": 4", "\"num_attention_heads\": 5", DT_ERR_FORMAT,
      "hidden_size 32 is not a multiple" },
    { "pythia", "\"partial_rotary_factor\": 0.25", "\"partial_rotary_factor\": 0.4",
      DT_ERR_UNSUPPORTED, "rotary_pct 0.4 of heads of width 8" },
    { "pythia", "\"rope_parameters\": {", "\"rotary_pct\": 0.5, \"rope_parameters\": {",
      DT_ERR_UNSUPPORTED, "rotary_pct, and partial_rotary_factor" },
    { "pythia", "\"rope_parameters\": {", "\"rotary_emb_base\": 5, \"rope_parameters\": {",
      DT_ERR_UNSUPPORTED, "rotary_emb_base, and rope_theta" },
    { "pythia", "\"rope_type\": \"default\"", "\"rope_type\": \"linear\", \"factor\": 2",
      DT_ERR_UNSUPPORTED, "rope_scaling" },
    { "pythia", "\"rope_type\": \"default\"", "\"type\": \"dynamic\"", DT_ERR_UNSUPPORTED,
      "rope_scaling" },
    { "pythia", "\"hidden_size\": 32", "\"hidden_size\": 64", DT_ERR_FORMAT, "query_key_value" },
    { "pythia", "\"hidden_size\": 32", "\"hidden_size\": 32, \"head_dim\": 16", DT_ERR_UNSUPPORTED,
      "head_dim is not hidden_size / num_attention_heads" },
    { "pythia", "\"hidden_size\": 32", "\"hidden_size\": 32, \"head_dim\": 8", DT_OK, "" },
    { "mistral", "\"rope_type\": \"default\"",
      "\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4, "
      "\"original_max_position_embeddings\": 16}, \"original_max_position_embeddings\": 64, \"x\": "
      "{",
      DT_ERR_UNSUPPORTED, "original_max_position_embeddings is 64, and 16 in rope_parameters" },
    { "mistral", "\"rope_type\": \"default\"",
      "\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4, "
      "\"original_max_position_embeddings\": 16}, \"original_max_position_embeddings\": 16, \"x\": "
      "{",
      DT_OK, "" },
    { "gemma3", "\"rope_parameters\": {",
      "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}, \"rope_parameters\": {",
      DT_ERR_UNSUPPORTED, "'type' without 'rope_type'" },
    { "gemma3", "\"gelu_pytorch_tanh\"", "\"gelu\"", DT_ERR_UNSUPPORTED,
      "hidden_activation 'gelu'" },
    { "gemma3", "\"attn_logit_softcapping\": null", "\"attn_logit_softcapping\": 50.0",
      DT_ERR_UNSUPPORTED, "attn_logit_softcapping" },
    { "gemma3", "\"final_logit_softcapping\": null", "\"final_logit_softcapping\": 30.0",
      DT_ERR_UNSUPPORTED, "final_logit_softcapping" },
    { "gemma3", "\"use_bidirectional_attention\": false", "\"use_bidirectional_attention\": true",
      DT_ERR_UNSUPPORTED, "use_bidirectional_attention" },
    { "gemma3", "\"query_pre_attn_scalar\": 12", "\"query_pre_attn_scalar\": 0", DT_ERR_UNSUPPORTED,
      "query_pre_attn_scalar 0" },
    { "gemma3", "\"query_pre_attn_scalar\": 12", "\"query_pre_attn_scalar\": 1e-300",
      DT_ERR_UNSUPPORTED, "query_pre_attn_scalar 1e-300: 1e-06 is the least" },
    { "gemma3", "\"sliding_window\": 7", "\"sliding_window\": null", DT_ERR_UNSUPPORTED,
      "sliding_window null" },
    { "gemma3", "\"sliding_window\": 7", "\"sliding_window\": 0", DT_ERR_UNSUPPORTED,
      "sliding_window 0" },
    { "gemma3", "\"sliding_window\": 7", "\"sliding_window\": 700", DT_OK, "" },
    { "gemma3", "    \"full_attention\",\n", "    \"sliding_attention\",\n", DT_OK, "" },
    { "gemma3", "    \"full_attention\",\n", "    \"chunked_attention\",\n", DT_ERR_FORMAT,
      "'chunked_attention'" },
    { "gemma3", "    \"sliding_attention\",\n    \"sliding_attention\",\n    \"full",
      "    \"full_attention\",\n    \"sliding_attention\",\n    \"full", DT_ERR_UNSUPPORTED,
      "layer_types: layer 5: every n-th layer with full_attention" },
    { "gemma3", "\"layer_types\": [\n", "\"layer_types\": [\"full_attention\",\n", DT_ERR_FORMAT,
      "layer_types has 8 entries" },
    { "gemma3", "\"rope_type\": \"default\"", "\"rope_type\": \"linear\", \"factor\": 2",
      DT_ERR_UNSUPPORTED, "sliding_attention with scaling" },
    { "gemma3", "\"rope_theta\": 10000.0", "\"rope_theta\": 0", DT_ERR_UNSUPPORTED,
      "rope_local_base_freq 0" },
    { "gemma3", "\"rope_parameters\": {", "\"rope_local_base_freq\": 5, \"rope_parameters\": {",
      DT_ERR_UNSUPPORTED, "rope_local_base_freq is 5, and rope_theta of sliding_attention 10000" },
    { "gemma3", "\"sliding_attention\": {", "\"global_attention\": {", DT_ERR_UNSUPPORTED,
      "'global_attention' is not supported" },
    { "gemma3", "\"num_hidden_layers\": 7", "\"num_hidden_layers\": 4097", DT_ERR_FORMAT,
      "'num_hidden_layers' must be from 1 to 4096" },
    { "gemma3", "\"full_attention\": {", "\"global_attention\": {", DT_ERR_UNSUPPORTED,
      "'global_attention' is not supported" },
};

START_TEST(a_setting_is_seen)
{
    char folder[TEST_PATH], from[TEST_PATH], name[64], path[TEST_PATH];
    dt_ctx *ctx;
    dt_module *m = NULL;
    snprintf(name, sizeof name, "hf/families/%s", edits[_i].name);
    if (!test_golden(from, name)) return;
    test_folder(folder);
    ck_assert_int_eq(test_shell(NULL, "cp %s/* %s", from, folder), 0);
    test_join(path, folder, "config.json");
    char *text = test_read_file(path, NULL), *place = strstr(text, edits[_i].from);
    ck_assert_msg(place != NULL, "%s is not in %s", edits[_i].from, path);
    const size_t n = strlen(text) + strlen(edits[_i].to) + 1;
    char *all = malloc(n);
    snprintf(all, n, "%.*s%s%s", (int)(place - text), text, edits[_i].to,
             place + strlen(edits[_i].from));
    test_write_text(path, all);
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    const dt_status s = dt_hf_load(ctx, folder, &m, NULL);
    ck_assert_msg(s == edits[_i].status, "%s: %s", dt_status_name(s), dt_error(ctx));
    if (s != DT_OK) {
        ck_assert_msg(strstr(dt_error(ctx), edits[_i].message) != NULL, "%s", dt_error(ctx));
    }
    dt_module_free(m);
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
    free(all);
    free(text);
}
END_TEST

/* The first files call longrope "su", in rope_scaling. */
START_TEST(su_is_longrope)
{
    trial t;
    char folder[TEST_PATH], from[TEST_PATH], path[TEST_PATH];
    static float y[2][LOGITS];
    dt_module *m;
    if (!open_trial(&t, LONG)) return;
    test_golden(from, "hf/families/phi3-long");
    test_folder(folder);
    test_join(path, folder, "config.json");
    ck_assert_int_eq(test_shell(NULL, "cp %s/* %s", from, folder), 0);
    ck_assert_int_eq(test_shell(NULL,
                                "sed -i -e /rope_type/d -e s/rope_parameters/rope_scaling/ -e "
                                "s/longrope/su/ %s",
                                path),
                     0);
    TEST_OK(t.ctx, dt_hf_load(t.ctx, folder, &m, NULL));
    logits_of(&t, t.m, y[0]);
    logits_of(&t, m, y[1]);
    ck_assert(memcmp(y[0], y[1], sizeof y[0]) == 0);
    dt_module_free(m);
    close_trial(&t);
}
END_TEST

static dt_status load_and_save(dt_ctx *ctx, void *user)
{
    char to[TEST_PATH];
    const char *const *folders = user;
    dt_module *m = NULL;
    dt_model_info info = { .memory = NULL };
    test_folder(to);
    dt_status s = dt_hf_load(ctx, folders[0], &m, &info);
    if (s == DT_OK) s = dt_hf_save(m, &info, NULL, to);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    return s;
}

START_TEST(every_allocation_may_fail)
{
    char folder[TEST_PATH];
    const char *folders[] = { folder };
    static const char *const some[] = { "hf/families/gpt2", "hf/families/phi3",
                                        "hf/families/pythia" };
    if (!test_golden(folder, some[_i])) return;
    test_every_allocation(load_and_save, folders);
}
END_TEST

/* Copies of transposed matrices are freed while a model reads them, and the open folder reports
 * that afterwards. */
START_TEST(turned_matrices_are_read_once)
{
    char folder[TEST_PATH];
    dt_ctx *ctx;
    dt_file *f;
    dt_module *m;
    dt_tensor *x;
    static const char *const name = "blocks.0.mlp.up.weight";
    if (!test_golden(folder, "hf/families/gpt2")) return;
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    TEST_OK(ctx, dt_file_open(ctx, folder, &f));
    TEST_OK(ctx, dt_file_load(f, name, DT_F32, &x));
    TEST_OK(ctx, dt__model_of_file(f, &m, NULL));
    ck_assert(memcmp(dt_data(x), dt_data(dt_param(m, name)), (size_t)dt_count(x) * 4) == 0);
    dt_tensor_free(x);
    dt_module_free(m);
    TEST_FAILS(ctx, DT_ERR_STATE, "open it again", dt_file_load(f, name, DT_F32, &x));
    TEST_FAILS(ctx, DT_ERR_STATE, "open it again", dt__model_of_file(f, &m, NULL));
    TEST_OK(ctx, dt_file_load(f, "positions.weight", DT_F32, &x)); /* not turned */
    dt_tensor_free(x);
    dt_file_close(f);
    dt_ctx_free(ctx);
}
END_TEST

/* Weights are copied from the mapped file to the parameters, not held beside them. */
START_TEST(weights_are_in_memory_once)
{
    const dt_llama_options o = { .vocab = 4096,
                                 .context = 16,
                                 .layers = 2,
                                 .heads = 4,
                                 .width = 256,
                                 .hidden = 1024,
                                 .theta = 1e4,
                                 .eps = 1e-6,
                                 .rope = { .factor = 1,
                                           .low_freq_factor = 1,
                                           .high_freq_factor = 4,
                                           .original_context = 8192 } };
    char own[TEST_PATH], to[TEST_PATH];
    dt_ctx *ctx;
    dt_module *m;
    test_folder(own);
    test_join(to, own, "hf");
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    TEST_OK(ctx, dt_llama_create(ctx, &o, &m));
    const size_t bytes = 4 * (size_t)dt_param_count(m);
    const dt_model_info info = { .family = dt_family_named(ctx, "llama"), .options = &o };
    const dt_hf_options how = { .dtype = _i == 0 ? DT_HF_F32 : DT_HF_BF16 };
    TEST_OK(ctx, dt_hf_save(m, &info, &how, to));
    dt_module_free(m);
    dt_ctx_free(ctx);
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    const size_t file = memory_of_open_file(ctx, to);
    dt_memory_trim(ctx);
    dt_memory_reset_peak(ctx);
    TEST_OK(ctx, dt_hf_load(ctx, to, &m, NULL));
    ck_assert_uint_lt(dt_memory_of(ctx).peak, bytes + bytes / 10 + file);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

/* Logits of 5 ids. */
static dt_tensor *logits_of_ids(dt_ctx *ctx, dt_tape *t, dt_module *m)
{
    const int64_t dims[] = { 1, 5 };
    const int32_t ids[] = { 3, 1, 4, 1, 5 };
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_from(ctx, DT_I32, 2, dims, ids, &x));
    dt_train(m, false);
    dt_tensor *y = dt_contiguous(t, dt_forward(t, m, x));
    TEST_OK(ctx, dt_tape_status(t));
    dt_tensor_free(x);
    return y;
}

/* The width of a head is a folder's query_pre_attn_scalar. */
START_TEST(gemma_without_query_width)
{
    dt_llama_options o = { .vocab = 9,
                           .context = 8,
                           .layers = 3,
                           .heads = 2,
                           .width = 12,
                           .hidden = 10,
                           .kv_heads = 1,
                           .qk_norm = true,
                           .eps = 1e-6,
                           .theta = 1e4 };
    o.head_width = _i == 0 ? 0 : 4;
    o.block = (dt_block_options){ .given = true,
                                  .norms = DT_BLOCK_NORMS_BOTH,
                                  .norm_plus_one = true,
                                  .activation = DT_GATE_GELU_TANH,
                                  .scaled_tokens = true,
                                  .window = 3,
                                  .full_every = 2,
                                  .local_theta = 100 };
    o.rope = (dt_rope_options){ .factor = 1 };
    char to[TEST_PATH];
    dt_ctx *ctx;
    dt_tape *t;
    dt_module *m, *again;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_no_grad(t, true);
    TEST_OK(ctx, dt_llama_create(ctx, &o, &m));
    const dt_model_info info = { .family = dt_family_named(ctx, "llama"), .options = &o };
    test_folder(to);
    test_join(to, to, "gemma");
    TEST_OK(ctx, dt_hf_save(m, &info, NULL, to));
    TEST_OK(ctx, dt_hf_load(ctx, to, &again, NULL));
    const dt_tensor *y = logits_of_ids(ctx, t, m), *z = logits_of_ids(ctx, t, again);
    ck_assert_mem_eq(dt_data(y), dt_data(z), (size_t)dt_count(y) * sizeof(float));
    dt_module_free(again);
    dt_module_free(m);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_hf_families_suite(void)
{
    Suite *s = suite_create("hf_families");
    TCase *c = tcase_create("families");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, computes_what_transformers_does, 0, NAMES);
    tcase_add_test(c, short_texts_have_short_factors);
    tcase_add_loop_test(c, greedy_text_is_transformers_s, 0, NAMES);
    tcase_add_loop_test(c, saved_folders_have_the_same_bytes, 0, NAMES);
    tcase_add_loop_test(c, prepared_is_converted_is_loaded, 0, 2 * NAMES);
    tcase_add_loop_test(c, exports_write_or_refuse, 0, NAMES);
    tcase_add_loop_test(c, a_setting_is_seen, 0, (int)(sizeof edits / sizeof *edits));
    tcase_add_test(c, su_is_longrope);
    tcase_add_loop_test(c, gemma_without_query_width, 0, 2);
    tcase_add_loop_test(c, every_allocation_may_fail, 0, 3);
    tcase_add_loop_test(c, weights_are_in_memory_once, 0, 2);
    tcase_add_test(c, turned_matrices_are_read_once);
    suite_add_tcase(s, c);
    return s;
}
