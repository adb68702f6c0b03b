/* The context: its defaults, its memory, its errors. */
#include "testing.h"

#include <detent/detent.h>

START_TEST(context_is_made_and_freed)
{
    dt_ctx *ctx = NULL;
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    ck_assert_str_eq(dt_error(ctx), "");
    ck_assert_int_ge(dt_threads(ctx), 1);
    dt_ctx_free(ctx);
    dt_ctx_free(NULL);
}
END_TEST

Suite *test_testing_suite(void)
{
    Suite *s = suite_create("testing");
    TCase *c = tcase_create("context");
    tcase_add_test(c, context_is_made_and_freed);
    suite_add_tcase(s, c);
    return s;
}
