/* train.distill: training with a teacher's outputs, the teacher of a resumed run, refused settings;
 * and the recipe finetune-llama-int4 on a small folder of golden/hf. */
#include "testing.h"

#include <detent/experimental/io.h>
#include <detent/ops.h>
#include <detent/train.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static char folder[TEST_PATH], llama[TEST_PATH];

/* A text of few different characters, which the tiny vocabulary has. */
static bool set_up(void)
{
    char path[TEST_PATH], text[4097];
    uint32_t x = 7;
    if (!test_golden(llama, "hf/tiny")) return false;
    test_folder(folder);
    for (int i = 0; i < 4096; i++) {
        x = x * 1664525U + 1013904223U;
        text[i] = (x >> 29) == 0 ? ' ' : (char)('a' + (x >> 24) % 6);
    }
    text[4096] = 0;
    test_join(path, folder, "text.txt");
    test_write_text(path, text);
    return true;
}

typedef struct job {
    const char *dir; /* below the folder */
    const char *more[8];
    int64_t stop_after; /* updates; 0: runs to its end */
    bool resume;
    dt_run_summary summary;
    double first_loss;
    int64_t seen;
} job;

static bool stop(void *user)
{
    const job *j = user;
    return j->stop_after > 0 && j->seen >= j->stop_after;
}

static void progress(void *user, const dt_progress *p)
{
    job *j = user;
    if (j->seen++ == 0) j->first_loss = p->loss;
}

static dt_status run(dt_ctx *ctx, job *j)
{
    char dir[TEST_PATH + 16], data[TEST_PATH + 16], init[TEST_PATH + 16];
    const char *overrides[24] = {
        dir,
        data,
        init,
        "data.tokenizer=chars",
        "data.context=16",
        "data.validation=0.1",
        "train.steps=8",
        "train.batch_size=4",
        "train.schedule.warmup_steps=2",
        "qat.start_step=4",
        "train.checkpoint.every_steps=2",
        "train.evaluate.every_steps=4",
        "train.log.every_steps=1",
        "qat.weight.group_size=8",
        "train.optimizer.lr=1e-3",
    };
    int n = 15;
    snprintf(dir, sizeof dir, "run.dir=%s/%s", folder, j->dir);
    snprintf(data, sizeof data, "data.dir=%s", folder);
    snprintf(init, sizeof init, "model.init=%s", llama);
    for (int i = 0; i < 8 && j->more[i] != NULL; i++) overrides[n++] = j->more[i];
    const dt_recipe_source source = { .path = DETENT_SOURCE_DIR "/configs/finetune-llama-int4.yaml",
                                      .overrides = overrides,
                                      .n_overrides = n };
    const dt_run_control control = {
        .resume = j->resume, .stop = stop, .progress = progress, .user = j
    };
    dt_recipe *recipe = NULL;
    dt_status s = dt_recipe_read(ctx, &source, &recipe);
    if (s == DT_OK) s = dt_run(ctx, recipe, &control, &j->summary);
    dt_recipe_free(recipe);
    return s;
}

static dt_ctx *make_context(void)
{
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    return ctx;
}

static void check_equal(const char *a, const char *b, const char *name)
{
    ck_assert_msg(test_shell(NULL, "cmp %s/%s/%s %s/%s/%s", folder, a, name, folder, b, name) == 0,
                  "%s: %s and %s differ", name, a, b);
}

START_TEST(the_shipped_recipe_runs)
{
    if (!set_up()) return;
    dt_ctx *ctx = make_context();
    job j = { .dir = "run" };
    TEST_OK(ctx, run(ctx, &j));
    ck_assert(j.summary.same_bits_as_qat);
    ck_assert_int_eq(j.seen, 8);
    ck_assert_int_eq(test_shell(NULL, "grep -q 'vocab: 32' %s/run/recipe.yaml", folder), 0);
    char path[TEST_PATH], hf[TEST_PATH];
    test_join(path, folder, "run/float.safetensors");
    test_join(hf, folder, "hf");
    dt_module *m;
    dt_model_info info;
    TEST_OK(ctx, dt_model_load(ctx, path, &m, &info));
    ck_assert_ptr_nonnull(info.hf);
    ck_assert_ptr_nonnull(info.tokenizer);
    TEST_OK(ctx, dt_hf_save(m, &info, NULL, hf));
    /* The tokens of the folder's texts are not those of the run's own tokenizer. */
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(test_shell(NULL,
                                    "grep -v token_id %s/config.json | tr -d , > %s/config-%d",
                                    i == 0 ? llama : hf, folder, i),
                         0);
    }
    ck_assert_int_eq(test_shell(NULL, "cmp %s/config-0 %s/config-1", folder, folder), 0);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

/* A run that is stopped, in float or in QAT, and resumed has the same bits. */
START_TEST(a_resumed_run_has_the_same_teacher)
{
    static const char *const teachers[] = { NULL, NULL, "train.distill.teacher" };
    if (!set_up()) return;
    dt_ctx *ctx = make_context();
    char teacher[TEST_PATH + 32];
    snprintf(teacher, sizeof teacher, "train.distill.teacher=%s", llama);
    const char *more = teachers[_i] != NULL ? teacher : NULL;
    job whole = { .dir = "whole", .more = { more } };
    job parts = { .dir = "parts", .more = { more }, .stop_after = _i == 0 ? 3 : 7 };
    TEST_OK(ctx, run(ctx, &whole));
    ck_assert_int_eq(run(ctx, &parts), DT_ERR_INTERRUPTED);
    parts.stop_after = 0;
    parts.resume = true;
    TEST_OK(ctx, run(ctx, &parts));
    check_equal("whole", "parts", "model.safetensors");
    check_equal("whole", "parts", "float.safetensors");
    dt_ctx_free(ctx);
}
END_TEST

/* The teacher of the last updates is that of the first: its file, or what the run wrote. */
START_TEST(another_teacher_is_refused)
{
    char teacher[TEST_PATH + 32], file[TEST_PATH];
    if (!set_up()) return;
    dt_ctx *ctx = make_context();
    job first = { .dir = "first" }, second = { .dir = "second", .more = { "run.seed=9" } };
    TEST_OK(ctx, run(ctx, &first));
    TEST_OK(ctx, run(ctx, &second));
    test_join(file, folder, "teacher.safetensors");
    test_shell(NULL, "cp %s/first/float.safetensors %s", folder, file);
    snprintf(teacher, sizeof teacher, "train.distill.teacher=%s", file);
    job j = { .dir = "run", .more = { _i == 0 ? teacher : NULL }, .stop_after = 7 };
    ck_assert_int_eq(run(ctx, &j), DT_ERR_INTERRUPTED);
    if (_i > 0) test_join(file, folder, "run/float.safetensors");
    test_shell(NULL, "cp %s/second/float.safetensors %s", folder, file);
    j.stop_after = 0;
    j.resume = true;
    TEST_FAILS(ctx, DT_ERR_FORMAT, "the teacher is another one", run(ctx, &j));
    dt_ctx_free(ctx);
}
END_TEST

/* If the teacher is the model itself and has all the weight, the gradient is 0; otherwise labels
 * have their share. */
START_TEST(the_loss_is_the_teachers)
{
    if (!set_up()) return;
    dt_ctx *ctx = make_context();
    char teacher[TEST_PATH + 32];
    snprintf(teacher, sizeof teacher, "train.distill.teacher=%s", llama);
    job all = { .dir = "all", .more = { teacher, "train.distill.weight=1" } };
    job half = { .dir = "half", .more = { teacher, "train.distill.weight=0.5" } };
    job none = { .dir = "none", .more = { teacher, "train.distill.weight=0" } };
    TEST_OK(ctx, run(ctx, &all));
    TEST_OK(ctx, run(ctx, &half));
    TEST_OK(ctx, run(ctx, &none));
    TEST_NEAR(all.first_loss, 0, 1e-6, 0);
    TEST_NEAR(half.first_loss, none.first_loss / 2, 1e-5, 0);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(bad_settings_are_refused)
{
    char other[TEST_PATH + 32], path[TEST_PATH];
    if (!set_up()) return;
    dt_ctx *ctx = make_context();
    job no_qat = { .dir = "a", .more = { "~qat" } };
    TEST_FAILS(ctx, DT_ERR_CONFIG, "there is no 'qat'", run(ctx, &no_qat));
    job drawn = { .dir = "b",
                  .more = { "~model.init", "qat.start_step=0", "model.vocab=32", "model.context=32",
                            "model.layers=1", "model.heads=2", "model.width=16",
                            "model.hidden=24" } };
    TEST_FAILS(ctx, DT_ERR_CONFIG, "drawn", run(ctx, &drawn));
    if (test_golden(path, "hf/llama-f32")) {
        snprintf(other, sizeof other, "train.distill.teacher=%s", path);
        job vocab = { .dir = "c", .more = { other } };
        TEST_FAILS(ctx, DT_ERR_CONFIG, "vocabulary of 260", run(ctx, &vocab));
        test_join(path, folder, "c");
        ck_assert(!test_file_exists(path)); /* found before anything is written */
    }
    job missing = { .dir = "d", .more = { "train.distill.teacher=none.safetensors" } };
    TEST_FAILS(ctx, DT_ERR_CONFIG, "no such file", run(ctx, &missing));
    dt_ctx_free(ctx);
}
END_TEST

/* ---- classes and values ---------------------------------------------------------------------- */

typedef struct small {
    const char *recipe, *dir;
    const char *more[8];
    double first_loss;
    bool seen;
    dt_run_summary summary;
} small;

static void note(void *user, const dt_progress *p)
{
    small *s = user;
    if (!s->seen) s->first_loss = p->loss;
    s->seen = true;
}

/* A few updates of a shipped recipe on drawn data. */
static dt_status run_small(dt_ctx *ctx, small *s)
{
    char path[TEST_PATH], dir[TEST_PATH + 16];
    const char *overrides[16] = { dir,
                                  "data.train_count=200",
                                  "data.test_count=50",
                                  "train.steps=6",
                                  "qat.start_step=3",
                                  "train.schedule.warmup_steps=0",
                                  "train.batch_size=16" };
    int n = 7;
    snprintf(path, sizeof path, "%s/configs/%s.yaml", DETENT_SOURCE_DIR, s->recipe);
    snprintf(dir, sizeof dir, "run.dir=%s/%s", folder, s->dir);
    for (int i = 0; i < 8 && s->more[i] != NULL; i++) overrides[n++] = s->more[i];
    const dt_recipe_source source = { .path = path, .overrides = overrides, .n_overrides = n };
    const dt_run_control control = { .progress = note, .user = s };
    dt_recipe *recipe = NULL;
    dt_status status = dt_recipe_read(ctx, &source, &recipe);
    if (status == DT_OK) status = dt_run(ctx, recipe, &control, &s->summary);
    dt_recipe_free(recipe);
    return status;
}

/* The model begins as its teacher, so the teacher's part of the first loss is 0 without norms. */
START_TEST(the_loss_of_other_tasks_is_the_teachers)
{
    static const char *const recipes[] = { "digits-mlp", "table-values" };
    char init[TEST_PATH + 64], teacher[TEST_PATH + 64];
    test_folder(folder);
    dt_ctx *ctx = make_context();
    small taught = { .recipe = recipes[_i], .dir = "taught" };
    TEST_OK(ctx, run_small(ctx, &taught));
    snprintf(init, sizeof init, "model.init=%s/taught/float.safetensors", folder);
    snprintf(teacher, sizeof teacher, "train.distill.teacher=%s/taught/float.safetensors", folder);
#define TAUGHT init, teacher
    small all = { .recipe = recipes[_i],
                  .dir = "all",
                  .more = { TAUGHT, "train.distill.weight=1" } };
    small half = { .recipe = recipes[_i],
                   .dir = "half",
                   .more = { TAUGHT, "train.distill.weight=0.5" } };
    small none = { .recipe = recipes[_i],
                   .dir = "none",
                   .more = { TAUGHT, "train.distill.weight=0" } };
    small alone = { .recipe = recipes[_i], .dir = "alone", .more = { init } };
    TEST_OK(ctx, run_small(ctx, &all));
    TEST_OK(ctx, run_small(ctx, &half));
    TEST_OK(ctx, run_small(ctx, &none));
    TEST_OK(ctx, run_small(ctx, &alone));
    /* norms of table-values see batches in the model, running statistics in the teacher */
    if (_i == 0) TEST_NEAR(all.first_loss, 0, 1e-5, 0);
    ck_assert(none.first_loss > 1e-3);
    TEST_NEAR(half.first_loss, (none.first_loss + all.first_loss) / 2, 1e-5, 1e-5);
    TEST_NEAR(none.first_loss, alone.first_loss, 0, 1e-6);
    dt_ctx_free(ctx);
}
END_TEST

/* The mean of (y - z)^2 of the hidden layers of two files over a file's examples, by hand. */
static double feature_error(dt_ctx *ctx, const dt_dataset *d, const char *const files[2])
{
    dt_module *m[2];
    dt_tape *t;
    dt_loader *loader;
    dt_tensor *x, *target, *y[2];
    const dt_loader_options all = { .batch_size = dt_dataset_count(d) };
    TEST_OK(ctx, dt_loader_create(d, &all, &loader));
    TEST_OK(ctx, dt_loader_next(loader, &x, &target));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_no_grad(t, true);
    for (int i = 0; i < 2; i++) {
        TEST_OK(ctx, dt_model_load(ctx, files[i], &m[i], NULL));
        dt_train(m[i], false);
        dt_tensor *rows = dt_reshape(t, x, 2, (const int64_t[]){ dt_dim(x, 0), 784 });
        y[i] = dt_forward(t, dt_module_at(m[i], "layers.1"),
                          dt_relu(t, dt_forward(t, dt_module_at(m[i], "layers.0"), rows)));
        TEST_OK(ctx, dt_tape_status(t));
    }
    double sum = 0;
    const float *a = dt_data(y[0]), *b = dt_data(y[1]);
    for (int64_t i = 0; i < dt_count(y[0]); i++) sum += pow((double)a[i] - (double)b[i], 2);
    sum /= (double)dt_count(y[0]);
    dt_tape_free(t);
    dt_loader_free(loader);
    dt_module_free(m[0]);
    dt_module_free(m[1]);
    return sum;
}

/* The first loss of a run whose first update has all 60 examples as they are. */
static double loss_with(dt_ctx *ctx, const char *const shared[2], const char *const more[4])
{
    char name[32];
    static int number;
    small s = { .recipe = "digits-mlp",
                .dir = name,
                .more = { shared[0], shared[1], "data.train_count=60", "~data.augment", more[0],
                          more[1], more[2], more[3] } };
    snprintf(name, sizeof name, "features-%d", number++);
    TEST_OK(ctx, run_small(ctx, &s));
    return s.first_loss;
}

#define FIRST(...) loss_with(ctx, shared, (const char *const[4]){ __VA_ARGS__ })
#define WHOLE "train.batch_size=60"
#define LAYER "train.distill.features=[layers.1]"

START_TEST(features_are_drawn_to_the_teachers)
{
    char paths[2][TEST_PATH + 48], init[TEST_PATH + 64], teacher[TEST_PATH + 96], data[TEST_PATH];
    dt_ctx *ctx = make_context();
    test_folder(folder);
    small taught = { .recipe = "digits-mlp", .dir = "taught" };
    small other = { .recipe = "digits-mlp", .dir = "other", .more = { "run.seed=9" } };
    TEST_OK(ctx, run_small(ctx, &taught));
    TEST_OK(ctx, run_small(ctx, &other));
    snprintf(paths[0], sizeof paths[0], "%s/other/float.safetensors", folder);
    snprintf(paths[1], sizeof paths[1], "%s/taught/float.safetensors", folder);
    snprintf(init, sizeof init, "model.init=%s", paths[0]);
    snprintf(teacher, sizeof teacher, "train.distill.teacher=%s", paths[1]);
    const char *const shared[] = { init, teacher };
    const double none = FIRST(WHOLE), one = FIRST(WHOLE, LAYER, "train.distill.feature_weight=0.5");
    TEST_NEAR(FIRST("train.batch_size=25", "train.accumulate=3", LAYER,
                    "train.distill.feature_weight=0.5"),
              one, 1e-5, 1e-5);
    dt_recipe *recipe;
    dt_dataset *train, *validation, *test;
    snprintf(data, sizeof data, "%s/configs/digits-mlp.yaml", DETENT_SOURCE_DIR);
    const char *const count[] = { "data.train_count=60", "~data.augment" };
    const dt_recipe_source source = { .path = data, .overrides = count, .n_overrides = 2 };
    TEST_OK(ctx, dt_recipe_read(ctx, &source, &recipe));
    TEST_OK(ctx, dt_recipe_open_data(recipe, NULL, &train, &validation, &test));
    const double want = feature_error(ctx, train, (const char *const[]){ paths[0], paths[1] });
    ck_assert_msg(want > 1e-3, "%g", want);
    TEST_NEAR(one - none, 0.5 * want, 1e-5, 1e-4);
    TEST_NEAR(FIRST(WHOLE, LAYER, "train.distill.feature_weight=2") - none, 2 * want, 1e-5, 1e-4);
    dt_dataset_free(train);
    dt_dataset_free(validation);
    dt_dataset_free(test);
    dt_recipe_free(recipe);
    dt_ctx_free(ctx);
}
END_TEST

/* The output of a block is that of its activation, also where QAT folds its norm. */
START_TEST(a_block_has_the_output_of_its_last_module)
{
    static const char *const weights[] = { "train.distill.feature_weight=0",
                                           "train.distill.feature_weight=1",
                                           "train.distill.feature_weight=2",
                                           "train.distill.feature_weight=1" };
    double loss[4];
    dt_ctx *ctx = make_context();
    test_folder(folder);
    for (int i = 0; i < 4; i++) {
        char dir[16], teacher[TEST_PATH + 64];
        small s = { .recipe = "sensors-conv1d", .dir = dir };
        snprintf(dir, sizeof dir, "blocks-%d", i);
        snprintf(teacher, sizeof teacher, "train.distill.teacher=%s/blocks/float.safetensors",
                 folder);
        if (i == 0) {
            small taught = { .recipe = "sensors-conv1d",
                             .dir = "blocks",
                             .more = { "run.seed=4" } };
            TEST_OK(ctx, run_small(ctx, &taught));
        }
        s.more[0] = teacher;
        s.more[1] = weights[i];
        s.more[2] = i < 3 ? "train.distill.features=[c1, c3]" : "train.distill.features=[c1.norm]";
        s.more[3] = "qat.start_step=0";
        s.more[4] = "train.float_baseline=false";
        TEST_OK(ctx, run_small(ctx, &s));
        loss[i] = s.first_loss;
    }
    ck_assert(loss[1] - loss[0] > 1e-3 && loss[3] - loss[0] > 1e-3);
    TEST_NEAR(loss[2] - loss[0], 2 * (loss[1] - loss[0]), 1e-5, 1e-4);
    small folded = { .recipe = "sensors-conv1d",
                     .dir = "folded",
                     .more = { "train.distill.features=[c1.conv]", "qat.start_step=1" } };
    TEST_FAILS(ctx, DT_ERR_CONFIG, "its norm is folded into it", run_small(ctx, &folded));
    dt_ctx_free(ctx);
}
END_TEST

static void collect(void *user, const char *line)
{
    char *all = user;
    strncat(all, line, 4095 - strlen(all));
}

/* The teacher gets numbers as the recipe scales them; a message says where it was trained on
 * others. */
START_TEST(a_teacher_of_other_numbers)
{
    char teacher[TEST_PATH + 64], said[4096];
    dt_ctx_options options = dt_ctx_defaults();
    dt_ctx *ctx;
    options.log = collect;
    options.log_user = said;
    test_folder(folder);
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    small taught = { .recipe = "digits-mlp", .dir = "taught" };
    said[0] = 0;
    TEST_OK(ctx, run_small(ctx, &taught));
    snprintf(teacher, sizeof teacher, "train.distill.teacher=%s/taught/float.safetensors", folder);
    for (int other = 0; other < 2; other++) {
        small student = { .recipe = "digits-mlp",
                          .dir = other ? "other" : "same",
                          .more = { teacher, other ? "data.mean=0.3" : NULL } };
        said[0] = 0;
        TEST_OK(ctx, run_small(ctx, &student));
        const char *line = strstr(said, "the recipe gives it numbers with mean 0.3");
        ck_assert_msg((line != NULL) == (other == 1), "%s", said);
        if (line != NULL) ck_assert_ptr_null(strstr(line + 1, "the recipe gives it"));
    }
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(bad_teachers_are_refused)
{
    char teacher[TEST_PATH + 64];
    test_folder(folder);
    dt_ctx *ctx = make_context();
    small other = { .recipe = "table-values", .dir = "other" };
    TEST_OK(ctx, run_small(ctx, &other));
    snprintf(teacher, sizeof teacher, "train.distill.teacher=%s/other/float.safetensors", folder);
    small digits = { .recipe = "digits-mlp", .dir = "digits", .more = { teacher } };
    TEST_FAILS(ctx, DT_ERR_CONFIG, "but the images of the data are", run_small(ctx, &digits));
    small wide = { .recipe = "digits-mlp", .dir = "wide", .more = { "model.sizes=[784, 9, 12]" } };
    TEST_OK(ctx, run_small(ctx, &wide));
    snprintf(teacher, sizeof teacher, "train.distill.teacher=%s/wide/float.safetensors", folder);
    small narrow = { .recipe = "digits-mlp", .dir = "narrow", .more = { teacher } };
    TEST_FAILS(ctx, DT_ERR_CONFIG, "has outputs [12], the model has [10]", run_small(ctx, &narrow));
    small images = { .recipe = "digits-unet-denoise",
                     .dir = "images",
                     .more = { "train.distill.weight=0.5" } };
    TEST_FAILS(ctx, DT_ERR_CONFIG, "classification and regression", run_small(ctx, &images));
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_distill_suite(void)
{
    Suite *s = suite_create("distill");
    TCase *c = tcase_create("distill");
    tcase_set_timeout(c, 240);
    tcase_add_test(c, the_shipped_recipe_runs);
    tcase_add_loop_test(c, a_resumed_run_has_the_same_teacher, 0, 3);
    tcase_add_loop_test(c, another_teacher_is_refused, 0, 2);
    tcase_add_test(c, the_loss_is_the_teachers);
    tcase_add_test(c, bad_settings_are_refused);
    tcase_add_loop_test(c, the_loss_of_other_tasks_is_the_teachers, 0, 2);
    tcase_add_test(c, features_are_drawn_to_the_teachers);
    tcase_add_test(c, a_block_has_the_output_of_its_last_module);
    tcase_add_test(c, a_teacher_of_other_numbers);
    tcase_add_test(c, bad_teachers_are_refused);
    suite_add_tcase(s, c);
    return s;
}
