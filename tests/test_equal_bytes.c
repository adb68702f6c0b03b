/* Runs whose bits must be equal: a run and its repetition, with any number of threads, resumed
 * after any update, and with any content of uninitialized memory. Rows come from the tables of the
 * source, so a new optimizer, schedule, family, preset, range or observer has a row without a
 * change here, and a family without a model below fails.
 *
 * DETENT_BYTES names a file to which each row appends its name and a hash of its final weights:
 * scripts/equal-bytes compares those of compilers and instruction sets. */
#include "fault_runs.h"

#include "core/core.h"
#include "io/model/model.h"
#include "qat/quantized.h"

#include <detent/io.h>
#include <detent/experimental/optim.h>
#include <detent/train.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- rows ------------------------------------------------------------------------------------ */

#define OVERRIDES 3

typedef struct row {
    char name[64];
    const char *family;
    char override[OVERRIDES][160];
} row;

static row rows[128];
static int n_rows;

static row *add_row(const char *family, const char *kind, const char *name)
{
    if (n_rows == DT__COUNT_OF(rows)) abort(); /* no test runs yet, so none can fail */
    row *r = &rows[n_rows++];
    *r = (row){ .family = family };
    snprintf(r->name, sizeof r->name, "%s %s", kind, name);
    return r;
}

/* The choices of a key that has a list of them. */
static const char *const *choices_of(const dt_key *keys, const char *name)
{
    while (strcmp(keys->name, name) != 0) keys++;
    return keys->choices;
}

/* Settings that a choice requires besides its name. */
static const char *extra_of(const char *name)
{
    static const char *const extras[][2] = {
        { "sgd", ", momentum: 0.9" },
        { "multistep", ", milestones: [2, 5]" },
        { "step", ", every: 2" },
        { "cosine_restarts", ", every: 2, growth: 2" },
        { "plateau", ", patience: 1" },
        { "warmup_stable_decay", ", decay_steps: 2" },
        { "percentile", ", percentile: 99" },
    };
    for (int i = 0; i < DT__COUNT_OF(extras); i++) {
        if (strcmp(extras[i][0], name) == 0) return extras[i][1];
    }
    return "";
}

static void add_choices(const char *kind, const char *form, const char *const *choices)
{
    for (int i = 0; choices[i] != NULL; i++) {
        row *r = add_row("mlp", kind, choices[i]);
        snprintf(r->override[0], sizeof r->override[0], form, choices[i], extra_of(choices[i]));
    }
}

/* Ranges of weights and of activations, each with each; fixed ones are for devices. */
static void add_ranges(void)
{
    row *given = add_row("mlp", "ranges of weights and activations", "fixed");
    snprintf(given->override[0], sizeof given->override[0],
             "qat={preset: device-int8, start_step: 2, activation: {range: fixed, low: -4, high: "
             "4}}");
    const char *const *range = choices_of(dt__range_keys, "range");
    for (int w = 0; range[w] != NULL; w++) {
        for (int a = 0; range[a] != NULL; a++) {
            if (strcmp(range[w], "fixed") == 0 || strcmp(range[a], "fixed") == 0) continue;
            char name[48];
            snprintf(name, sizeof name, "%s, %s", range[w], range[a]);
            row *r = add_row("mlp", "ranges of weights and activations", name);
            const bool is_static = strcmp(range[a], "static") == 0;
            snprintf(r->override[0], sizeof r->override[0],
                     "qat={start_step: 2, %sweight: {range: %s}, activation: {range: %s}}",
                     is_static ? "freeze_observer_step: 6, " : "", range[w], range[a]);
        }
    }
}

static void make_rows(void)
{
    if (n_rows > 0) return;
    for (int i = 0; dt_family_at(i) != NULL; i++) {
        add_row(dt_family_at(i)->name, "family", dt_family_at(i)->name);
    }
    add_choices("optimizer", "train.optimizer={name: %s, lr: 1e-3%s}",
                choices_of(dt_optimizer_keys, "name"));
    add_choices("schedule", "train.schedule={name: %s, warmup_steps: 1%s}",
                choices_of(dt_schedule_keys, "name"));
    add_choices("preset", "qat={preset: %s, start_step: 2}%s", dt__preset_names);
    add_choices("observer",
                "qat={start_step: 2, freeze_observer_step: 6, activation: {range: static, "
                "observer: %s%s}}",
                choices_of(dt__range_keys, "observer"));
    add_ranges();
}

/* ---- models ---------------------------------------------------------------------------------- */

#define TABLE "data: {format: table, train_count: 64, test_count: 20, validation: 0.25}\n"
#define DIGITS "data: {format: digits, train_count: 48, test_count: 10, validation: 0.25}\n"
#define DENOISING                                                                                  \
    "data: {format: digits, task: denoising, train_count: 48, test_count: 10, validation: 0.25}\n"
#define ADDER "data: {format: adder, train_count: 64, test_count: 10, validation: 0.25}\n"
#define END                                                                                        \
    "run: {dir: run, seed: 3, report: false}\n"                                                    \
    "train: {epochs: 2, batch_size: 12, optimizer: {name: adamw, lr: 3e-3}, log: {every_steps: "   \
    "2}, checkpoint: {every_steps: 3}, clip_grad_norm: 1}\n"                                       \
    "qat: {start_step: 3}\n"

static const char *const models[][2] = {
    { "mlp", "model: {family: mlp, sizes: [12, 40, 4], dropout: 0.1}\n" TABLE END },
    { "layers", "model:\n  family: layers\n  input: [12]\n  layers:\n"
                "    - {linear: l1, out: 40, norm: batch, activation: gelu}\n"
                "    - {linear: head, out: 4}\n" TABLE END },
    { "cnn", "model:\n  family: cnn\n  image: [1, 28, 28]\n  blocks:\n"
             "    - {out: 8, stride: 2, norm: batch}\n    - {out: 8, norm: none, pool: max}\n"
             "  head: average\n  outputs: 10\n" DIGITS END },
    { "resnet", "model: {family: resnet, image: [1, 28, 28], depth: 8, widths: [4, 8, 8], "
                "shortcut: pad, outputs: 10}\n" DIGITS END },
    { "unet",
      "model: {family: unet, image: [1, 28, 28], widths: [4, 8], outputs: 1}\n" DENOISING END },
    { "gpt", "model: {family: gpt, vocab: 12, context: 11, layers: 2, heads: 2, width: 32, "
             "dropout: 0.1}\n" ADDER END },
    { "llama", "model: {family: llama, vocab: 12, context: 11, layers: 2, heads: 4, kv_heads: 2, "
               "width: 32, hidden: 48}\n" ADDER END },
};

static const char *recipe_of(const char *family)
{
    for (int i = 0; i < DT__COUNT_OF(models); i++) {
        if (strcmp(models[i][0], family) == 0) return models[i][1];
    }
    ck_abort_msg("family %s has no model in this suite", family);
    return NULL;
}

/* ---- runs ------------------------------------------------------------------------------------ */

typedef struct attempt {
    const row *r;
    int threads;
    bool resume;
    int64_t stop_at, updates; /* stop_at 0: never */
    bool filled;              /* new memory is full of ones, else as the system gives it */
} attempt;

static void *allocate_filled(void *user, size_t bytes, size_t alignment)
{
    void *p = NULL;
    (void)user;
    if (posix_memalign(&p, alignment, bytes) != 0) return NULL;
    return memset(p, 0xff, bytes); /* -1; NaN */
}

static void release_filled(void *user, void *p, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(p);
}

static bool stop(void *user)
{
    const attempt *a = user;
    return a->stop_at > 0 && a->updates >= a->stop_at;
}

static void progress(void *user, const dt_progress *p)
{
    (void)p;
    ((attempt *)user)->updates++;
}

/* Runs in `folder`, so that all runs have one name, and so one recipe. The number of threads comes
 * with the context, for the same reason. */
static void run_in(attempt *a, const char *folder)
{
    char threads[16];
    const char *overrides[OVERRIDES];
    dt_recipe_source source = { .path = "row.yaml", .text = recipe_of(a->r->family) };
    source.bytes = strlen(source.text);
    for (int i = 0; i < OVERRIDES && a->r->override[i][0] != 0; i++) {
        overrides[source.n_overrides++] = a->r->override[i];
    }
    source.overrides = overrides;
    snprintf(threads, sizeof threads, "%d", a->threads);
    setenv("OMP_NUM_THREADS", threads, 1);
    ck_assert_int_eq(chdir(folder), 0);
    dt_ctx *ctx = NULL;
    dt_recipe *recipe = NULL;
    const dt_run_control control = {
        .resume = a->resume, .stop = stop, .progress = progress, .user = a
    };
    dt_ctx_options options = dt_ctx_defaults();
    if (a->filled) options.allocator = (dt_allocator){ allocate_filled, release_filled, NULL };
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    dt_status s = dt_recipe_read(ctx, &source, &recipe);
    ck_assert_msg(s == DT_OK, "%s: %s", a->r->name,
                  recipe == NULL ? dt_error(ctx) : dt_recipe_error_at(recipe, 0));
    s = dt_run(ctx, recipe, &control, NULL);
    const dt_status wanted = a->stop_at > 0 ? DT_ERR_INTERRUPTED : DT_OK;
    ck_assert_msg(s == wanted, "%s: %s: %s", a->r->name, dt_status_name(s), dt_error(ctx));
    ck_assert_int_eq(dt_threads(ctx), a->threads);
    dt_recipe_free(recipe);
    dt_ctx_free(ctx);
    ck_assert_int_eq(chdir("/"), 0);
}

/* Compares every file of both folders, except for times. A run that stopped after update `stop`
 * keeps other checkpoints, and the one of this update may be from a later moment (QAT has begun);
 * -1: it did not stop. */
static void compare(const tree *a, const char *folder, const char *what, int64_t stop)
{
    tree b;
    char of_stop[64];
    snprintf(of_stop, sizeof of_stop, "run/checkpoints/step-%010lld.safetensors", (long long)stop);
    tree_read(&b, folder);
    for (int64_t i = 0; i < a->n; i++) {
        const tree_file *x = &a->file[i], *y = tree_find(&b, x->path);
        if (strcmp(x->path, of_stop) == 0) continue;
        if (y == NULL && stop >= 0 && strstr(x->path, "/checkpoints/") != NULL) continue;
        ck_assert_msg(y != NULL && tree_same_file(x, y), "%s: %s %s", what, x->path,
                      y == NULL ? "is not there" : "differs");
    }
    ck_assert_msg(stop >= 0 || a->n == b.n, "%s: %lld files, and %lld", what, (long long)a->n,
                  (long long)b.n);
    tree_free(&b);
}

/* ---- what is compared ------------------------------------------------------------------------ */

static void write_hash(const row *r, const tree *t)
{
    static const char *const names[] = { "run/float.safetensors", "run/model.safetensors" };
    const char *path = getenv("DETENT_BYTES");
    FILE *f = path == NULL ? NULL : fopen(path, "a");
    if (f == NULL) return;
    fprintf(f, "%s", r->name);
    for (int i = 0; i < 2; i++) {
        const tree_file *file = tree_find(t, names[i]);
        uint64_t hash = 14695981039346656037u; /* FNV-1a of the bytes */
        for (size_t k = 0; file != NULL && k < file->size; k++) {
            hash = (hash ^ (unsigned char)file->bytes[k]) * 1099511628211u;
        }
        fprintf(f, "\t%016llx", (unsigned long long)hash);
    }
    fprintf(f, "\n");
    fclose(f);
}

static void try_threads(const row *r, const tree *first, int threads)
{
    char folder[TEST_PATH], what[128];
    attempt a = { .r = r, .threads = threads, .filled = true };
    test_folder(folder);
    run_in(&a, folder);
    snprintf(what, sizeof what, "%s, %d threads", r->name, threads);
    compare(first, folder, what, -1);
}

static void try_resume(const row *r, const tree *first, int64_t after, int threads)
{
    char folder[TEST_PATH], what[128];
    attempt a = { .r = r, .threads = threads, .stop_at = after },
            b = { .r = r, .threads = 5 - threads, .resume = true };
    test_folder(folder);
    run_in(&a, folder);
    run_in(&b, folder);
    snprintf(what, sizeof what, "%s, resumed after %lld updates", r->name, (long long)after);
    compare(first, folder, what, after);
}

static const test_draws whole_rows = { .usual = 1, .quick = 3, .sanitized = 12 };

START_TEST(runs_are_equal)
{
    static const int threads[] = { 1, 2, 3, 4, 7, 8, 16 };
    const row *r = &rows[_i];
    char folder[TEST_PATH];
    tree first;
    /* Without DETENT_TESTS=all runs all families, and one of so many other rows. */
    const bool is_family = strncmp(r->name, "family", 6) == 0;
    if (!is_family && _i % test_count(whole_rows) != 0 && getenv("DETENT_BYTES") == NULL) return;
    attempt a = { .r = r, .threads = 2 };
    test_folder(folder);
    run_in(&a, folder);
    ck_assert_int_gt(a.updates, 3);
    tree_read(&first, folder);
    write_hash(r, &first);
    if (getenv("DETENT_BYTES") != NULL) return;
    for (int i = 0; i < DT__COUNT_OF(threads); i++) {
        if (test_all() || i == 1 + _i % 3) try_threads(r, &first, threads[i]);
    }
    for (int64_t after = 1; after < a.updates; after++) {
        if (test_all() || after == 1 + (_i * 5) % (a.updates - 1)) {
            try_resume(r, &first, after, 1 + _i % 4);
        }
    }
    tree_free(&first);
}
END_TEST

Suite *test_equal_bytes_suite(void)
{
    Suite *s = suite_create("equal_bytes");
    TCase *c = tcase_create("equal_bytes");
    make_rows();
    tcase_set_timeout(c, 3600);
    tcase_add_loop_test(c, runs_are_equal, 0, n_rows);
    suite_add_tcase(s, c);
    return s;
}
