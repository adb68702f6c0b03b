/* Format c, case by case: the page, schemes of weights and activations, ops, values that are not
 * finite. */
#include "c_folder.h"
#include "models.h"

#include "core/core.h"

#include <detent/export.h>
#include <detent/layers.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define COMPILER "cc " C_STRICT " -O0"

static dt_ctx *ctx;

static void setup(void)
{
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = 1;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
}

static void teardown(void) { dt_ctx_free(ctx); }

/* ---- the page -------------------------------------------------------------------------------- */

static const char data[] =
    "{\"target\":\"classes\",\"input\":[12],\"axis\":0,"
    "\"mean\":[0.5,0,0,0,0,0,0,0,0,0,0,0],\"deviation\":[1,1,1,1,1,1,1,1,1,1,1,0.25],"
    "\"names\":[\"a|b\",\"<script>\",\"\\n## c*/\",\"\xc3\xa9\"]}";

START_TEST(the_page_says_what_the_file_says)
{
    static const char *const said[] = {
        "| family | mlp |\n",
        "| target | classes |\n",
        "| classes | a\\|b, \\<script\\>, _\\#\\# c\\*/, \xc3\xa9 |\n",
        "| mean | 0.5, 0, ",
        "| layers.0.weight | [9, 12] | int4 symmetric group 32 | int8 asymmetric per token",
        "| head.weight | [4, 9] | ",
        "| multiply-adds | 144 |\n",
        "| value | bytes | offset | from call | to call | of |\n|---|---|---|---|---|---|\n| `",
    };
    const int64_t sizes[] = { 12, 9, 4, 0 };
    const dt_mlp_options o = small_options(sizes, DT_NORM_NONE, 0);
    const dt_qat_options qat = dt_qat_defaults();
    char path[TEST_PATH], file[TEST_PATH], hash[64];
    dt_model_info info = small_info(&o), loaded;
    dt_module *m = small_model(ctx, &o), *again;
    info.data = data;
    test_folder(path);
    test_join(file, path, "model.safetensors");
    TEST_OK(ctx, dt_prepare(m, &qat));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    TEST_OK(ctx, dt_model_save(m, &info, file));
    TEST_OK(ctx, dt_model_load(ctx, file, &again, &loaded));
    ck_assert_uint_eq(strlen(loaded.hash), 16);
    test_join(path, path, "net");
    TEST_OK(ctx, dt_export(again, &loaded, "c", NULL, path, NULL));
    test_join(file, path, "README.md");
    char *page = test_read_file(file, NULL);
    snprintf(hash, sizeof hash, "| model file, `detent.xxh3` | %s |\n", loaded.hash);
    ck_assert_msg(strstr(page, hash) != NULL, "%s is not in\n%s", hash, page);
    for (int i = 0; i < DT__COUNT_OF(said); i++) {
        ck_assert_msg(strstr(page, said[i]) != NULL, "%s is not in\n%s", said[i], page);
    }
    free(page);
    dt_model_info_free(ctx, &loaded);
    dt_module_free(again);
    dt_module_free(m);
}
END_TEST

Suite *test_export_c_cases_suite(void)
{
    Suite *s = suite_create("export_c_cases");
    TCase *c = tcase_create("cases");
    tcase_set_timeout(c, 300);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, the_page_says_what_the_file_says);
    suite_add_tcase(s, c);
    return s;
}
