/* A program's own models and data: registered families, recipes from structs, datasets given to
 * dt_run, and converted models loaded into module trees with the same paths. */
#include "testing.h"

#include "nn/module.h"

#include <detent/experimental/io.h>
#include <detent/experimental/layers.h>
#include <detent/experimental/train.h>

#include <stdio.h>
#include <stdlib.h>

typedef struct text {
    char bytes[1 << 16];
    size_t n;
} text;

static dt_status take(void *user, const char *bytes, size_t n)
{
    text *t = user;
    if (t->n + n >= sizeof t->bytes) return DT_ERR_IO;
    memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
    t->bytes[t->n] = 0;
    return DT_OK;
}

/* ---- recipes from structs -------------------------------------------------------------------- */

static const char *const shipped[] = { "mnist-mlp",
                                       "mnist-cnn-w4a4",
                                       "cifar10-resnet20",
                                       "digits-unet-denoise",
                                       "shakespeare-char-gpt",
                                       "shakespeare-moe",
                                       "mnist-tfc-w2a2",
                                       "adder" };

/* The options of a shipped recipe give a recipe with the same resolved text. */
START_TEST(structs_say_what_recipes_say)
{
    static text before, after;
    char path[TEST_PATH];
    dt_ctx *ctx;
    dt_recipe *r, *again;
    before.n = after.n = 0;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    snprintf(path, sizeof path, "%s/configs/%s.yaml", DETENT_SOURCE_DIR, shipped[_i]);
    const dt_recipe_source source = { .path = path, .leave_files = true };
    TEST_OK(ctx, dt_recipe_read(ctx, &source, &r));
    const dt_status s = dt_recipe_create(ctx, "structs", dt_recipe_get(r), &again);
    for (int i = 0; s == DT_ERR_CONFIG && i < dt_recipe_error_count(again); i++) {
        /* only files of the recipe may be missing here */
        ck_assert_msg(strstr(dt_recipe_error_at(again, i), "no such") != NULL ||
                          strstr(dt_recipe_error_at(again, i), "does not exist") != NULL,
                      "%s", dt_recipe_error_at(again, i));
    }
    if (s == DT_OK) {
        TEST_OK(ctx, dt_recipe_json(r, take, &before));
        TEST_OK(ctx, dt_recipe_json(again, take, &after));
        ck_assert_str_eq(before.bytes, after.bytes);
    }
    dt_recipe_free(again);
    dt_recipe_free(r);
    dt_ctx_free(ctx);
}
END_TEST

static dt_status create_all(dt_ctx *ctx, void *user)
{
    dt_recipe *r = NULL;
    (void)user;
    const dt_mlp_options mlp = {
        .sizes = { 3, { 6, 5, 2 } }, .bias = true, .eps = 1e-5, .momentum = 0.1
    };
    dt_recipe_options *o = malloc(sizeof *o);
    ck_assert_ptr_nonnull(o);
    dt_status s = dt_recipe_defaults(ctx, o);
    if (s == DT_OK) {
        o->run.dir = "r";
        o->model.family_name = "mlp";
        o->model.options = &mlp;
        o->data.format = DT_DATA_GIVEN;
        o->train.epochs = 1;
        o->qat.given = true;
        s = dt_recipe_create(ctx, NULL, o, &r);
    }
    free(o);
    dt_recipe_free(r);
    return s;
}

START_TEST(failing_allocations_leak_nothing)
{
    ck_assert_int_gt(test_every_allocation(create_all, NULL), 5);
}
END_TEST

START_TEST(structs_are_checked)
{
    dt_ctx *ctx;
    dt_recipe *r;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    dt_recipe_options *o = malloc(sizeof *o);
    ck_assert_ptr_nonnull(o);
    TEST_OK(ctx, dt_recipe_defaults(ctx, o));
    TEST_FAILS(ctx, DT_ERR_ARG, "NULL", dt_recipe_create(ctx, NULL, NULL, &r));
    TEST_FAILS(ctx, DT_ERR_CONFIG, "run.dir", dt_recipe_create(ctx, NULL, o, &r));
    dt_recipe_free(r);
    const dt_mlp_options mlp = { .sizes = { 2, { 6, 2 } } };
    o->run.dir = "r";
    o->model.family_name = "mlp";
    o->model.options = &mlp;
    o->data.format = DT_DATA_GIVEN;
    o->train.epochs = 1;
    o->train.batch_size = -3;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "'train.batch_size' must be",
               dt_recipe_create(ctx, "mine", o, &r));
    ck_assert_msg(strncmp(dt_error(ctx), "mine:", 5) == 0, "%s", dt_error(ctx));
    dt_recipe_free(r);
    free(o);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- families -------------------------------------------------------------------------------- */

typedef struct own_options {
    int64_t width;
} own_options;

static const dt_key own_keys[] = {
    { "width", DT_KEY_INT, offsetof(own_options, width), .least = 1, .most = 64, .fallback = "8",
      .text = "width" },
    { 0 },
};

/* Convolution, batch norm, relu, flatten, linear: a sequential of the caller's. */
static dt_status own_create(dt_ctx *ctx, const void *options, dt_module **out)
{
    const int64_t width = ((const own_options *)options)->width;
    static const char *const names[] = { "conv", "norm", "relu", "flat", "head" };
    dt_conv_layer conv = { .in = 3, .out = width, .kernel = { 3, 1 }, .conv = dt_conv_defaults() };
    dt_module *m, *part[5] = { NULL };
    conv.conv.padding[0] = 1;
    dt_status s = dt_sequential_create(ctx, &m);
    if (s == DT_OK) s = dt_conv1d_create(ctx, &conv, &part[0]);
    if (s == DT_OK) s = dt_batch_norm1d_create(ctx, width, 0.1, 1e-5, &part[1]);
    if (s == DT_OK) s = dt_activation_create(ctx, "relu", &part[2]);
    if (s == DT_OK) s = dt_flatten_create(ctx, &part[3]);
    if (s == DT_OK) s = dt_linear_create(ctx, width * 12, 3, true, &part[4]);
    for (int i = 0; i < 5; i++) {
        if (s == DT_OK) s = dt_module_add(m, names[i], part[i]);
        else dt_module_free(part[i]);
    }
    if (s != DT_OK) dt_module_free(m);
    *out = s == DT_OK ? m : NULL;
    return s;
}

static const dt_family own = { .name = "own",
                               .text = "of this test",
                               .keys = own_keys,
                               .options_size = sizeof(own_options),
                               .create = own_create };

START_TEST(families_can_be_registered)
{
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    ck_assert_ptr_null(dt_family_named(ctx, "own"));
    TEST_OK(ctx, dt_family_register(ctx, &own));
    ck_assert_ptr_eq(dt_family_named(ctx, "own"), &own);
    TEST_FAILS(ctx, DT_ERR_ARG, "there is a family 'own' already", dt_family_register(ctx, &own));
    const dt_family mlp = { .name = "mlp", .keys = own_keys, .create = own_create };
    TEST_FAILS(ctx, DT_ERR_ARG, "'mlp' already", dt_family_register(ctx, &mlp));
    TEST_FAILS(ctx, DT_ERR_ARG, "must be given", dt_family_register(ctx, &(dt_family){ 0 }));
    dt_ctx_free(ctx);
}
END_TEST

/* ---- a run on given data --------------------------------------------------------------------- */

enum { COUNT = 60 };

static dt_dataset *data_of_classes(dt_ctx *ctx, int shift, int classes)
{
    static float x[COUNT][3][12];
    static uint8_t y[COUNT];
    dt_dataset *d;
    for (int i = 0; i < COUNT; i++) {
        y[i] = (uint8_t)((i + shift) % classes);
        for (int k = 0; k < 36; k++)
            (&x[i][0][0])[k] =
                (k / 12 == y[i] ? 1.0F : 0.0F) + (float)((i * 7 + k * 5) % 11) * 0.05F;
    }
    const dt_arrays arrays = { .count = COUNT,
                               .rank = 2,
                               .dims = { 3, 12 },
                               .x_dtype = DT_ARRAY_F32,
                               .x = x,
                               .target = DT_TARGET_CLASS,
                               .y_dtype = DT_ARRAY_U8,
                               .y = y,
                               .outputs = classes };
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &arrays, &d));
    return d;
}

static dt_dataset *make_data(dt_ctx *ctx, int shift) { return data_of_classes(ctx, shift, 3); }

static dt_recipe *recipe_of(dt_ctx *ctx, const char *dir, const char *family, const void *network)
{
    dt_recipe *r = NULL;
    dt_recipe_options *o = malloc(sizeof *o);
    ck_assert_ptr_nonnull(o);
    TEST_OK(ctx, dt_recipe_defaults(ctx, o));
    o->run.dir = dir;
    o->model.family_name = family;
    o->model.options = network;
    o->data.format = DT_DATA_GIVEN;
    o->train.epochs = 4;
    o->train.batch_size = 20;
    o->train.optimizer.lr = 0.02;
    o->qat.given = true;
    o->qat_schedule.start_step = 5;
    TEST_OK(ctx, dt_recipe_create(ctx, "own", o, &r));
    free(o);
    return r;
}

typedef struct seen {
    int steps, evaluations;
} seen;

static void see_step(void *user, const dt_progress *p)
{
    seen *s = user;
    ck_assert_int_eq(p->step, ++s->steps);
}

static void see_evaluation(void *user, const dt_progress *p, const dt_metrics *m)
{
    seen *s = user;
    s->evaluations++;
    ck_assert_int_eq(m->examples, COUNT);
    ck_assert_int_gt(p->step, 0);
}

/* Trained, converted and compared; then the file is loaded by the family and, without it, into a
 * tree with the same paths. */
START_TEST(runs_take_modules_and_datasets_of_programs)
{
    char folder[TEST_PATH], dir[TEST_PATH], file[TEST_PATH];
    const own_options network = { 8 };
    dt_ctx *ctx;
    dt_module *m;
    seen s = { 0 };
    test_folder(folder);
    test_join(dir, folder, "run");
    test_join(file, dir, "model.safetensors");
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_family_register(ctx, &own));
    dt_dataset *data[] = { make_data(ctx, 0), make_data(ctx, 1), make_data(ctx, 2) };
    dt_recipe *r = recipe_of(ctx, dir, "own", &network);
    const dt_run_control control = { .train = data[0],
                                     .validation = data[1],
                                     .test = data[2],
                                     .progress = see_step,
                                     .evaluated = see_evaluation,
                                     .user = &s };
    dt_run_summary summary;
    TEST_OK(ctx, dt_run(ctx, r, &control, &summary));
    ck_assert(summary.same_bits_as_qat && summary.same_bits_from_file);
    ck_assert_int_eq(s.steps, 12);
    ck_assert_int_eq(s.evaluations, 4);
    ck_assert(dt_metric_value(&summary.result[DT_RUN_CONVERTED].metrics, "accuracy") > 0.9);
    TEST_OK(ctx, dt_model_load(ctx, file, &m, NULL));
    ck_assert_msg(dt_module_type_of(dt_module_at(m, "conv")) != NULL, "conv");
    dt_module_free(m);
    /* without dataset, or with one that nothing asks for */
    TEST_FAILS(ctx, DT_ERR_CONFIG, "a program gives the datasets to dt_run",
               dt_run(ctx, r, NULL, NULL));
    dt_recipe_free(r);
    for (int i = 0; i < 3; i++) dt_dataset_free(data[i]);
    dt_ctx_free(ctx);
}
END_TEST

/* A model of two classes, and three in one of the datasets. */
START_TEST(every_dataset_must_fit)
{
    const dt_mlp_options network = {
        .sizes = { 2, { 36, 2 } }, .bias = true, .eps = 1e-5, .momentum = 0.1
    };
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    for (int k = 0; k < 3; k++) {
        dt_dataset *data[3];
        for (int i = 0; i < 3; i++) data[i] = data_of_classes(ctx, i, i == k ? 3 : 2);
        dt_recipe *r = recipe_of(ctx, "none", "mlp", &network);
        const dt_run_control control = {
            .train = data[0], .validation = data[1], .test = data[2], .dry_run = true
        };
        TEST_FAILS(ctx, DT_ERR_CONFIG, "is 2, but the labels have 3 classes",
                   dt_run(ctx, r, &control, NULL));
        dt_recipe_free(r);
        for (int i = 0; i < 3; i++) dt_dataset_free(data[i]);
    }
    dt_ctx_free(ctx);
}
END_TEST

static void evaluate(dt_ctx *ctx, dt_module *m, float y[COUNT * 3])
{
    dt_metrics metrics;
    dt_tensor *out;
    dt_dataset *d = make_data(ctx, 0);
    TEST_OK(ctx, dt_evaluate(m, d, NULL, &metrics, &out));
    memcpy(y, dt_data(out), COUNT * 3 * sizeof *y);
    dt_tensor_free(out);
    dt_dataset_free(d);
}

/* A converted module without a family: the float tree is built and restored. */
START_TEST(converted_modules_come_back)
{
    char folder[TEST_PATH], file[TEST_PATH];
    float before[COUNT * 3], after[COUNT * 3];
    const own_options network = { 8 };
    dt_ctx *ctx;
    dt_module *m, *again;
    test_folder(folder);
    test_join(file, folder, "m.safetensors");
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, own_create(ctx, &network, &m));
    dt_qat_options qat = dt_qat_defaults();
    TEST_OK(ctx, dt_prepare(m, &qat));
    ck_assert_msg(dt_module_at(m, "conv")->folding != DT__APART, "the norm is not folded");
    if (_i > 0) TEST_OK(ctx, dt_convert(m, NULL, NULL));
    evaluate(ctx, m, before);
    TEST_OK(ctx, dt_model_save(m, NULL, file));
    TEST_OK(ctx, own_create(ctx, &network, &again));
    if (_i > 0) {
        TEST_FAILS(ctx, DT_ERR_FORMAT, "converted", dt_model_load_weights(again, file));
    }
    TEST_OK(ctx, dt_model_restore(again, file));
    evaluate(ctx, again, after);
    ck_assert_mem_eq(before, after, sizeof before);
    dt_module_free(again);
    const own_options wider = { 9 };
    TEST_OK(ctx, own_create(ctx, &wider, &again));
    ck_assert_int_ne(dt_model_restore(again, file), DT_OK);
    dt_module_free(again);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(norms_are_declared_with_care)
{
    dt_ctx *ctx;
    dt_module *conv, *norm, *linear;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    const dt_conv_layer layer = {
        .in = 2, .out = 4, .kernel = { 3, 3 }, .conv = dt_conv_defaults()
    };
    TEST_OK(ctx, dt_conv2d_create(ctx, &layer, &conv));
    TEST_OK(ctx, dt_batch_norm2d_create(ctx, 5, 0.1, 1e-5, &norm));
    TEST_OK(ctx, dt_linear_create(ctx, 4, 4, true, &linear));
    TEST_FAILS(ctx, DT_ERR_ARG, "5 channels, the layer 4", dt_module_folds(conv, norm));
    TEST_FAILS(ctx, DT_ERR_ARG, "batch_norm2d into linear", dt_module_folds(linear, norm));
    TEST_FAILS(ctx, DT_ERR_ARG, "linear into conv2d", dt_module_folds(conv, linear));
    TEST_FAILS(ctx, DT_ERR_ARG, "NULL", dt_module_folds(conv, NULL));
    dt_module_free(norm);
    TEST_OK(ctx, dt_batch_norm2d_create(ctx, 4, 0.1, 1e-5, &norm));
    TEST_OK(ctx, dt_module_folds(conv, norm));
    dt_module_free(conv);
    dt_module_free(norm);
    dt_module_free(linear);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_own_models_suite(void)
{
    Suite *suite = suite_create("own_models");
    TCase *c = tcase_create("own_models");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, structs_say_what_recipes_say, 0,
                        (int)(sizeof shipped / sizeof shipped[0]));
    tcase_add_test(c, failing_allocations_leak_nothing);
    tcase_add_test(c, structs_are_checked);
    tcase_add_test(c, families_can_be_registered);
    tcase_add_test(c, runs_take_modules_and_datasets_of_programs);
    tcase_add_test(c, every_dataset_must_fit);
    tcase_add_loop_test(c, converted_modules_come_back, 0, 2);
    tcase_add_test(c, norms_are_declared_with_care);
    suite_add_tcase(suite, c);
    return suite;
}
