/* A recipe; the first byte says what it is read for. What is read without an error is shown, and
 * what is shown is read again and shown the same. */
#include "fuzz.h"

#include "testing.h"

#include <detent/experimental/train.h>

#include <stdio.h>

typedef struct text {
    char *at;
    size_t n;
} text;

static dt_status keep(void *user, const char *part, size_t n)
{
    text *t = user;
    t->at = realloc(t->at, t->n + n + 1);
    FUZZ_NEEDS(t->at != NULL, "memory");
    memcpy(t->at + t->n, part, n);
    t->n += n;
    t->at[t->n] = 0;
    return DT_OK;
}

static dt_recipe *read_text(dt_ctx *ctx, const char *at, size_t n, dt_recipe_use use)
{
    const dt_recipe_source s = {
        .path = "r.yaml", .text = at, .bytes = n, .leave_files = true, .use = use
    };
    dt_recipe *r = NULL;
    const dt_status status = dt_recipe_read(ctx, &s, &r);
    if (status == DT_OK) return r;
    FUZZ_HOLDS(r == NULL || dt_recipe_error_count(r) > 0, "no error in the list");
    fuzz_refused(ctx, r != NULL && status != DT_ERR_CONFIG);
    dt_recipe_free(r);
    return NULL;
}

/* What is shown, and the values alone. */
static text shown(dt_ctx *ctx, const dt_recipe *r, text *json)
{
    text t = { 0 };
    *json = t;
    FUZZ_HOLDS(dt_recipe_show(r, keep, &t) == DT_OK, "not shown: %s", dt_error(ctx));
    FUZZ_HOLDS(dt_recipe_json(r, keep, json) == DT_OK, "no JSON: %s", dt_error(ctx));
    return t;
}

static void check(dt_ctx *ctx, const dt_recipe *r, dt_recipe_use use)
{
    text a, b, values, again;
    a = shown(ctx, r, &values);
    dt_recipe *q = read_text(ctx, a.at, a.n, use);
    /* with model.init options come from a file, which was not read */
    FUZZ_HOLDS(q != NULL || dt_recipe_get(r)->model.init != NULL, "not read again: %s\n%s",
               dt_error(ctx), a.at);
    if (q != NULL) {
        b = shown(ctx, q, &again);
        FUZZ_HOLDS(values.n == again.n && memcmp(values.at, again.at, again.n) == 0,
                   "%s\nbecomes\n%s", values.at, again.at);
        free(b.at);
        free(again.at);
    }
    dt_recipe_free(q);
    free(a.at);
    free(values.at);
}

static void run(const uint8_t *data, size_t n)
{
    if (n == 0) return;
    const dt_recipe_use use = (dt_recipe_use)(data[0] % 4);
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    dt_recipe *r = read_text(ctx, (const char *)data + 1, n - 1, use);
    if (r != NULL) check(ctx, r, use);
    dt_recipe_free(r);
    fuzz_end(ctx);
}

static void seeds(const fuzz_seeds *s)
{
    static const char *const names[] = { "digits-2bit",     "digits-cnn",        "digits-mobilenet",
                                         "sensors-anomaly", "shakespeare-moe",   "table-values",
                                         "sounds-dscnn",    "mnist-cnn-w4a4",    "sensors-gru",
                                         "adder",           "mnist-mlp-finetune" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[TEST_PATH];
        size_t n;
        snprintf(path, sizeof path, "%s/configs/%s.yaml", DETENT_SOURCE_DIR, names[i]);
        char *recipe = test_read_file(path, &n);
        memmove(recipe + 1, recipe, n); /* over its NUL */
        recipe[0] = 0;
        fuzz_seed(s, names[i], recipe, n + 1);
        free(recipe);
    }
    fuzz_seed_text(s, "quantize",
                   "\1quantize: {rounder: gptq, weight: {bits: 3, granularity: group, "
                   "group_size: 4}, tensors: [{match: a, skip: true}, {match: b, op: conv1d}]}\n");
    fuzz_seed_text(s, "evaluate", "\2data: {format: csv, test: [a.csv]}\n");
    fuzz_seed_text(s, "layers",
                   "\3run: {dir: r}\ndata: {format: digits}\nmodel:\n  family: layers\n"
                   "  input: [1, 28, 28]\n  layers:\n  - {conv2d: a, out: 4, norm: batch}\n"
                   "  - {repeat: 2, name: b, layers: [{conv2d: c, out: 4, padding: 1}, "
                   "{add: s, from: [c, input]}]}\n  - flatten\n  - {linear: head, out: 10}\n");
}

const fuzz_target fuzz_target_recipe = { "recipe", "a recipe, shown and read again", run, seeds };
