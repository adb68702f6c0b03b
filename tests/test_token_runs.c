/* Runs of language models on text, prompts and sums: their metrics, resuming bit for bit, updates
 * weighed by labels, files that carry the tokenizer, and refused recipes. */
#include "models.h"
#include "sample.h"

#include <detent/experimental/io.h>
#include <detent/ops.h>
#include <detent/experimental/qat.h>
#include <detent/experimental/train.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define GPT                                                                                        \
    "run: {dir: unset, seed: 3}\n"                                                                 \
    "model: {family: gpt, vocab: 64, context: 12, layers: 2, heads: 2, width: 16}\n"
#define LLAMA                                                                                      \
    "run: {dir: unset, seed: 3}\n"                                                                 \
    "model: {family: llama, vocab: 64, context: 12, layers: 2, heads: 4, kv_heads: 2, width: 16, " \
    "hidden: 32, tied: true}\n"
#define EXPERTS                                                                                    \
    "run: {dir: unset, seed: 3}\n"                                                                 \
    "model: {family: llama, vocab: 64, context: 12, layers: 2, heads: 2, width: 16, hidden: 24, "  \
    "moe: {experts: 5, top_k: 2, z: 0.001}}\n"
#define END                                                                                        \
    "train: {steps: 8, batch_size: 5, optimizer: {name: adamw, lr: 3e-3}, "                        \
    "checkpoint: {every_steps: 2}}\n"                                                              \
    "qat: {start_step: 4}\n"
#define TEXT "data: {format: text, train: [text], tokenizer: chars, validation: 0.2, context: 11}\n"
#define PAIRS                                                                                      \
    "data: {format: jsonl, train: [pairs], test: [pairs], tokenizer: chars, context: 12}\n"
#define ADDER "data: {format: adder, train_count: 60, test_count: 23, validation: 0.1}\n"

/* One of so many recipes, where another test uses the others. */
static const test_draws recipe_steps = { .usual = 1, .sanitized = 2 };

static const char *const recipes[] = { GPT TEXT END, GPT PAIRS END, GPT ADDER END, LLAMA TEXT END,
                                       EXPERTS TEXT END };

#define RECIPES ((int)(sizeof recipes / sizeof recipes[0]))

typedef struct job {
    const char *recipe, *data;
    char dir[TEST_PATH];
    const char *overrides[6];
    bool resume;
    int64_t stop_at, updates; /* updates before it is asked to stop; 0: never */
    int threads;
    dt_status wanted;
    char message[512];
    dt_run_summary summary;
} job;

static bool stop(void *user)
{
    job *j = user;
    return j->stop_at > 0 && j->updates++ >= j->stop_at;
}

static dt_status read_recipe(const job *j, dt_ctx *ctx, dt_recipe **out)
{
    char dir[TEST_PATH + 16], data[TEST_PATH + 16];
    const char *overrides[8] = { dir, data };
    int n = strstr(j->recipe, "adder") != NULL ? 1 : 2;
    snprintf(dir, sizeof dir, "run.dir=%s", j->dir);
    snprintf(data, sizeof data, "data.dir=%s", j->data);
    for (int i = 0; i < 6 && j->overrides[i] != NULL; i++) overrides[n++] = j->overrides[i];
    const dt_recipe_source source = { .path = "text.yaml",
                                      .text = j->recipe,
                                      .bytes = strlen(j->recipe),
                                      .overrides = overrides,
                                      .n_overrides = n };
    return dt_recipe_read(ctx, &source, out);
}

static void run(job *j)
{
    const dt_run_control control = { .resume = j->resume, .stop = stop, .user = j };
    test_memory memory = { 0 };
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = j->threads > 0 ? j->threads : 2;
    options.allocator = test_allocator(&memory);
    dt_ctx *ctx;
    dt_recipe *recipe = NULL;
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    dt_status s = read_recipe(j, ctx, &recipe);
    if (s == DT_OK) s = dt_run(ctx, recipe, &control, &j->summary);
    snprintf(j->message, sizeof j->message, "%s", dt_error(ctx));
    ck_assert_msg(s == j->wanted, "%s: %s", dt_status_name(s), j->message);
    dt_recipe_free(recipe);
    dt_ctx_free(ctx);
    ck_assert_int_eq(memory.live, 0);
}

/* A folder with texts and the job's own folder. */
static job job_of(const char *recipe, const char *folder, const char *name)
{
    job j = { .recipe = recipe, .data = folder };
    test_join(j.dir, folder, name);
    return j;
}

static void write_data(char folder[TEST_PATH])
{
    char path[TEST_PATH], text[401] = "";
    for (int i = 0; i < 400; i++) text[i] = (char)('a' + (i * i + i / 7) % 23);
    test_folder(folder);
    test_join(path, folder, "text");
    test_write_text(path, text);
    char *to = text;
    *to = 0;
    for (int i = 0; i < 9; i++) {
        to += sprintf(to, "{\"prompt\": \"%.*s\", \"completion\": \"%.*s\"}\n", 1 + i % 5, "abcdef",
                      1 + i % 3, "fedcba");
    }
    test_join(path, folder, "pairs");
    test_write_text(path, text);
}

static char *read_in(const char *folder, const char *name, size_t *size)
{
    char path[TEST_PATH];
    test_join(path, folder, name);
    return test_read_file(path, size);
}

static void assert_same_file(const char *a, const char *b, const char *name)
{
    size_t na, nb;
    char *one = read_in(a, name, &na), *two = read_in(b, name, &nb);
    ck_assert_msg(na == nb && memcmp(one, two, na) == 0, "%s differs", name);
    free(one);
    free(two);
}

/* ---- results of a run ----------------------------------------------------------------------- */

START_TEST(a_run_has_its_metrics)
{
    static const char *const names[] = { "exact_match", "accuracy", "perplexity", "loss" };
    char folder[TEST_PATH];
    write_data(folder);
    job j = job_of(recipes[_i], folder, "run");
    run(&j);
    const int first = _i == 1 || _i == 2 ? 0 : 1;
    for (int c = 0; c < DT_CONTENDERS; c++) {
        const dt_run_result *r = &j.summary.result[c];
        const dt_metrics *m = &r->metrics;
        ck_assert(r->given);
        ck_assert_int_eq(m->n, 4 - first);
        for (int i = 0; i < m->n; i++) ck_assert_str_eq(m->metric[i]->name, names[first + i]);
        ck_assert(m->loss > 0 && m->loss < 5);
        TEST_NEAR(dt_metric_value(m, "perplexity"), exp(m->loss), 0, 1e-12);
        ck_assert(m->tokens_per_s > m->samples_per_s);
    }
    ck_assert(j.summary.same_bits_as_qat);
    ck_assert_str_eq(j.summary.evaluated_on, _i == 1 || _i == 2 ? "test" : "validation");
    char *lines = read_in(j.dir, "metrics.jsonl", NULL),
         *end = read_in(j.dir, "summary.json", NULL);
    ck_assert_ptr_nonnull(strstr(lines, "\"tokens_per_s\": "));
    ck_assert_ptr_nonnull(strstr(end, "\"perplexity\": "));
    free(lines);
    free(end);
}
END_TEST

START_TEST(an_interrupted_run_resumes_bit_for_bit)
{
    char folder[TEST_PATH];
    write_data(folder);
    job whole = job_of(recipes[_i], folder, "whole"), parts = job_of(recipes[_i], folder, "parts");
    whole.threads = 1;
    run(&whole);
    parts.stop_at = 3;
    parts.wanted = DT_ERR_INTERRUPTED;
    run(&parts);
    parts = job_of(recipes[_i], folder, "parts");
    parts.resume = true;
    run(&parts);
    assert_same_file(whole.dir, parts.dir, "model.safetensors");
    assert_same_file(whole.dir, parts.dir, "float.safetensors");
}
END_TEST

#define PACKED                                                                                     \
    "run: {dir: unset, seed: 3}\n"                                                                 \
    "model: {family: llama, pack: {weight: {group_size: 8}}}\n"                                    \
    "adapters: {rank: 2, alpha: 3}\n" TEXT                                                         \
    "train: {steps: 6, batch_size: 5, optimizer: {name: adamw, lr: 3e-2}, "                        \
    "checkpoint: {every_steps: 2}}\n"

static dt_module *loaded(dt_ctx *ctx, const char *dir, const char *name)
{
    char path[TEST_PATH];
    dt_module *m;
    test_join(path, dir, name);
    TEST_OK(ctx, dt_model_load(ctx, path, &m, NULL));
    return m;
}

/* Adapters beside weights that are packed while a folder of floats is read: the run keeps the base
 * once, goes on bit for bit, and refuses another base. A converted model gives the same run. */
START_TEST(adapters_beside_packed_weights)
{
    char folder[TEST_PATH], init[TEST_PATH], from[TEST_PATH + 64], base[TEST_PATH];
    if (!test_golden(init, "hf/tiny")) return;
    write_data(folder);
    snprintf(from, sizeof from, "model.init=%s", init);
    job whole = job_of(PACKED, folder, "whole"), parts = job_of(PACKED, folder, "parts");
    whole.threads = 1;
    whole.overrides[0] = parts.overrides[0] = from;
    run(&whole);
    ck_assert_int_eq(whole.summary.float_weights, DT_FLOAT_ADAPTED);
    ck_assert(whole.summary.result[DT_RUN_FLOAT].given);
    parts.stop_at = 3;
    parts.wanted = DT_ERR_INTERRUPTED;
    run(&parts);
    parts.wanted = DT_OK;
    parts.stop_at = 0;
    parts.resume = true;
    run(&parts);
    assert_same_file(whole.dir, parts.dir, "base.safetensors");
    assert_same_file(whole.dir, parts.dir, "adapters.safetensors");

    job second = job_of(PACKED, folder, "second");
    snprintf(from, sizeof from, "model.init=%s/base.safetensors", whole.dir);
    second.overrides[0] = from;
    second.overrides[1] = "model.pack=true";
    run(&second);
    dt_ctx *ctx = sample_context(1);
    dt_module *a = loaded(ctx, whole.dir, "adapters.safetensors"),
              *b = loaded(ctx, second.dir, "adapters.safetensors");
    same_models(a, b);
    ck_assert(dt_has_lora(a));
    dt_module_free(a);
    dt_module_free(b);
    dt_ctx_free(ctx);
    test_join(base, second.dir, "base.safetensors");
    ck_assert_int_ne(remove(base), 0); /* model.init is one */

    job other = job_of(PACKED, folder, "other");
    snprintf(from, sizeof from, "model.init=%s", init);
    other.overrides[0] = from;
    other.overrides[1] = "model.pack.weight.bits=3";
    run(&other);
    char *output;
    ck_assert_int_eq(test_shell(&output, "cp '%s/base.safetensors' '%s'", other.dir, parts.dir), 0);
    free(output);
    parts.overrides[1] = "train.epochs=11"; /* of no effect beside steps */
    parts.wanted = DT_ERR_FORMAT;
    run(&parts);
    ck_assert_msg(strstr(parts.message, "over another base") != NULL, "%s", parts.message);
}
END_TEST

/* Texts while it trains: those of the evaluations that a resumed run did before and after, and the
 * model of a run without them. */
START_TEST(texts_while_it_trains)
{
    char folder[TEST_PATH], path[TEST_PATH];
    if (_i % test_count(recipe_steps) != 0) return;
    write_data(folder);
    job off = job_of(recipes[_i], folder, "off"), on = job_of(recipes[_i], folder, "on"),
        cut = job_of(recipes[_i], folder, "cut");
    off.overrides[0] = on.overrides[0] = cut.overrides[0] = "data.validation=0.2";
    off.overrides[1] = "train.evaluate.every_steps=2";
    on.overrides[1] = cut.overrides[1] = "train.evaluate={every_steps: 2, samples: 2}";
    cut.stop_at = 3;
    cut.wanted = DT_ERR_INTERRUPTED;
    run(&off);
    run(&on);
    run(&cut);
    cut.stop_at = 0;
    cut.wanted = DT_OK;
    cut.resume = true;
    run(&cut);
    assert_same_file(off.dir, on.dir, "model.safetensors");
    assert_same_file(off.dir, cut.dir, "model.safetensors");
    char *text[2];
    for (int i = 0; i < 2; i++) {
        test_join(path, i == 0 ? on.dir : cut.dir, "metrics.jsonl");
        text[i] = test_read_file(path, NULL);
    }
    const char *a = text[0], *b = text[1];
    int found = 0;
    while ((a = strstr(a, "\"samples\": {\"kind\": \"tokens\"")) != NULL) {
        b = strstr(b, "\"samples\": {");
        ck_assert_ptr_nonnull(b);
        const size_t n = strcspn(a, "\n");
        ck_assert(n == strcspn(b, "\n") && memcmp(a, b, n) == 0);
        a += n;
        b += n;
        found++;
    }
    ck_assert_int_ge(found, 3);
    free(text[0]);
    free(text[1]);
}
END_TEST

/* All labels have the same weight, however long the examples of a batch are. */
#define BEST_KEYS                                                                                  \
    "data.validation=0.2", "train.evaluate.every_steps=1", "train.finish_with=best",               \
        "train.early_stopping={patience: 2, least_improvement: 1000}"

/* Nothing is better by 1000, so the first evaluation after the start step stays the best, the next
 * two end the run, and its model is that of a run of five updates; also where it was
 * interrupted. */
START_TEST(a_run_ends_early_with_its_best)
{
    char folder[TEST_PATH];
    if ((_i + 1) % test_count(recipe_steps) != 0) return;
    write_data(folder);
    job whole = job_of(recipes[_i], folder, "whole"), five = job_of(recipes[_i], folder, "five"),
        cut = job_of(recipes[_i], folder, "cut");
    const char *const keys[] = { BEST_KEYS };
    memcpy(whole.overrides, keys, sizeof keys);
    memcpy(cut.overrides, keys, sizeof keys);
    five.overrides[0] = "data.validation=0.2";
    five.overrides[1] = "train.steps=5";
    cut.stop_at = 6;
    cut.wanted = DT_ERR_INTERRUPTED;
    run(&whole);
    run(&five);
    run(&cut);
    ck_assert(whole.summary.stopped_early && whole.summary.ends_with_best);
    ck_assert(whole.summary.best_step == 5 && whole.summary.steps == 7);
    cut.stop_at = 0;
    cut.wanted = DT_OK;
    cut.resume = true;
    run(&cut);
    assert_same_file(whole.dir, five.dir, "model.safetensors");
    assert_same_file(whole.dir, cut.dir, "model.safetensors");
}
END_TEST

START_TEST(updates_weigh_by_labels)
{
    char folder[TEST_PATH];
    write_data(folder);
    double loss[2];
    for (int i = 0; i < 2; i++) {
        job j = job_of(recipes[1], folder, i == 0 ? "whole" : "parts");
        j.overrides[0] = "~qat";
        j.overrides[1] = i == 0 ? "train.batch_size=9" : "train.batch_size=1";
        j.overrides[2] = i == 0 ? "train.accumulate=1" : "train.accumulate=9";
        run(&j);
        loss[i] = j.summary.result[DT_RUN_FLOAT].metrics.loss;
    }
    TEST_NEAR(loss[1], loss[0], 1e-4, 0);
}
END_TEST

/* Under a sanitizer one case in three is cut and resumed; all run. */
static const test_draws cut_steps = { .usual = 1, .sanitized = 3 };

/* Experts together with other settings of a recipe: the run resumes bit for bit; the converted
 * model has the bits of the trained one, or after a rounder those of its file. */
START_TEST(experts_work_with_all_other_settings)
{
    static const struct {
        const char *keys[3];
        bool rounds;
    } cases[] = {
        { .keys = { "train.distill={weight: 0.7}" } },
        { .keys = { "train.recompute=true", "train.clip_grad_norm=0.1", "train.accumulate=2" } },
        { .keys = { "adapters={rank: 2}", "qat.start_step=0" } },
        { .keys = { "adapters={rank: 2, match: ['*o_proj'], train_rest: true}" } },
        { .keys = { "qat.preset=int4-int4" } },
        { .keys = { "qat.preset=int4-weight" } },
        { .keys = { "qat.rules=[{match: '*w_*', weight: {bits: 8, granularity: tensor}}, "
                    "{match: '*router', weight: {bits: 8, granularity: channel}}]" } },
        { .keys = { "qat.rules=[{match: '*w_down', skip: true}]" } },
        { .keys = { "convert.rounder=gptq", "convert.calibration={samples: 9, batch_size: 4}" },
          .rounds = true },
    };
    char folder[TEST_PATH];
    write_data(folder);
    job whole = job_of(EXPERTS TEXT END, folder, "whole");
    memcpy(whole.overrides, cases[_i].keys, sizeof cases[_i].keys);
    job parts = whole;
    test_join(parts.dir, folder, "parts");
    whole.threads = 1;
    run(&whole);
    if (_i % test_count(cut_steps) == 0) {
        parts.stop_at = 5;
        parts.wanted = DT_ERR_INTERRUPTED;
        run(&parts);
        parts.stop_at = 0;
        parts.wanted = DT_OK;
        parts.resume = true;
        run(&parts);
        assert_same_file(whole.dir, parts.dir, "model.safetensors");
    }
    ck_assert(cases[_i].rounds ? whole.summary.same_bits_from_file
                               : whole.summary.same_bits_as_qat);
}
END_TEST
#define REST 9

/* ---- files ---------------------------------------------------------------------------------- */

static dt_status count_bytes(void *user, const char *text, size_t bytes)
{
    strncat(user, text, bytes);
    return DT_OK;
}

/* Everything that is evaluated later needs nothing but the file. */
START_TEST(files_carry_their_tokenizer)
{
    static const char *const names[] = { "float.safetensors", "model.safetensors",
                                         "checkpoints/step-0000000008.safetensors" };
    static const dt_contender of[] = { DT_RUN_FLOAT, DT_RUN_CONVERTED, DT_RUN_QAT };
    char folder[TEST_PATH], path[TEST_PATH];
    write_data(folder);
    job j = job_of(recipes[0], folder, "run");
    run(&j);
    test_join(path, folder, "text");
    dt_ctx *ctx = sample_context(2);
    dt_data_options o = dt_data_defaults();
    o.format = DT_DATA_TEXT;
    o.tokenizer = "chars";
    o.train = (dt_strings){ 1, { path } };
    o.validation = 0.2;
    o.context = 11;
    for (int i = 0; i < 3; i++) {
        char file[TEST_PATH], text[8192] = "";
        dt_module *m;
        dt_model_info info;
        dt_file *opened;
        dt_dataset *train, *validation, *test;
        dt_metrics metrics;
        test_join(file, j.dir, names[i]);
        TEST_OK(ctx, dt_file_open(ctx, file, &opened));
        TEST_OK(ctx, dt_model_check(opened));
        dt_file_close(opened);
        TEST_OK(ctx, dt_model_load(ctx, file, &m, &info));
        ck_assert_ptr_nonnull(info.tokenizer);
        o.given = info.tokenizer;
        TEST_OK(ctx, dt_data_open(ctx, &o, &train, &validation, &test));
        TEST_OK(ctx, dt_tokenizer_text(dt_dataset_tokenizer(train), count_bytes, text));
        ck_assert_str_eq(text, info.tokenizer);
        TEST_OK(ctx, dt_evaluate(m, validation, NULL, &metrics, NULL));
        ck_assert_double_eq(metrics.loss, j.summary.result[of[i]].metrics.loss);
        dt_dataset_free(train);
        dt_dataset_free(validation);
        dt_model_info_free(ctx, &info);
        dt_module_free(m);
    }
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(a_damaged_tokenizer_is_found)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "model");
    dt_ctx *ctx = sample_context(1);
    const dt_gpt_options o = { .vocab = 4, .context = 2, .layers = 1, .heads = 1, .width = 8 };
    dt_module *m;
    dt_file *file;
    int i = 0;
    while (strcmp(dt_family_at(i)->name, "gpt") != 0) i++;
    const dt_model_info info = { .family = dt_family_at(i), .options = &o, .tokenizer = "{}" };
    TEST_OK(ctx, dt_gpt_create(ctx, &o, &m));
    TEST_OK(ctx, dt_model_save(m, &info, path));
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    TEST_FAILS(ctx, DT_ERR_FORMAT, "detent.tokenizer", dt_model_check(file));
    dt_file_close(file);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- evaluating ----------------------------------------------------------------------------- */

/* Compares with metrics computed here from logits by the formulas. */
START_TEST(metrics_follow_from_logits)
{
    enum { N = 58, VOCAB = 9, T = 7 };
    int32_t ids[N];
    for (int i = 0; i < N; i++) ids[i] = (i * i + i / 3) % VOCAB;
    dt_ctx *ctx = sample_context(2);
    const dt_gpt_options o = { .vocab = VOCAB, .context = T, .layers = 1, .heads = 2, .width = 8 };
    dt_module *m;
    dt_dataset *d;
    dt_metrics metrics, other;
    dt_tensor *logits;
    TEST_OK(ctx, dt_gpt_create(ctx, &o, &m));
    TEST_OK(ctx, dt_text_create(ctx, ids, N, VOCAB, T, &d));
    const dt_evaluation small = { .batch_size = 2 };
    TEST_OK(ctx, dt_evaluate(m, d, &small, &metrics, &logits));
    TEST_OK(ctx, dt_evaluate(m, d, NULL, &other, NULL));
    ck_assert_double_eq(metrics.loss, other.loss);
    ck_assert_int_eq(dt_dim(logits, 0), 9);
    ck_assert_int_eq(dt_dim(logits, 1), T);
    ck_assert_int_eq(dt_dim(logits, 2), VOCAB);
    const float *y = dt_data(logits);
    double cost = 0, right = 0;
    for (int i = 0; i < N - 1; i++, y += VOCAB) {
        double sum = 0;
        int best = 0;
        for (int k = 0; k < VOCAB; k++) {
            sum += exp((double)y[k]);
            if (y[k] > y[best]) best = k;
        }
        cost += log(sum) - (double)y[ids[i + 1]];
        right += best == ids[i + 1];
    }
    TEST_NEAR(metrics.loss, cost / (N - 1), 0, 1e-6);
    ck_assert_double_eq(dt_metric_value(&metrics, "accuracy"), right / (N - 1));
    dt_tensor_free(logits);
    dt_module_free(m);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

/* Logits are those of a decoder that is fed the same texts token by token. */
START_TEST(metrics_behind_a_cache)
{
    enum { N = 58, VOCAB = 9, T = 7 };
    int32_t ids[N];
    for (int i = 0; i < N; i++) ids[i] = (i * i + i / 3) % VOCAB;
    dt_ctx *ctx = sample_context(2);
    const dt_gpt_options o = { .vocab = VOCAB, .context = T, .layers = 2, .heads = 2, .width = 12 };
    dt_module *m;
    dt_dataset *d;
    dt_metrics metrics, floats;
    dt_tensor *all, *logits;
    dt_decoder *decoder;
    const dt_evaluation how = { .batch_size = 3, .cache = _i };
    TEST_OK(ctx, dt_gpt_create(ctx, &o, &m));
    TEST_OK(ctx, dt_text_create(ctx, ids, N, VOCAB, T, &d));
    TEST_OK(ctx, dt_evaluate(m, d, &how, &metrics, &all));
    TEST_OK(ctx, dt_evaluate(m, d, NULL, &floats, NULL));
    ck_assert_int_eq(metrics.loss == floats.loss, _i == DT_CACHE_F32);
    TEST_OK(ctx, dt_decoder_create(m, &(dt_decoder_options){ .cache = _i }, &decoder));
    for (int i = 0; i < N - 1; i++) {
        if (i % T == 0) TEST_OK(ctx, dt_decoder_rewind(decoder, 0));
        TEST_OK(ctx, dt_decoder_feed(decoder, ids + i, 1, &logits));
        TEST_EACH(memcmp(dt_data(logits), (const float *)dt_data(all) + i * VOCAB,
                         VOCAB * sizeof(float)) == 0,
                  "%s: token %d", dt_cache_names[_i], i);
    }
    dt_decoder_free(decoder);
    dt_tensor_free(all);
    dt_module_free(m);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

/* Evaluated with a cache, the result of a run that trained with it has the figures of the run. */
START_TEST(a_run_sees_a_cache)
{
    char folder[TEST_PATH], set[40];
    const char *const of[] = { GPT TEXT END, LLAMA TEXT END };
    const int cache = DT_CACHE_INT8 + _i % 2;
    dt_recipe *recipe;
    dt_dataset *train, *validation, *test;
    dt_metrics behind, floats;
    write_data(folder);
    job j = job_of(of[_i / 2], folder, "cached"), plain = job_of(of[_i / 2], folder, "plain");
    snprintf(set, sizeof set, "qat.cache=%s", dt_cache_names[cache]);
    j.overrides[0] = set;
    run(&j);
    run(&plain);
    const dt_run_result *r = j.summary.result;
    ck_assert(j.summary.same_bits_as_qat);
    ck_assert_double_eq(r[DT_RUN_FLOAT].metrics.loss,
                        plain.summary.result[DT_RUN_FLOAT].metrics.loss);
    for (int c = DT_RUN_PTQ; c <= DT_RUN_CONVERTED; c++) {
        ck_assert_double_ne(r[c].metrics.loss, plain.summary.result[c].metrics.loss);
    }
    dt_ctx *ctx = sample_context(2);
    TEST_OK(ctx, read_recipe(&j, ctx, &recipe));
    TEST_OK(ctx, dt_data_open(ctx, &dt_recipe_get(recipe)->data, &train, &validation, &test));
    dt_module *m = loaded(ctx, j.dir, "model.safetensors");
    TEST_OK(ctx, dt_evaluate(m, validation, &(dt_evaluation){ .batch_size = 1, .cache = cache },
                             &behind, NULL));
    TEST_OK(ctx, dt_evaluate(m, validation, NULL, &floats, NULL));
    TEST_NEAR(behind.loss, r[DT_RUN_CONVERTED].metrics.loss, 0, 1e-13);
    ck_assert_double_ne(floats.loss, behind.loss);
    dt_module_free(m);
    dt_dataset_free(train);
    dt_dataset_free(validation);
    dt_dataset_free(test);
    dt_recipe_free(recipe);
    dt_ctx_free(ctx);
}
END_TEST

/* Likewise for a run that was interrupted, and one that returns to its best weights. */
START_TEST(a_run_with_a_cache_goes_on)
{
    char folder[TEST_PATH], set[40];
    write_data(folder);
    snprintf(set, sizeof set, "qat.cache=%s", dt_cache_names[DT_CACHE_INT8 + _i % 2]);
    job whole = job_of(GPT TEXT END, folder, "whole");
    whole.overrides[0] = set;
    run(&whole);
    for (int64_t at = 2; at < 8; at += test_count((test_draws){ 1, 3, 2 })) {
        job parts = job_of(GPT TEXT END, folder, "parts");
        test_shell(NULL, "rm -rf %s", parts.dir);
        parts.overrides[0] = set;
        parts.stop_at = at;
        parts.wanted = DT_ERR_INTERRUPTED;
        run(&parts);
        parts.stop_at = parts.wanted = 0;
        parts.resume = true;
        run(&parts);
        assert_same_file(whole.dir, parts.dir, "model.safetensors");
        for (int c = DT_RUN_QAT; c <= DT_RUN_CONVERTED; c++) {
            ck_assert_double_eq(parts.summary.result[c].metrics.loss,
                                whole.summary.result[c].metrics.loss);
        }
    }
    job best = job_of(GPT TEXT END, folder, "best");
    best.overrides[0] = set;
    best.overrides[1] = "train.evaluate.every_steps=1";
    best.overrides[2] = "train.finish_with=best";
    best.overrides[3] = "train.optimizer.lr=0.5";
    run(&best);
    ck_assert(best.summary.same_bits_as_qat);
}
END_TEST

/* An example is an exact match if all counted tokens are right: checked with a model that always
 * predicts the same token. */
START_TEST(exact_match)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "lines");
    test_write_text(path, "{\"prompt\": \"ab\", \"completion\": \"a\"}\n"
                          "{\"prompt\": \"b\", \"completion\": \"aa\"}\n"
                          "{\"prompt\": \"b\", \"completion\": \"ab\"}\n"
                          "{\"prompt\": \"bb\", \"completion\": \"b\"}\n");
    dt_ctx *ctx = sample_context(1);
    dt_data_options data = dt_data_defaults();
    data.format = DT_DATA_JSONL;
    data.tokenizer = "chars";
    data.test = data.train = (dt_strings){ 1, { path } };
    const dt_gpt_options o = {
        .vocab = 2, .context = 3, .layers = 1, .heads = 1, .width = 8, .tied = false
    };
    dt_dataset *train, *validation, *test;
    dt_metrics metrics;
    dt_module *m;
    TEST_OK(ctx, dt_data_open(ctx, &data, &train, &validation, &test));
    TEST_OK(ctx, dt_gpt_create(ctx, &o, &m));
    TEST_OK(ctx, dt_fill(dt_param(m, "head.weight"), 0)); /* of equal logits the first is said: a */
    TEST_OK(ctx, dt_evaluate(m, test, NULL, &metrics, NULL));
    ck_assert_double_eq(dt_metric_value(&metrics, "exact_match"), 0.5);
    ck_assert_double_eq(dt_metric_value(&metrics, "accuracy"), 4.0 / 6);
    TEST_NEAR(metrics.loss, log(2), 1e-6, 0);
    dt_module_free(m);
    dt_dataset_free(train);
    dt_dataset_free(test);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(other_models_are_refused)
{
    dt_ctx *ctx = sample_context(1);
    const int32_t ids[] = { 0, 1, 0, 1 };
    dt_dataset *d;
    dt_module *m;
    dt_metrics metrics;
    TEST_OK(ctx, dt_text_create(ctx, ids, 4, 2, 3, &d));
    TEST_OK(ctx, dt_linear_create(ctx, 3, 2, true, &m));
    TEST_FAILS(ctx, DT_ERR_ARG, "language", dt_evaluate(m, d, NULL, &metrics, NULL));
    dt_evaluation how = { .batch_size = 1, .cache = DT_CACHE_INT4 };
    TEST_FAILS(ctx, DT_ERR_ARG, "a linear has no cache", dt_evaluate(m, d, &how, &metrics, NULL));
    dt_module_free(m);
    const dt_gpt_options o = { .vocab = 2, .context = 3, .layers = 1, .heads = 1, .width = 8 };
    TEST_OK(ctx, dt_gpt_create(ctx, &o, &m));
    how.cache = DT_CACHES;
    TEST_FAILS(ctx, DT_ERR_ARG, "cache is 3; it must be 0...2",
               dt_evaluate(m, d, &how, &metrics, NULL));
    dt_module_free(m);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- quantized weights ---------------------------------------------------------------------- */

static const char *const quantized[] = {
    "qat.preset=int8-static-int8-weight",
    "convert.rounder=gptq",
    "qat.rules=[{match: tokens, weight: {bits: 8}}, {match: head, weight: {bits: 8}}]",
};

START_TEST(tokens_calibrate)
{
    char folder[TEST_PATH];
    write_data(folder);
    job j = job_of(GPT TEXT END, folder, "run");
    j.overrides[0] = quantized[_i];
    run(&j);
    ck_assert(_i == 1 ? j.summary.same_bits_from_file : j.summary.same_bits_as_qat);
}
END_TEST

typedef struct quantizing {
    int64_t stop_at; /* weights; 0: never */
    int64_t done;
} quantizing;

static bool stop_quantizing(void *user)
{
    const quantizing *q = user;
    return q->stop_at > 0 && q->done >= q->stop_at;
}

static void count_weights(void *user, const dt_quantize_summary *s)
{
    ((quantizing *)user)->done = s->n;
}

static dt_status quantize(job *j, const char *name, int64_t stop_at, dt_quantize_summary *s)
{
    char model[TEST_PATH], output[TEST_PATH];
    quantizing q = { .stop_at = stop_at };
    const dt_quantize_job work = { .model = model,
                                   .output = output,
                                   .stop = stop_quantizing,
                                   .weight = count_weights,
                                   .user = &q };
    dt_ctx *ctx = sample_context(2);
    dt_recipe *recipe = NULL;
    test_join(model, j->dir, "float.safetensors");
    test_join(output, j->dir, name);
    TEST_OK(ctx, read_recipe(j, ctx, &recipe));
    const dt_status status = dt_quantize_model(ctx, recipe, &work, s);
    ck_assert_msg(status == DT_OK || status == DT_ERR_INTERRUPTED, "%s", dt_error(ctx));
    dt_recipe_free(recipe);
    if (status != DT_OK) dt_quantize_summary_free(s);
    if (status != DT_OK) dt_ctx_free(ctx); /* else the summary's */
    return status;
}

/* Experts are rounded with the rows routed to them. A resumed call gives the same bytes, and still
 * reports experts with too few rows from before. */
START_TEST(experts_are_quantized_layer_by_layer)
{
    char folder[TEST_PATH];
    dt_quantize_summary whole, part;
    write_data(folder);
    job j = job_of(EXPERTS TEXT END
                   "quantize: {rounder: qronos, calibration: {samples: 6, batch_size: 4}}\n",
                   folder, "run");
    run(&j);
    ck_assert_int_eq(quantize(&j, "whole", 0, &whole), DT_OK);
    for (int64_t n = 1; n < whole.n; n += 5) {
        ck_assert_int_eq(quantize(&j, "parts", n, &part), DT_ERR_INTERRUPTED);
    }
    ck_assert_int_eq(quantize(&j, "parts", 0, &part), DT_OK);
    ck_assert(part.resumed > 0 && part.n == whole.n && part.total.unseen == whole.total.unseen);
    ck_assert(whole.total.unseen > 0 && whole.total.unreached == 0);
    char a[TEST_PATH], b[TEST_PATH];
    test_join(a, j.dir, "whole");
    test_join(b, j.dir, "parts");
    size_t na, nb;
    char *one = test_read_file(a, &na), *two = test_read_file(b, &nb);
    ck_assert(na == nb && memcmp(one, two, na) == 0);
    free(one);
    free(two);
    dt_ctx *ctx[] = { whole.ctx, part.ctx };
    dt_quantize_summary_free(&whole);
    dt_quantize_summary_free(&part);
    dt_ctx_free(ctx[0]);
    dt_ctx_free(ctx[1]);
}
END_TEST

/* ---- inputs that are refused ---------------------------------------------------------------- */

static const struct mistake {
    const char *recipe, *override, *message;
} mistakes[] = {
    { GPT TEXT END, "model.vocab=20",
      "command line: error: 'model.vocab' is 20, but the data have 23 tokens; it must be at "
      "least 23" },
    { GPT TEXT END, "model.context=8",
      "text.yaml:3:81: error: examples have 11 tokens ('data.context'), but the model takes 8" },
    { GPT TEXT END, "data.context=500",
      "command line: error: data.context is 500, but data.train holds 320 tokens: 319 at most "
      "fit" },
    { GPT TEXT END, "data.test=[pairs]", "error: data.test: text 1 of it: " },
    { GPT TEXT END, "data.train=[empty]", "error: data.train.0: '" },
    { GPT TEXT END, "data.augment={shift: 1}", "'data.augment' belongs to images" },
    { GPT TEXT END, "data.tokenizer=nowhere.json", "'data.tokenizer': no such file: nowhere.json" },
    { GPT TEXT END, "data.format=tokens", "is a file, not chars" },
    { "run: {dir: unset}\nmodel: {family: mlp, sizes: [11, 5]}\n" TEXT END, NULL,
      "the data are tokens, but model.family mlp takes images" },
    { GPT "data: {format: digits}\n" END, NULL, "the data are images, but model.family gpt takes" },
};

START_TEST(a_mistake_has_a_place)
{
    char folder[TEST_PATH], path[TEST_PATH];
    write_data(folder);
    test_join(path, folder, "empty");
    test_write_text(path, "");
    job j = job_of(mistakes[_i].recipe, folder, "run");
    j.overrides[0] = mistakes[_i].override;
    if (strstr(j.recipe, "digits") != NULL) j.overrides[0] = "~data.dir";
    j.wanted = DT_ERR_CONFIG;
    run(&j);
    ck_assert_msg(strstr(j.message, mistakes[_i].message) != NULL, "%s", j.message);
    ck_assert(!test_file_exists(j.dir));
}
END_TEST

/* An example without labels has no loss, so an update of only such examples is an error. */
START_TEST(an_example_needs_a_label)
{
    char folder[TEST_PATH], path[TEST_PATH];
    write_data(folder);
    test_join(path, folder, "pairs");
    test_write_text(path, "{\"prompt\": \"ab\", \"completion\": \"\"}\n");
    job j = job_of(GPT PAIRS END, folder, "run");
    j.wanted = DT_ERR_CONFIG;
    run(&j);
    ck_assert_msg(strstr(j.message, "example 1 of it has no completion") != NULL, "%s", j.message);
}
END_TEST

Suite *test_token_runs_suite(void)
{
    Suite *s = suite_create("token_runs");
    TCase *runs = tcase_create("runs");
    tcase_set_timeout(runs, 300);
    tcase_add_loop_test(runs, a_run_has_its_metrics, 0, RECIPES);
    tcase_add_loop_test(runs, an_interrupted_run_resumes_bit_for_bit, 0, RECIPES);
    tcase_add_test(runs, adapters_beside_packed_weights);
    tcase_add_loop_test(runs, experts_work_with_all_other_settings, 0, REST);
    tcase_add_loop_test(runs, a_run_ends_early_with_its_best, 0, RECIPES);
    tcase_add_loop_test(runs, texts_while_it_trains, 0, RECIPES);
    tcase_add_test(runs, updates_weigh_by_labels);
    tcase_add_test(runs, files_carry_their_tokenizer);
    tcase_add_test(runs, a_damaged_tokenizer_is_found);
    tcase_add_test(runs, experts_are_quantized_layer_by_layer);
    tcase_add_loop_test(runs, tokens_calibrate, 0, DT__COUNT_OF(quantized));
    tcase_add_loop_test(runs, a_mistake_has_a_place, 0, DT__COUNT_OF(mistakes));
    tcase_add_test(runs, an_example_needs_a_label);
    suite_add_tcase(s, runs);
    TCase *evaluation = tcase_create("evaluation");
    tcase_add_test(evaluation, metrics_follow_from_logits);
    tcase_add_loop_test(evaluation, metrics_behind_a_cache, 0, DT_CACHES);
    tcase_add_loop_test(evaluation, a_run_sees_a_cache, 0, 4);
    tcase_add_loop_test(evaluation, a_run_with_a_cache_goes_on, 0, 2);
    tcase_add_test(evaluation, exact_match);
    tcase_add_test(evaluation, other_models_are_refused);
    suite_add_tcase(s, evaluation);
    return s;
}
