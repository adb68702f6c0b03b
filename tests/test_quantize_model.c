/* Models quantized without training: the result; an interrupted call that is resumed gives the same
 * bytes; refused calls; and the same rounders at the end of a run. */
#include "sample.h"

#include "io/safetensors/file_apart.h"

#include <detent/experimental/io.h>
#include <detent/experimental/train.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- small networks ------------------------------------------------------------------------- */

#define MOST_OVERRIDES 12
#define CALIBRATION "quantize.calibration={samples: 40, batch_size: 16}"

enum { MLP, CNN, UNET, GPT, NETS };

#define REST                                                                                       \
    "train: {epochs: 2, batch_size: 32, optimizer: {name: adamw, lr: 3e-3}}\n"                     \
    "qat: {preset: int8-dynamic-int4-weight, start_step: 4}\n"

static const char *const nets[NETS] = {
    [MLP] = "run: {dir: unset, seed: 3}\n"
            "model: {family: mlp, sizes: [784, 24, 16, 10], dropout: 0.1}\n"
            "data: {format: digits, train_count: 130, test_count: 40, seed: 5, augment: {shift: 1}}"
            "\n" REST,
    [CNN] = "run: {dir: unset, seed: 3}\n"
            "model: {family: cnn, image: [1, 28, 28], blocks: [{out: 6, stride: 2}, {out: 8, "
            "groups: 2, stride: 2, pool: max}], outputs: 10}\n"
            "data: {format: digits, train_count: 130, test_count: 40, seed: 5}\n" REST,
    [UNET] = "run: {dir: unset, seed: 3}\n"
             "model: {family: unet, image: [1, 28, 28], widths: [4, 8], outputs: 1}\n"
             "data: {format: digits, task: denoising, train_count: 130, test_count: 40, seed: 5}"
             "\n" REST,
    [GPT] = "run: {dir: unset, seed: 3}\n"
            "model: {family: gpt, vocab: 64, context: 16, layers: 2, heads: 2, width: 16}\n"
            "data: {format: adder, train_count: 130, test_count: 40}\n" REST,
};

static dt_status read_recipe(dt_ctx *ctx, int net, const char *const *overrides, dt_recipe **out)
{
    int n = 0;
    while (n < MOST_OVERRIDES && overrides[n] != NULL) n++;
    const dt_recipe_source source = { .path = "net.yaml",
                                      .text = nets[net],
                                      .bytes = strlen(nets[net]),
                                      .overrides = overrides,
                                      .n_overrides = n };
    return dt_recipe_read(ctx, &source, out);
}

/* folder/name; the hundredth call from here on overwrites it. */
static const char *in(const char *folder, const char *name)
{
    static char paths[100][TEST_PATH];
    static int next;
    char *path = paths[next++ % 100];
    test_join(path, folder, name);
    return path;
}

static void train(int net, const char *dir, const char *override, dt_run_summary *summary)
{
    char text[TEST_PATH + 16];
    const char *const overrides[] = { text, override, NULL };
    dt_ctx *ctx = sample_context(2);
    dt_recipe *recipe = NULL;
    snprintf(text, sizeof text, "run.dir=%s", dir);
    TEST_OK(ctx, read_recipe(ctx, net, overrides, &recipe));
    TEST_OK(ctx, dt_run(ctx, recipe, NULL, summary));
    dt_recipe_free(recipe);
    dt_ctx_free(ctx);
}

/* Trains weights a little, in float; returns the path of their file. */
static const char *float_model(int net, char folder[TEST_PATH])
{
    static char kept[NETS][TEST_PATH];
    if (kept[net][0] == '\0') {
        test_folder(kept[net]);
        train(net, in(kept[net], "float"), "~qat", NULL);
    }
    test_folder(folder);
    ck_assert_int_eq(test_shell(NULL, "cp -r '%s' '%s'", in(kept[net], "float"), folder), 0);
    return in(folder, "float/float.safetensors");
}

/* ---- a call --------------------------------------------------------------------------------- */

typedef struct call {
    int net;
    const char *model, *output;
    const char *overrides[MOST_OVERRIDES]; /* ended by NULL */
    bool converts;
    int threads;
    int64_t stop_at; /* weights of this call before it is asked to stop; 0: never */
    dt_status wanted;
    const char *words; /* of the message, if an error is expected */
    /* what came out */
    int64_t weights, n, resumed;
    dt_ptq_report total;
    char message[1024], log[4096];
    char *json;
} call;

static void log_line(void *user, const char *line)
{
    call *c = user;
    strncat(c->log, line, sizeof c->log - strlen(c->log) - 1);
}

static bool stop(void *user)
{
    const call *c = user;
    return c->stop_at > 0 && c->weights >= c->stop_at;
}

static void weight_done(void *user, const dt_quantize_summary *s)
{
    call *c = user;
    c->weights++;
    if (s->n < 1 || s->n > s->wanted || s->weight[s->n - 1].name == NULL) ck_abort();
}

static dt_status collect(void *user, const char *text, size_t bytes)
{
    char **all = user;
    *all = malloc(bytes + 1);
    memcpy(*all, text, bytes);
    (*all)[bytes] = 0;
    return DT_OK;
}

static dt_status quantize_in(dt_ctx *ctx, call *c)
{
    dt_recipe *recipe = NULL;
    dt_quantize_summary summary = { .ctx = ctx };
    const dt_quantize_job job = { .model = c->model,
                                  .output = c->output,
                                  .converts = c->converts,
                                  .stop = stop,
                                  .weight = weight_done,
                                  .user = c };
    dt_status s = read_recipe(ctx, c->net, c->overrides, &recipe);
    if (s == DT_OK) s = dt_quantize_model(ctx, recipe, &job, &summary);
    c->n = summary.n;
    c->resumed = summary.resumed;
    c->total = summary.total;
    if (s == DT_OK && c->json == NULL) s = dt_quantize_summary_json(&summary, collect, &c->json);
    dt_quantize_summary_free(&summary);
    dt_recipe_free(recipe);
    return s;
}

/* Makes the call in a context of its own; it must end with the expected status. */
static void quantize(call *c)
{
    dt_ctx *ctx = NULL;
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = c->threads > 0 ? c->threads : 2;
    options.log = log_line;
    options.log_user = c;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    c->weights = 0;
    c->log[0] = 0;
    const dt_status s = quantize_in(ctx, c);
    snprintf(c->message, sizeof c->message, "%s", dt_error(ctx));
    ck_assert_msg(s == c->wanted, "%s: %s: %s", c->output, dt_status_name(s), c->message);
    if (c->words != NULL) {
        ck_assert_msg(strstr(c->message, c->words) != NULL, "not \"%s\" but \"%s\"", c->words,
                      c->message);
    }
    if (c->net == MLP)
        ck_assert_uint_eq(dt_memory_of(ctx).used, 0); /* contexts keep convolutions */
    dt_ctx_free(ctx);
}

static void drop(call *c)
{
    free(c->json);
    c->json = NULL;
}

static void same_bytes(const char *a, const char *b)
{
    size_t n, m;
    char *x = test_read_file(a, &n), *y = test_read_file(b, &m);
    ck_assert_msg(n == m && memcmp(x, y, n) == 0, "%s and %s differ", a, b);
    free(x);
    free(y);
}

/* Tensors that differ between two files of the same names. */
static int tensors_that_differ(const char *a, const char *b)
{
    dt_ctx *ctx = sample_context(1);
    dt_file *x = NULL, *y = NULL;
    int differing = 0;
    TEST_OK(ctx, dt_file_open(ctx, a, &x));
    TEST_OK(ctx, dt_file_open(ctx, b, &y));
    ck_assert_int_eq(dt_file_count(x), dt_file_count(y));
    for (int64_t i = 0; i < dt_file_count(x); i++) {
        const dt_file_entry *e = dt_file_at(x, i), *f = dt_file_find(y, e->name);
        ck_assert_msg(f != NULL && e->bytes == f->bytes, "%s", e->name);
        differing += memcmp(e->data, f->data, e->bytes) != 0;
    }
    dt_file_close(x);
    dt_file_close(y);
    dt_ctx_free(ctx);
    return differing;
}

/* ---- results -------------------------------------------------------------------------------- */

/* The calibration data are scaled as the model's training data were, whatever the recipe says. */
START_TEST(data_are_scaled_as_the_model_reads_them)
{
    static const char *const scales[][2] = { { "data.mean=0.3", "data.deviation=0.1" },
                                             { "data.mean=-2", NULL },
                                             { "data.deviation=0.004", NULL } };
    char folder[TEST_PATH];
    const char *model = float_model(MLP, folder);
    call own = { .model = model,
                 .output = in(folder, "own.safetensors"),
                 .overrides = { "quantize.rounder=gptq", CALIBRATION,
                                "qat.preset=int8-static-int8-weight" } };
    quantize(&own);
    ck_assert_ptr_null(strstr(own.log, "the recipe gives it"));
    drop(&own);
    for (int i = 0; i < 3; i++) {
        call other = own;
        other.output = in(folder, "other.safetensors");
        other.overrides[3] = scales[i][0];
        other.overrides[4] = scales[i][1];
        quantize(&other);
        ck_assert_msg(strstr(other.log, "in whose place the model's are used") != NULL, "%s",
                      other.log);
        ck_assert_int_eq(tensors_that_differ(own.output, other.output), 0);
        drop(&other);
    }
}
END_TEST

/* A float model rounded to nearest equals the result of prepare and convert. */
START_TEST(nearest_equals_convert)
{
    char folder[TEST_PATH];
    call c = { .net = _i, .model = float_model(_i, folder), .output = in(folder, "q.safetensors") };
    quantize(&c);
    ck_assert(!test_file_exists(in(folder, "q.safetensors.partial")));
    dt_ctx *ctx = sample_context(2);
    dt_recipe *recipe = NULL;
    dt_module *m = NULL;
    dt_model_info info;
    TEST_OK(ctx, read_recipe(ctx, _i, c.overrides, &recipe));
    TEST_OK(ctx, dt_model_load(ctx, c.model, &m, &info));
    TEST_OK(ctx, dt_prepare(m, &dt_recipe_get(recipe)->qat));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    TEST_OK(ctx, dt_model_save(m, &info, in(folder, "n.safetensors")));
    ck_assert_int_eq(tensors_that_differ(c.output, in(folder, "n.safetensors")), 0);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    dt_recipe_free(recipe);
    dt_ctx_free(ctx);
    drop(&c);
}
END_TEST

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_number(value), "%s", key);
    return json_number_value(value);
}

/* The report has every weight in the order in which they run, and is never worse than nearest. */
START_TEST(every_weight_is_reported)
{
    char folder[TEST_PATH];
    call c = { .net = _i,
               .model = float_model(_i, folder),
               .output = in(folder, "q.safetensors"),
               .overrides = { "quantize.rounder=gptq", CALIBRATION } };
    call n = { .net = _i, .model = c.model, .output = in(folder, "n.safetensors") };
    quantize(&c);
    quantize(&n);
    ck_assert_int_eq(c.n, n.n);
    ck_assert_int_gt(tensors_that_differ(c.output, n.output), 0);
    json_t *root = json_loads(c.json, 0, NULL);
    ck_assert_msg(root != NULL, "no JSON: %s", c.json);
    const json_t *weights = json_object_get(root, "weights");
    const json_t *total = json_object_get(root, "total");
    ck_assert_int_eq((int64_t)json_array_size(weights), c.n);
    double changed = 0, elements = 0;
    for (size_t i = 0; i < json_array_size(weights); i++) {
        const json_t *w = json_array_get(weights, i);
        const double rows = number_of(w, "rows");
        const char *name = json_string_value(json_object_get(w, "name"));
        const char *method = json_string_value(json_object_get(w, "method"));
        elements += rows * number_of(w, "columns");
        ck_assert_str_eq(method, strcmp(name, "tokens.weight") == 0 ? "nearest" : "gptq");
        if (strcmp(method, "nearest") == 0) continue; /* a tied table, before any layer's input */
        ck_assert(json_is_false(json_object_get(w, "fallback")));
        ck_assert_double_gt(number_of(w, "samples"), 39);
        ck_assert_double_le(number_of(w, "error"), number_of(w, "nearest_error") * (1 + 1e-9));
        changed += number_of(w, "changed");
    }
    ck_assert_double_gt(changed, 0);
    ck_assert_double_eq(number_of(total, "elements"), elements);
    ck_assert_double_eq(number_of(total, "samples"), 40);
    ck_assert_double_eq(number_of(total, "layers"), (double)c.n);
    json_decref(root);
    drop(&c);
    drop(&n);
}
END_TEST

#define BOUNDED                                                                                    \
    "quantize={rounder: a2gptq, accumulator: {bits: 16, tile: 32}, calibration: {samples: 40}}"

static const char *const rounders[] = { "quantize.rounder=gptq", "quantize.rounder=gpfq",
                                        "quantize.rounder=qronos", BOUNDED };

#define ROUNDERS ((int)(sizeof rounders / sizeof rounders[0]))

/* Under a sanitizer each rounder runs on one of as many networks. */
static const test_draws net_steps = { .usual = 1, .sanitized = 4 };

/* Every rounder on every network: the same bytes on one and three threads, and a valid file. */
START_TEST(threads_change_no_byte)
{
    char folder[TEST_PATH];
    const int net = _i % NETS;
    if ((net + _i / NETS) % test_count(net_steps) != 0) return;
    call one = { .net = net,
                 .model = float_model(net, folder),
                 .output = in(folder, "one.safetensors"),
                 .overrides = { rounders[_i / NETS] },
                 .threads = 1 };
    call three = one;
    three.output = in(folder, "three.safetensors");
    three.threads = 3;
    quantize(&one);
    quantize(&three);
    same_bytes(one.output, three.output);
    dt_ctx *ctx = sample_context(2);
    dt_file *file = NULL;
    TEST_OK(ctx, dt_file_open(ctx, one.output, &file));
    TEST_OK(ctx, dt_model_check(file));
    const char *settings = dt_file_meta(file, "detent.quantize");
    ck_assert(settings != NULL && strstr(settings, "\"rounder\":") != NULL);
    dt_file_close(file);
    dt_ctx_free(ctx);
    drop(&one);
    drop(&three);
}
END_TEST

/* The `qat` block of these networks has the default preset. */
START_TEST(without_qat_its_defaults_apply)
{
    char folder[TEST_PATH];
    call given = { .net = _i,
                   .model = float_model(_i, folder),
                   .output = in(folder, "given.safetensors"),
                   .overrides = { "qat.start_step=0" } };
    call none = given;
    none.output = in(folder, "none.safetensors");
    none.overrides[0] = "~qat";
    quantize(&given);
    quantize(&none);
    same_bytes(given.output, none.output);
    drop(&given);
    drop(&none);
}
END_TEST

/* Static and learned ranges see data before they are needed, with one of so many presets of a
 * network. */
static const test_draws range_steps = { .usual = 1, .sanitized = 2 };

START_TEST(ranges_are_observed_first)
{
    static const char *const presets[] = { "qat.preset=int8-static-int8-weight",
                                           "qat.preset=int4-int4", "qat.preset=int4-weight" };
    char folder[TEST_PATH];
    if ((_i + _i / NETS) % test_count(range_steps) != 0) return;
    call c = { .net = _i % NETS,
               .model = float_model(_i % NETS, folder),
               .output = in(folder, "q.safetensors"),
               .overrides = { "quantize.rounder=gptq", CALIBRATION, presets[_i / NETS] } };
    quantize(&c);
    ck_assert_int_gt(c.n, 2);
    drop(&c);
}
END_TEST

/* ---- interrupted ---------------------------------------------------------------------------- */

/* Stopped after each weight, by a request or a full disk, and resumed: the result has the bytes and
 * the whole report of an uninterrupted call. */
START_TEST(an_interrupted_call_resumes)
{
    char folder[TEST_PATH];
    call straight = { .net = _i,
                      .model = float_model(_i, folder),
                      .output = in(folder, "straight.safetensors"),
                      .overrides = { "quantize.rounder=qronos", CALIBRATION } };
    call c = straight;
    c.output = in(folder, "q.safetensors");
    const char *partial = in(folder, "q.safetensors.partial");
    quantize(&straight);
    c.stop_at = 1;
    c.wanted = DT_ERR_INTERRUPTED;
    c.words = "q.safetensors.partial holds them";
    for (int64_t i = 1; i < straight.n; i++) {
        quantize(&c);
        ck_assert_int_eq(c.n, i);
        ck_assert_int_eq(c.weights, 1);
        ck_assert(test_file_exists(partial) && !test_file_exists(c.output));
    }
    c.wanted = DT_OK;
    c.words = NULL;
    quantize(&c);
    ck_assert_msg(strstr(c.log, "going on behind") != NULL, "%s", c.log);
    ck_assert_int_eq(c.resumed, straight.n - 1);
    ck_assert_int_eq(c.n, straight.n);
    ck_assert_int_eq(c.total.elements, straight.total.elements);
    ck_assert(!test_file_exists(partial));
    same_bytes(straight.output, c.output);
    drop(&straight);
    drop(&c);
}
END_TEST

static const struct {
    const char *override, *log;
    bool other_model, damaged;
} unfit[] = {
    { "quantize.rounding.damping=0.02", "was begun with other settings; begun anew", false, false },
    { "qat.weight.bits=3", "was begun with other settings; begun anew", false, false },
    { "quantize.correct_bias=true", "was begun with other settings; begun anew", false, false },
    { "run.seed=4", "was begun with other calibration data; begun anew", false, false },
    { "data.seed=6", "was begun with other calibration data; begun anew", false, false },
    { NULL, "was begun of another file; begun anew", true, false },
    { NULL, "begun anew", false, true },
    { "quantize.calibration.cache_mb=1", "going on behind", false, false },
    { "run.threads=1", "going on behind", false, false },
};

#define UNFIT ((int)(sizeof unfit / sizeof unfit[0]))

/* A partial result of another call is reported, and ignored. */
START_TEST(a_partial_result_must_fit)
{
    char folder[TEST_PATH];
    call c = { .net = MLP,
               .model = float_model(MLP, folder),
               .output = in(folder, "q.safetensors"),
               .overrides = { "quantize.rounder=gptq",
                              "quantize.calibration={samples: 40, batch_size: 16}" },
               .stop_at = 1,
               .wanted = DT_ERR_INTERRUPTED };
    const char *partial = in(folder, "q.safetensors.partial");
    quantize(&c);
    c.wanted = DT_OK;
    c.stop_at = 0;
    c.overrides[2] = unfit[_i].override;
    if (unfit[_i].other_model) {
        train(MLP, in(folder, "other"), "model.dropout=0.2", NULL);
        c.model = in(folder, "other/float.safetensors");
    }
    if (unfit[_i].damaged) {
        size_t n;
        char *bytes = test_read_file(partial, &n);
        bytes[n - 1] ^= 1;
        test_write_file(partial, bytes, n);
        free(bytes);
    }
    call straight = c;
    straight.output = in(folder, "straight.safetensors");
    quantize(&c);
    ck_assert_msg(strstr(c.log, unfit[_i].log) != NULL, "%s", c.log);
    quantize(&straight);
    same_bytes(straight.output, c.output);
    ck_assert(!test_file_exists(partial));
    drop(&straight);
    drop(&c);
}
END_TEST

/* A partial result with the model of another file, or with `report` as its report; "":
 * unchanged. */
static void forge(const char *partial, const char *model, const char *report)
{
    dt_ctx *ctx = sample_context(1);
    dt_file *own = NULL, *from = NULL;
    dt_writer *w = NULL;
    const char *key, *text;
    TEST_OK(ctx, dt_file_open(ctx, partial, &own));
    TEST_OK(ctx, dt_file_open(ctx, model, &from));
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    TEST_OK(ctx, dt_writer_meta(w, "detent.partial", dt_file_meta(own, "detent.partial")));
    if (*report == 0) report = dt_file_meta(own, "detent.report");
    TEST_OK(ctx, dt_writer_meta(w, "detent.report", report));
    for (int64_t i = 0; dt_file_meta_at(from, i, &key, &text); i++) {
        static const char *const written[] = { "detent.partial", "detent.report", "detent.version",
                                               "detent.xxh3" };
        bool again = false;
        for (int k = 0; k < 4; k++) again |= strcmp(key, written[k]) == 0;
        if (!again) TEST_OK(ctx, dt_writer_meta(w, key, text));
    }
    for (int64_t i = 0; i < dt_file_count(from); i++) {
        TEST_OK(ctx, dt_writer_add_bytes(w, dt_file_at(from, i)));
    }
    TEST_OK(ctx, dt_writer_write(w, partial));
    dt_writer_free(w);
    dt_file_close(own);
    dt_file_close(from);
    dt_ctx_free(ctx);
}

#define REPORT(name, shape, dead)                                                                  \
    "{\"name\":\"" name "\",\"scheme\":\"int4\",\"shape\":" shape                                  \
    ",\"method\":\"gptq\",\"fallback\":false,\"rows\":1,\"columns\":1,\"groups\":1,"               \
    "\"samples\":1,\"dead\":" dead ",\"zeros_kept\":0,\"kept_nearest\":0,\"damping_share\":0,"     \
    "\"damping\":0,\"loss\":0,\"error\":0,\"nearest_error\":0,\"changed\":0,"                      \
    "\"accumulator_bits\":0,\"sum_bits\":0,\"seconds\":0}"
#define HUGE "9223372036854775807"
#define DONE REPORT("layers.0.weight", "[24,784]", "0")

static const struct {
    const char *model; /* in the folder; NULL: the partial result's own */
    const char *report;
    bool anew;
} forged[] = {
    { "float/float.safetensors", "", true },
    { "wide/float.safetensors", "", true },
    { "whole.safetensors", "[]", false },
    { NULL, "[]", false },
    { NULL, "[" REPORT("head.weight", "[10,16]", "0") "]", true },
    { NULL, "[" REPORT("layers.0.weight", "[24,784]", "-1") "]", true },
    { NULL, "[" REPORT("layers.0.weight", "[24,785]", "0") "]", true },
    { NULL, "[" DONE "," DONE "]", true },
    { NULL, "[" REPORT("layers.0.weight", "[24,784]", HUGE) "]", true },
    { NULL, "[" REPORT("layers.0.weight", "[4611686018427387904,2]", "0") "]", true },
    { NULL, "[" REPORT("layers.0.weight", "[1e9]", "0") "]", true },
    { NULL, "{}", true },
};

/* A partial file may have any contents; an invalid one is not used. */
START_TEST(a_partial_result_may_lie)
{
    char folder[TEST_PATH];
    call c = { .net = MLP,
               .model = float_model(MLP, folder),
               .output = in(folder, "q.safetensors"),
               .overrides = { "quantize.rounder=gpfq", CALIBRATION },
               .stop_at = 1,
               .wanted = DT_ERR_INTERRUPTED };
    const char *partial = in(folder, "q.safetensors.partial");
    call whole = c;
    whole.stop_at = 0;
    whole.wanted = DT_OK;
    whole.output = in(folder, "whole.safetensors");
    train(MLP, in(folder, "wide"), "model.sizes=[784, 32, 16, 10]", NULL);
    quantize(&whole);
    quantize(&c);
    forge(partial, forged[_i].model == NULL ? partial : in(folder, forged[_i].model),
          forged[_i].report);
    c.stop_at = 0;
    c.wanted = DT_OK;
    quantize(&c);
    ck_assert_msg((strstr(c.log, "begun anew") != NULL) == forged[_i].anew, "%s", c.log);
    same_bytes(whole.output, c.output);
    drop(&c);
    drop(&whole);
}
END_TEST

/* ---- refused calls at each entry point ------------------------------------------------------ */

static const struct {
    int net;
    const char *model; /* in the folder of the runs */
    const char *overrides[3];
    dt_status wanted;
    const char *words;
} doors[] = {
    { MLP,
      "qat/model.safetensors",
      { NULL },
      DT_ERR_FORMAT,
      "integers already; give a float model" },
    { MLP, "float/recipe.yaml", { NULL }, DT_ERR_FORMAT, "recipe.yaml" },
    { MLP, "nothing.safetensors", { NULL }, DT_ERR_IO, "nothing.safetensors" },
    { MLP,
      "float/float.safetensors",
      { "qat.rules=[{match: tail, skip: true}]" },
      DT_ERR_CONFIG,
      "'qat.rules.0.match': 'tail' matches no module" },
    { MLP,
      "float/float.safetensors",
      { "quantize.weight.bits=3" },
      DT_ERR_CONFIG,
      "'quantize.weight' is of files without a model" },
    { MLP,
      "float/float.safetensors",
      { "quantize.tensors=[{match: head, skip: true}]" },
      DT_ERR_CONFIG,
      "'quantize.tensors' is of files without a model" },
    { MLP,
      "float/float.safetensors",
      { "data={format: idx, dir: /nowhere, train: [a, b]}" },
      DT_ERR_CONFIG,
      "/nowhere" },
    { MLP,
      "float/float.safetensors",
      { "quantize={rounder: a2gptq, accumulator: {bits: 16, input: [-8, 7]}}" },
      DT_ERR_CONFIG,
      "input is [-8, 7], but the inputs of layers.0 are codes of 8 bits" },
    { MLP,
      "float/float.safetensors",
      { "quantize={rounder: a2gptq, accumulator: {bits: 16, input: [-128, 100]}}" },
      DT_ERR_CONFIG,
      "input is [-128, 100], but the inputs of layers.0 are codes of 8 bits" },
    { MLP,
      "float/float.safetensors",
      { "quantize={rounder: gptq, rounding: {order: group}}", "qat.weight.granularity=channel" },
      DT_ERR_CONFIG,
      "'qat.weight.granularity' must be group" },
    { MLP,
      "float/float.safetensors",
      { "quantize.correct_bias=true", "qat.preset=device-int8" },
      DT_ERR_CONFIG,
      "is not for networks of integers alone" },
    { MLP,
      "qat/checkpoints/step-0000000010.safetensors",
      { "quantize.correct_bias=true" },
      DT_ERR_CONFIG,
      "its biases were trained with the codes" },
};

#define DOORS ((int)(sizeof doors / sizeof doors[0]))

/* Nothing is written. */
START_TEST(bad_calls_are_refused)
{
    char folder[TEST_PATH];
    float_model(MLP, folder);
    if (strncmp(doors[_i].model, "qat/", 4) == 0) train(MLP, in(folder, "qat"), NULL, NULL);
    const int entries = sample_entries(folder);
    call c = { .net = doors[_i].net,
               .model = in(folder, doors[_i].model),
               .output = in(folder, "q.safetensors"),
               .wanted = doors[_i].wanted,
               .words = doors[_i].words };
    memcpy(c.overrides, doors[_i].overrides, sizeof doors[_i].overrides);
    quantize(&c);
    ck_assert_int_eq(sample_entries(folder), entries);
}
END_TEST

static void write_wide_images(const char *folder)
{
    dt_ctx *ctx = sample_context(1);
    dt_dataset *wide = sample_counted(ctx, 20, 12, 16, 4);
    TEST_OK(ctx, dt_idx_write(wide, in(folder, "images"), in(folder, "labels")));
    dt_dataset_free(wide);
    dt_ctx_free(ctx);
}

START_TEST(images_must_fit)
{
    char folder[TEST_PATH], data[TEST_PATH + 64];
    call c = { .net = MLP,
               .model = float_model(MLP, folder),
               .output = in(folder, "q.safetensors"),
               .overrides = { data },
               .wanted = DT_ERR_FORMAT,
               .words = "the images of the data are [1,12,16]" };
    write_wide_images(folder);
    snprintf(data, sizeof data, "data={format: idx, dir: '%s', train: [images, labels]}", folder);
    quantize(&c);
}
END_TEST

/* An output that cannot be written is detected before a weight is rounded. */
START_TEST(the_place_must_be_writable)
{
    char folder[TEST_PATH];
    call c = { .net = MLP,
               .model = float_model(MLP, folder),
               .output = in(folder, "no/such/q.safetensors"),
               .wanted = DT_ERR_IO,
               .words = "q.safetensors.partial" };
    quantize(&c);
    ck_assert_int_eq(c.weights, 0);
}
END_TEST

/* The input file is never overwritten, under any name. */
START_TEST(the_input_file_is_never_overwritten)
{
    char folder[TEST_PATH];
    const char *model = float_model(MLP, folder), *link = in(folder, "link.safetensors");
    const char *partial = in(folder, "q.safetensors.partial");
    ck_assert_int_eq(
        test_shell(NULL, "ln -s '%s' '%s' && cp '%s' '%s'", model, link, model, partial), 0);
    call calls[] = { { .model = model, .output = model },
                     { .model = model, .output = link },
                     { .model = partial, .output = in(folder, "q.safetensors") } };
    for (int i = 0; i < 3; i++) {
        calls[i].net = MLP;
        calls[i].wanted = DT_ERR_IO;
        calls[i].words = "would be overwritten: it is read";
        quantize(&calls[i]);
    }
    same_bytes(model, partial);
}
END_TEST

/* Nor is a file of an input folder; other files may be written there. */
START_TEST(files_of_the_input_folder_are_never_overwritten)
{
    char from[TEST_PATH], folder[TEST_PATH];
    if (!test_golden(from, "hf/tiny")) return;
    test_folder(folder);
    const char *tiny = in(folder, "tiny"), *link = in(folder, "link");
    ck_assert_int_eq(
        test_shell(NULL, "cp -r '%s' '%s' && ln -s tiny/config.json '%s'", from, tiny, link), 0);
    const char *const files[] = { in(tiny, "model.safetensors"), in(tiny, "config.json"), link };
    dt_ctx *ctx = sample_context(1);
    for (int i = 0; i < 3; i++) {
        TEST_FAILS(ctx, DT_ERR_IO, "would be overwritten: it is in the folder that is read",
                   dt__file_apart(ctx, files[i], tiny));
    }
    TEST_OK(ctx, dt__file_apart(ctx, in(tiny, "q.safetensors"), tiny));
    dt_ctx_free(ctx);
}
END_TEST

/* Each time from the beginning. */
static dt_status scenario(dt_ctx *ctx, void *user)
{
    call *c = user;
    char partial[TEST_PATH + 16];
    snprintf(partial, sizeof partial, "%s.partial", c->output);
    remove(partial);
    return quantize_in(ctx, c);
}

START_TEST(every_allocation_may_fail)
{
    char folder[TEST_PATH];
    call c = { .net = MLP,
               .model = float_model(MLP, folder),
               .output = in(folder, "q.safetensors"),
               .overrides = { "quantize.rounder=gptq",
                              "quantize.calibration={samples: 8, batch_size: 4}" } };
    test_every_allocation(scenario, &c);
    drop(&c);
}
END_TEST

/* ---- after training ------------------------------------------------------------------------- */

/* The end of a run, `convert` of it, and `quantize` of its checkpoint give the same codes. */
START_TEST(a_run_may_end_with_a_rounder)
{
    char folder[TEST_PATH];
    dt_run_summary summary;
    test_folder(folder);
    train(_i, in(folder, "run"),
          "convert={rounder: gptq, calibration: {samples: 40, batch_size: 16}}", &summary);
    ck_assert_str_eq(summary.rounder, "gptq");
    ck_assert(summary.same_bits_from_file && !summary.same_bits_as_qat);
    ck_assert_double_eq(summary.clipped, 0);
    json_t *root = json_load_file(in(folder, "run/summary.json"), 0, NULL);
    const json_t *converted = json_object_get(root, "converted");
    ck_assert_str_eq(json_string_value(json_object_get(converted, "rounder")), "gptq");
    ck_assert(json_is_true(json_object_get(converted, "same_bits_from_file")));
    ck_assert(json_is_false(json_object_get(converted, "same_bits_as_qat")));
    json_decref(root);
    call c = { .net = _i,
               .model = in(folder, "run/checkpoints/step-0000000010.safetensors"),
               .output = in(folder, "c.safetensors"),
               .overrides = { "convert={rounder: gptq, calibration: {samples: 40, batch_size: 16}}",
                              CALIBRATION, "quantize.rounder=gptq" },
               .converts = true };
    quantize(&c);
    ck_assert_str_eq(c.log, "");
    ck_assert_int_eq(tensors_that_differ(c.output, in(folder, "run/model.safetensors")), 0);
    c.converts = false;
    c.output = in(folder, "q.safetensors");
    quantize(&c);
    ck_assert_msg(strstr(c.log, "its own settings are used") != NULL, "%s", c.log);
    same_bytes(c.output, in(folder, "c.safetensors"));
    drop(&c);
}
END_TEST

static dt_status run_with(const char *dir, const char *override, char message[1024])
{
    char text[TEST_PATH + 16];
    const char *const overrides[] = { text, override, NULL };
    dt_ctx *ctx = sample_context(2);
    dt_recipe *recipe = NULL;
    snprintf(text, sizeof text, "run.dir=%s", dir);
    dt_status s = read_recipe(ctx, MLP, overrides, &recipe);
    if (s == DT_OK) s = dt_run(ctx, recipe, NULL, NULL);
    snprintf(message, 1024, "%s", dt_error(ctx));
    dt_recipe_free(recipe);
    dt_ctx_free(ctx);
    return s;
}

/* Settings that do not fit the weights are found before training. */
START_TEST(a_rounder_is_checked_before_training)
{
    char folder[TEST_PATH], message[1024];
    test_folder(folder);
    const dt_status s =
        run_with(in(folder, "run"),
                 "convert={rounder: a2gptq, accumulator: {bits: 16, input: [0, 15]}}", message);
    ck_assert_int_eq(s, DT_ERR_CONFIG);
    ck_assert_msg(strstr(message, "codes of 8 bits") != NULL, "%s", message);
    ck_assert_int_eq(sample_entries(folder), 0);
}
END_TEST

Suite *test_quantize_model_suite(void)
{
    Suite *suite = suite_create("quantize_model");
    TCase *all = tcase_create("quantize_model");
    tcase_set_timeout(all, 120);
    tcase_add_test(all, data_are_scaled_as_the_model_reads_them);
    tcase_add_loop_test(all, nearest_equals_convert, 0, NETS);
    tcase_add_loop_test(all, every_weight_is_reported, 0, NETS);
    tcase_add_loop_test(all, threads_change_no_byte, 0, NETS * ROUNDERS);
    tcase_add_loop_test(all, without_qat_its_defaults_apply, 0, NETS);
    tcase_add_loop_test(all, ranges_are_observed_first, 0, NETS * 3);
    tcase_add_loop_test(all, an_interrupted_call_resumes, 0, NETS);
    tcase_add_loop_test(all, a_partial_result_must_fit, 0, UNFIT);
    tcase_add_loop_test(all, a_partial_result_may_lie, 0, (int)(sizeof forged / sizeof forged[0]));
    tcase_add_loop_test(all, bad_calls_are_refused, 0, DOORS);
    tcase_add_test(all, images_must_fit);
    tcase_add_test(all, the_place_must_be_writable);
    tcase_add_test(all, the_input_file_is_never_overwritten);
    tcase_add_test(all, files_of_the_input_folder_are_never_overwritten);
    tcase_add_test(all, every_allocation_may_fail);
    tcase_add_loop_test(all, a_run_may_end_with_a_rounder, 0, NETS);
    tcase_add_test(all, a_rounder_is_checked_before_training);
    suite_add_tcase(suite, all);
    return suite;
}
