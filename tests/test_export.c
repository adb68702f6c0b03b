/* Exporters in general: what is refused and how, convert.formats. */
#include "models.h"
#include "testing.h"

#include "nn/module.h"
#include "ops/ops_list.h"

#include <detent/experimental/export.h>
#include <detent/train.h>

#include <stdio.h>
#include <stdlib.h>

/* ---- what a format lacks --------------------------------------------------------------------- */

static dt_status own_shape(dt_call *c)
{
    return dt_result(c, 0, DT_F32, c->in[0]->rank, c->in[0]->dims);
}

static void own_forward(const dt_call *c)
{
    memcpy(dt_data_mut(c->y), dt_data(c->arg[0]), (size_t)dt_count(c->y) * sizeof(float));
}

static const dt_op own_op = {
    .name = "own_op", .in_name = { "x" }, .shape = own_shape, .forward = own_forward
};

static void run_own(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)m;
    (void)n_in;
    (void)n_out;
    out[0] = dt_apply(t, &own_op, in, 1, NULL);
}

static const dt_module_type own_type = { .name = "own", .forward = run_own };

/* An mlp that contains layers of an unknown type. */
static dt_module *strange_model(dt_ctx *ctx)
{
    dt_module *m, *own;
    TEST_OK(ctx, dt_sequential_create(ctx, &m));
    for (int i = 0; i < 2; i++) {
        char name[16];
        snprintf(name, sizeof name, "own%d", i);
        TEST_OK(ctx, dt_module_create(ctx, &own_type, 0, &own));
        TEST_OK(ctx, dt_module_add(m, name, own));
    }
    return m;
}

static const dt_exporter *traced_at(int i)
{
    const dt_exporter *e;
    for (int k = 0; (e = dt_exporter_at(k)) != NULL; k++) {
        if (e->traced && i-- == 0) return e;
    }
    return NULL;
}

static dt_status four_values(dt_ctx *ctx, const void *options, dt_example *in, dt_example *out)
{
    (void)ctx;
    (void)options;
    *in = *out = (dt_example){ "own", -1, 1, { 4 }, true };
    return DT_OK;
}

/* Every op that a format lacks is named with its module, before anything is written. */
START_TEST(all_that_is_missing_is_one_error)
{
    const dt_exporter *e = traced_at(_i);
    const dt_family family = { .name = "own", .shapes = four_values };
    const dt_model_info info = { .family = &family };
    char folder[TEST_PATH], path[TEST_PATH];
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    dt_module *m = strange_model(ctx);
    test_folder(folder);
    test_join(path, folder, "strange");
    ck_assert_int_eq(dt_export(m, &info, e->name, NULL, path, NULL), DT_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(dt_error(ctx), "own_op in own0 (own)") != NULL, "%s", dt_error(ctx));
    ck_assert_msg(strstr(dt_error(ctx), "own_op in own1 (own)") != NULL, "%s", dt_error(ctx));
    ck_assert(!test_file_exists(path));
    ck_assert_int_eq(dt_export_check(m, &info, e->name), DT_ERR_UNSUPPORTED);
    TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, "family own is none of", dt_export_check(m, &info, "hf"));
    ck_assert_int_eq(dt_export(m, &info, "gif", NULL, path, NULL), DT_ERR_ARG);
    ck_assert(strstr(dt_error(ctx), "no format 'gif'; there are: hf") != NULL);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

/* A prepared model has to be converted; whether a format can hold it is known before its ranges
 * are. */
START_TEST(prepared_models_are_checked_and_not_written)
{
    static const int64_t sizes[] = { 12, 8, 3, 0 };
    const dt_mlp_options mlp = small_options(sizes, 0, 0);
    const dt_model_info info = small_info(&mlp);
    dt_qat_options qat = dt_qat_defaults();
    char folder[TEST_PATH], path[TEST_PATH];
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    dt_module *m = small_model(ctx, &mlp);
    qat.preset = DT_INT8_STATIC_INT8_WEIGHT;
    TEST_OK(ctx, dt_prepare(m, &qat));
    TEST_OK(ctx, dt_export_check(m, &info, traced_at(_i)->name));
    test_folder(folder);
    test_join(path, folder, "prepared");
    ck_assert_int_eq(dt_export(m, &info, traced_at(_i)->name, NULL, path, NULL), DT_ERR_STATE);
    ck_assert(!test_file_exists(path));
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

/* Wrong arguments are errors, and nothing is written. */
START_TEST(wrong_arguments_are_errors)
{
    static const int64_t sizes[] = { 12, 8, 3, 0 };
    const dt_export_options none = dt_export_defaults();
    dt_export_options wrong[4] = { none, none, none, none };
    const dt_mlp_options mlp = small_options(sizes, 0, 0);
    const dt_model_info info = small_info(&mlp);
    char folder[TEST_PATH], path[TEST_PATH];
    const dt_exporter *e;
    dt_trace_plan plan;
    dt_trace *t;
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    dt_module *m = small_model(ctx, &mlp);
    test_folder(folder);
    test_join(path, folder, "wrong");
    wrong[0].onnx_ops = 7;
    wrong[1].onnx_ops = -1;
    wrong[2].accuracy = 3;
    wrong[3].context = -1;
    for (int i = 0; i < DT__COUNT_OF(wrong); i++) {
        ck_assert_int_eq(dt_export(m, &info, "onnx", &wrong[i], path, NULL), DT_ERR_ARG);
        ck_assert(!test_file_exists(path));
    }
    for (int i = 0; (e = dt_exporter_at(i)) != NULL; i++) {
        TEST_FAILS(ctx, DT_ERR_ARG, "path is NULL", dt_export(m, &info, e->name, NULL, NULL, NULL));
    }
    TEST_OK(ctx, dt_export(m, NULL, "stacked", NULL, path, NULL));
    ck_assert(dt_exporter_named(NULL) == NULL);
    TEST_FAILS(ctx, DT_ERR_ARG, "no format ''", dt_export(m, &info, NULL, NULL, path, NULL));
    TEST_FAILS(ctx, DT_ERR_ARG, "no format ''", dt_export_check(m, &info, NULL));
    ck_assert_int_eq(dt_export(NULL, &info, "onnx", NULL, path, NULL), DT_ERR_ARG);
    ck_assert_int_eq(dt_export_check(NULL, &info, "onnx"), DT_ERR_ARG);
    ck_assert_int_eq(dt_trace_model(NULL, &info, false, &t), DT_ERR_ARG);
    TEST_OK(ctx, dt_trace_model(m, &info, false, &t));
    ck_assert_int_eq(dt_extent_at((dt_extent){ 3, 1, 1 }, INT64_MAX / 2, 1), INT64_MAX);
    TEST_FAILS(ctx, DT_ERR_ARG, "more bytes than", dt_trace_plan_create(t, INT64_MAX, 1, 8, &plan));
    dt_trace_free(t);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- convert.formats ------------------------------------------------------------------------- */

START_TEST(names_of_formats_are_read)
{
    const dt_exporter *e;
    dt_export_options o;
    ck_assert(dt_export_format("onnx-qdq", &e, &o));
    ck_assert_str_eq(e->name, "onnx");
    ck_assert_int_eq(o.onnx_ops, DT_ONNX_QDQ);
    ck_assert(dt_export_format("c", &e, &o) && strcmp(e->name, "c") == 0);
    ck_assert(!dt_export_format("onnx-", &e, &o));
    ck_assert(!dt_export_format("c-qdq", &e, &o));
    ck_assert(!dt_export_format("", &e, &o));
    ck_assert(!dt_export_format("a name that is much longer than any", &e, &o));
}
END_TEST

static const char recipe_text[] = "run: {dir: %s/run, seed: 1}\n"
                                  "model: {family: mlp, sizes: [784, 8, 10]}\n"
                                  "data: {format: digits, train_count: 64, test_count: 16}\n"
                                  "train: {steps: 4, batch_size: 8}\n"
                                  "qat: {preset: %s}\n"
                                  "convert: {formats: %s}\n";

static const struct {
    const char *preset, *formats, *says; /* says NULL: it trains */
} runs[] = {
    { "int8-dynamic-int4-weight", "[c, onnx]", NULL },
    { "int8-dynamic-int4-weight", "c", NULL },
    { "int8-dynamic-int4-weight", "[c, onnx-qdq]", "6:24: error: format onnx cannot express" },
    { "int8-dynamic-int4-weight", "[c, gguff]", "6:24: error: 'convert.formats.1': there is no" },
};

START_TEST(a_format_is_refused_before_training)
{
    char text[TEST_PATH + 600], folder[TEST_PATH], path[TEST_PATH];
    dt_recipe *r = NULL;
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    test_folder(folder);
    snprintf(text, sizeof text, recipe_text, folder, runs[_i].preset, runs[_i].formats);
    test_join(path, folder, "formats.yaml");
    test_write_text(path, text);
    dt_status s = dt_recipe_read(ctx, &(dt_recipe_source){ .path = path }, &r);
    if (s == DT_OK) s = dt_run(ctx, r, &(dt_run_control){ .dry_run = true }, NULL);
    if (runs[_i].says == NULL) {
        TEST_OK(ctx, s);
    } else {
        ck_assert_int_eq(s, DT_ERR_CONFIG);
        ck_assert_msg(strstr(dt_recipe_error_at(r, 0), runs[_i].says) != NULL, "%s",
                      dt_recipe_error_at(r, 0));
    }
    dt_recipe_free(r);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_export_suite(void)
{
    Suite *s = suite_create("export");
    TCase *c = tcase_create("exports");
    tcase_add_loop_test(c, all_that_is_missing_is_one_error, 0, 2);
    tcase_add_loop_test(c, prepared_models_are_checked_and_not_written, 0, 2);
    tcase_add_test(c, wrong_arguments_are_errors);
    tcase_add_test(c, names_of_formats_are_read);
    tcase_add_loop_test(c, a_format_is_refused_before_training, 0, DT__COUNT_OF(runs));
    suite_add_tcase(s, c);
    return s;
}
