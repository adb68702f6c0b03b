/* Rounding of a weight by itself. Reference values: golden/rounding. */
#include "testing.h"

#include "ptq/matrix.h"
#include "rounding_golden.h"

#include <stdio.h>

static dt_ctx *context(int threads)
{
    dt_ctx *ctx;
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = threads;
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    return ctx;
}

static const char *const files[] = {
    "a2_conv",         "a2_s8",           "a2_tconv",      "a2_u8",         "conv_6x4x3x3",
    "conv_depthwise",  "conv_grouped",    "conv_strided",  "dead",          "equal_norm",
    "lin_16x96",       "lin_48x128",      "lin_8x32",      "lin_lowrank",   "not_positive",
    "tconv_depthmult", "tconv_depthwise", "tconv_dilated", "tconv_groups2", "tconv_nooverlap",
    "tconv_plain",     "tconv_stride2",   "zeros_05",      "zeros_60",      "zeros_few",
};

/* Nearest: the files' codes, and those of a FakeQuantTensor. */
START_TEST(test_nearest)
{
    dt_ctx *ctx = context(2);
    int cases = 0;
    for (int f = 0; f < DT__COUNT_OF(files); f++) {
        rounding_layer l;
        rounding_case c;
        if (!rounding_open(ctx, files[f], &l)) continue;
        for (int i = 0; rounding_case_at(&l, i, &c); i++) {
            rounding_tally tally = { 0, 0, 0 };
            dt_rounded *got;
            if (c.options.rounder == DT_ROUND_NEAREST) {
                TEST_OK(ctx, rounding_run(&c, &got, NULL));
                rounding_compare(&c, got, 99, &tally);
                /* the largest element of a block lies on a boundary, and a product with 1/s is not
                 * always the quotient; the files have the product */
                ck_assert_int_eq(tally.wrong, 0);
                dt_rounded_free(ctx, got);
                cases++;
            }
            rounding_case_free(&c);
        }
        rounding_close(&l);
    }
    printf("rounding: nearest: %d cases\n", cases);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(test_defaults)
{
    const dt_rounding_options o = dt_rounding_defaults();
    ck_assert_int_eq(o.rounder, DT_ROUND_NEAREST);
    ck_assert(o.rounding.keep_better && !o.rounding.keep_zeros);
    ck_assert_int_eq(o.rounding.block, 128);
}
END_TEST

Suite *test_rounding_suite(void)
{
    Suite *s = suite_create("rounding");
    TCase *t = tcase_create("rounding");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, test_defaults);
    tcase_add_test(t, test_nearest);
    suite_add_tcase(s, t);
    return s;
}
