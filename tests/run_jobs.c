/* Runs a small recipe with overrides, and compares what runs wrote. */
#include "run_jobs.h"

#include <stdio.h>
#include <stdlib.h>

/* 160 images in batches of 32: 5 updates an epoch, 20 in all; prepared at 8. */
static const char small[] =
    "run: {dir: unset, seed: 3}\n"
    "model: {family: mlp, sizes: [784, 24, 16, 10], dropout: 0.1}\n"
    "data: {format: digits, train_count: 150, test_count: 70, seed: 5, augment: {shift: 1}}\n"
    "train:\n"
    "  epochs: 4\n"
    "  batch_size: 32\n"
    "  optimizer: {name: adamw, lr: 3e-3}\n"
    "  schedule: {name: cosine, warmup_steps: 3}\n"
    "  clip_grad_norm: 1.0\n"
    "  log: {every_steps: 3}\n"
    "  checkpoint: {every_steps: 4, keep: 2}\n"
    "qat: {preset: int8-dynamic-int4-weight, start_step: 8}\n";

static bool stop(void *user)
{
    const job *j = user;
    return j->stop_at > 0 && j->updates >= j->stop_at;
}

dt_ctx *job_counted;

static void progress(void *user, const dt_progress *p)
{
    job *j = user;
    ck_assert_int_le(p->step, p->steps);
    if (j->updates < 64) {
        j->allocations[j->updates] = dt_memory_of(job_counted).allocations;
        j->losses[j->updates] = p->loss;
        j->rates[j->updates] = p->lr;
    }
    if (j->updates++ == 1) j->seconds_left = p->seconds_left;
}

dt_status job_try(dt_ctx *ctx, job *j)
{
    char dir[TEST_PATH + 16];
    const char *overrides[JOB_OVERRIDES + 1] = { dir };
    int n = 1;
    snprintf(dir, sizeof dir, "run.dir=%s", j->dir);
    while (n <= JOB_OVERRIDES && j->overrides[n - 1] != NULL) {
        overrides[n] = j->overrides[n - 1];
        n++;
    }
    const dt_recipe_source source = { .path = "small.yaml",
                                      .text = small,
                                      .bytes = strlen(small),
                                      .overrides = overrides,
                                      .n_overrides = n };
    const dt_run_control control = {
        .resume = j->resume, .dry_run = j->dry_run, .stop = stop, .progress = progress, .user = j
    };
    dt_recipe *recipe = NULL;
    dt_status s = dt_recipe_read(ctx, &source, &recipe);
    if (s == DT_OK) s = dt_run(ctx, recipe, &control, &j->summary);
    dt_recipe_free(recipe);
    return s;
}

void job_run(job *j)
{
    dt_ctx *ctx = sample_context(j->threads > 0 ? j->threads : 2);
    job_counted = ctx;
    const dt_status s = job_try(ctx, j);
    snprintf(j->message, sizeof j->message, "%s", dt_error(ctx));
    ck_assert_msg(s == j->wanted, "%s: %s: %s", j->dir, dt_status_name(s), j->message);
    if (j->words != NULL) {
        ck_assert_msg(strstr(j->message, j->words) != NULL, "not \"%s\" but \"%s\"", j->words,
                      j->message);
    }
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}

const char *job_path(const char *folder, const char *name)
{
    static char paths[100][TEST_PATH];
    static int next;
    char *path = paths[next++ % 100];
    test_join(path, folder, name);
    return path;
}

void job_same_files(const char *a, const char *b, const char *name)
{
    size_t n, m;
    char *x = test_read_file(job_path(a, name), &n), *y = test_read_file(job_path(b, name), &m);
    ck_assert_msg(n == m && memcmp(x, y, n) == 0, "%s differs in %s and %s", name, a, b);
    free(x);
    free(y);
}

char *job_metrics(const char *dir)
{
    char *text = test_read_file(job_path(dir, "metrics.jsonl"), NULL), *all = calloc(1, 1 << 16);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        json_t *o = json_loads(line, 0, NULL);
        ck_assert_msg(o != NULL, "no JSON: %s", line);
        json_object_del(o, "samples_per_s");
        char *again = json_dumps(o, JSON_SORT_KEYS);
        strcat(strcat(all, again), "\n");
        free(again);
        json_decref(o);
    }
    free(text);
    return all;
}

void job_same_checkpoints(const char *a, const char *b, const char *name)
{
    dt_ctx *ctx = sample_context(1);
    dt_file *x = NULL, *y = NULL;
    TEST_OK(ctx, dt_file_open(ctx, job_path(a, name), &x));
    TEST_OK(ctx, dt_file_open(ctx, job_path(b, name), &y));
    ck_assert_int_eq(dt_file_count(x), dt_file_count(y));
    for (int64_t i = 0; i < dt_file_count(x); i++) {
        const dt_file_entry *e = dt_file_at(x, i), *f = dt_file_find(y, e->name);
        ck_assert_msg(f != NULL && e->bytes == f->bytes, "%s", e->name);
        ck_assert_msg(memcmp(e->data, f->data, e->bytes) == 0, "%s: %s differs", b, e->name);
    }
    dt_file_close(x);
    dt_file_close(y);
    dt_ctx_free(ctx);
}

const char job_last[] = "checkpoints/step-0000000020.safetensors";

void job_same_runs(const char *a, const char *b)
{
    job_same_files(a, b, "float.safetensors");
    job_same_files(a, b, "model.safetensors");
    job_same_checkpoints(a, b, job_last);
    char *x = job_metrics(a), *y = job_metrics(b);
    ck_assert_str_eq(x, y);
    free(x);
    free(y);
}

double job_number(const json_t *root, const char *row, const char *key)
{
    const json_t *value = json_object_get(json_object_get(root, row), key);
    ck_assert_msg(json_is_number(value), "%s.%s", row, key);
    return json_number_value(value);
}

int64_t job_bytes(dt_ctx *ctx, const char *path)
{
    dt_file *file = NULL;
    size_t bytes = 0;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    for (int64_t i = 0; i < dt_file_count(file); i++) bytes += dt_file_at(file, i)->bytes;
    dt_file_close(file);
    return (int64_t)bytes;
}

int job_metric_words(const char *dir, const char *words)
{
    char *metrics = job_metrics(dir);
    int found = 0;
    for (const char *c = metrics; (c = strstr(c, words)) != NULL; c++) found++;
    free(metrics);
    return found;
}
