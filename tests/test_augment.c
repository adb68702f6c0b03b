/* Random changes of images: rotation, brightness, contrast, erasing. */
#include "data/dataset.h"
#include "sample.h"

#include <math.h>
#include <stdlib.h>

enum { COUNT = 60, SIDE = 8, PIXELS = SIDE * SIDE };

/* Images of one number, 51 + their index, with themselves as masks of one class. */
static dt_dataset *flat(dt_ctx *ctx, dt_target target)
{
    static uint8_t pixels[COUNT * PIXELS];
    for (int i = 0; i < COUNT * PIXELS; i++) pixels[i] = (uint8_t)(51 + i / PIXELS);
    const dt_images images = { COUNT, 1, SIDE, SIDE, target, 256, pixels, pixels };
    dt_dataset *d;
    TEST_OK(ctx, dt_dataset_create(ctx, &images, &d));
    TEST_OK(ctx, dt_dataset_normalize(d, &(dt_reals){ 1, { 0.5 } }, &(dt_reals){ 1, { 0.25 } }));
    return d;
}

/* All images of epoch 1, changed, as p/255; masks to `mask`, if it is not NULL. */
static void changed(int threads, dt_augment_options a, int64_t batch, float out[COUNT][PIXELS],
                    int32_t mask[COUNT][PIXELS])
{
    dt_ctx *ctx = sample_context(threads);
    dt_dataset *d = flat(ctx, mask == NULL ? DT_TARGET_CLASS : DT_TARGET_MASK);
    const dt_loader_options o = { .batch_size = batch, .seed = 3, .augment = a };
    dt_loader *l;
    dt_tensor *x, *target;
    TEST_OK(ctx, dt_loader_create(d, &o, &l));
    TEST_OK(ctx, dt_loader_seek(l, (dt_position){ 1, 0 }));
    for (int64_t i = 0; i < COUNT; i += dt_dim(x, 0)) {
        TEST_OK(ctx, dt_loader_next(l, &x, &target));
        const float *v = dt_data(x);
        for (int64_t k = 0; k < dt_count(x); k++) {
            out[i + k / PIXELS][k % PIXELS] = v[k] * 0.25F + 0.5F;
        }
        if (mask != NULL) memcpy(mask[i], dt_data(target), (size_t)dt_count(x) * sizeof **mask);
    }
    dt_loader_free(l);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}

static float own(int i) { return (float)(51 + i) / 255; }

START_TEST(fixed)
{
    static float a[COUNT][PIXELS], b[COUNT][PIXELS];
    const dt_augment_options all = {
        .shift = 1, .flip = true, .rotation = 20, .brightness = 0.2, .contrast = 0.3, .erasing = 0.5
    };
    changed(1, all, COUNT, a, NULL);
    changed(2, all, 7, b, NULL);
    ck_assert_int_eq(memcmp(a, b, sizeof a), 0);
    changed(1, (dt_augment_options){ .shift = 1, .flip = true }, COUNT, b, NULL);
    ck_assert_int_ne(memcmp(a, b, sizeof a), 0);
}
END_TEST

START_TEST(brightness_and_contrast)
{
    static float v[COUNT][PIXELS];
    for (int which = 0; which < 2; which++) {
        const dt_augment_options o = which == 0 ? (dt_augment_options){ .brightness = 0.2 }
                                                : (dt_augment_options){ .contrast = 0.5 };
        float least = 2, most = -2;
        changed(1, o, 8, v, NULL);
        for (int i = 0; i < COUNT; i++) {
            for (int k = 1; k < PIXELS; k++) TEST_EACH(v[i][k] == v[i][0], "image %d", i);
            const float change = which == 0 ? v[i][0] - own(i) : (v[i][0] - 0.5F) / (own(i) - 0.5F);
            least = fminf(least, change);
            most = fmaxf(most, change);
        }
        const float middle = which == 0 ? 0 : 1, reach = which == 0 ? 0.2F : 0.5F;
        ck_assert(least > middle - 1.001F * reach && least < middle - 0.8F * reach);
        ck_assert(most < middle + 1.001F * reach && most > middle + 0.8F * reach);
    }
}
END_TEST

START_TEST(erasing)
{
    static float v[COUNT][PIXELS];
    int erased = 0;
    bool heights[SIDE + 1] = { false };
    changed(1, (dt_augment_options){ .erasing = 0.5 }, 8, v, NULL);
    for (int i = 0; i < COUNT; i++) {
        int top = SIDE, bottom = -1, left = SIDE, right = -1, n = 0;
        for (int k = 0; k < PIXELS; k++) {
            if (v[i][k] != 0) continue;
            top = k / SIDE < top ? k / SIDE : top;
            bottom = k / SIDE > bottom ? k / SIDE : bottom;
            left = k % SIDE < left ? k % SIDE : left;
            right = k % SIDE > right ? k % SIDE : right;
            n++;
        }
        if (n == 0) continue;
        const int height = bottom - top + 1, width = right - left + 1;
        ck_assert(n == height * width && height <= SIDE / 2 && width <= SIDE / 2);
        heights[height] = true;
        erased++;
    }
    ck_assert(erased > COUNT / 4 && erased < 3 * COUNT / 4);
    for (int h = 1; h <= SIDE / 2; h++) ck_assert(heights[h]);
}
END_TEST

/* Rotations by known angles, and a mask that turns as its image does. */
START_TEST(rotation)
{
    static float v[COUNT][PIXELS];
    static int32_t mask[COUNT][PIXELS];
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d = flat(ctx, DT_TARGET_CLASS);
    uint8_t from[PIXELS], to[PIXELS], back[PIXELS];
    for (int k = 0; k < PIXELS; k++) from[k] = (uint8_t)(k * 3 + 1);
    for (int smooth = 0; smooth < 2; smooth++) {
        dt__turn_plane(d, from, 0, smooth, to);
        ck_assert_int_eq(memcmp(from, to, PIXELS), 0);
        dt__turn_plane(d, from, 1, smooth, to); /* tan 45: a quarter */
        for (int k = 0; k < PIXELS; k++) {
            const int r = k / SIDE, c = k % SIDE;
            ck_assert_int_eq(to[k], from[(SIDE - 1 - c) * SIDE + r]);
        }
        dt__turn_plane(d, to, -1, smooth, back);
        ck_assert_int_eq(memcmp(from, back, PIXELS), 0);
    }
    dt_dataset_free(d);
    dt_ctx_free(ctx);
    changed(1, (dt_augment_options){ .rotation = 45 }, 8, v, mask);
    int corners = 0;
    for (int i = 0; i < COUNT; i++) {
        for (int k = 0; k < PIXELS; k++) {
            TEST_EACH(v[i][k] > -1e-6F && v[i][k] < own(i) + 1e-6F, "brighter than it was");
            TEST_EACH(mask[i][k] == 0 || mask[i][k] == 51 + i, "a class that was not there");
            TEST_EACH(mask[i][k] != 0 || v[i][k] < 0.6F * own(i), "mask and image differ");
        }
        ck_assert_int_eq(mask[i][PIXELS / 2 + SIDE / 2], 51 + i);
        corners += mask[i][0] == 0;
    }
    ck_assert(corners > COUNT / 2 && corners < COUNT);
}
END_TEST

/* ---- mixtures -------------------------------------------------------------------------------- */

/* As `flat`, of class i % 10. */
static dt_dataset *classed(dt_ctx *ctx)
{
    static uint8_t pixels[COUNT * PIXELS], labels[COUNT];
    for (int i = 0; i < COUNT * PIXELS; i++) pixels[i] = (uint8_t)(51 + i / PIXELS);
    for (int i = 0; i < COUNT; i++) labels[i] = (uint8_t)(i % 10);
    const dt_images images = { COUNT, 1, SIDE, SIDE, DT_TARGET_CLASS, 10, pixels, labels };
    dt_dataset *d;
    TEST_OK(ctx, dt_dataset_create(ctx, &images, &d));
    return d;
}

/* Checks a batch of the images first ... first + n - 1, and returns the weight of its labels. */
static double check_batch(dt_ctx *ctx, dt_loader *l, int first, bool *cut)
{
    dt_tensor *x, *target, *other;
    TEST_OK(ctx, dt_loader_next(l, &x, &target));
    const double share = dt_loader_mixed(l, &other);
    const int n = (int)dt_dim(x, 0);
    const int32_t *label = dt_data(target), *its = dt_data(other);
    const float *v = dt_data(x);
    *cut = false;
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(label[i], (first + i) % 10);
        ck_assert_int_eq(its[i], label[n - 1 - i]);
        const float mine = own(first + i), partner = own(first + n - 1 - i);
        int exchanged = 0, kept = 0;
        for (int k = 0; k < PIXELS; k++) {
            exchanged += v[i * PIXELS + k] == partner;
            kept += v[i * PIXELS + k] == mine;
        }
        if (mine == partner) continue;
        if (kept + exchanged == PIXELS) {
            TEST_NEAR((double)kept / PIXELS, share, 1e-5, 0);
            *cut = true;
            continue;
        }
        for (int k = 0; k < PIXELS; k++) {
            TEST_NEAR((double)v[i * PIXELS + k],
                      share * (double)mine + (1 - share) * (double)partner, 1e-6, 0);
        }
    }
    return share;
}

/* Of Beta(a, a) the mean is 1/2 and the variance 1 / (4 (2a + 1)). */
START_TEST(mixtures)
{
    static const struct {
        double mixup, cutmix, variance;
    } kinds[] = {
        { 1, 0, 1.0 / 12 }, { 0.4, 0, 1 / 7.2 }, { 2, 0, 0.05 }, { 0, 1, 0 }, { 1, 1, 0 }
    };
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d = classed(ctx);
    double sum = 0, squares = 0, n = 0, cuts = 0;
    const dt_loader_options o = { .batch_size = 7,
                                  .seed = 5,
                                  .augment = { .mixup = kinds[_i].mixup,
                                               .cutmix = kinds[_i].cutmix } };
    dt_loader *l, *again;
    TEST_OK(ctx, dt_loader_create(d, &o, &l));
    TEST_OK(ctx, dt_loader_create(d, &o, &again));
    const int batches = (int)test_count((test_draws){ .usual = 900, .sanitized = 270 });
    for (int i = 0; i < batches; i++) {
        bool cut, same;
        const double share = check_batch(ctx, l, i % 9 * 7, &cut);
        if (i % 100 == 50) { /* any batch may be made first */
            TEST_OK(ctx, dt_loader_seek(again, (dt_position){ i / 9, i % 9 }));
            ck_assert_double_eq(check_batch(ctx, again, i % 9 * 7, &same), share);
        }
        sum += share;
        squares += (share - 0.5) * (share - 0.5);
        cuts += cut;
        n++;
    }
    if (kinds[_i].cutmix == 0) {
        TEST_NEAR(sum / n, 0.5, 0.05, 0);
        TEST_NEAR(squares / n, kinds[_i].variance, 0.01, 0);
        ck_assert(cuts < 0.02 * n); /* a share of 1, rounded */
    } else if (kinds[_i].mixup == 0) {
        ck_assert_double_eq(cuts, n);
    } else {
        ck_assert(cuts > 0.4 * n && cuts < 0.6 * n);
    }
    dt_loader_free(l);
    dt_loader_free(again);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(mixtures_are_refused)
{
    dt_ctx *ctx = sample_context(1);
    dt_dataset *masks = flat(ctx, DT_TARGET_MASK), *images = classed(ctx);
    dt_loader *l;
    dt_loader_options o = { .batch_size = 7, .augment = { .cutmix = 1 } };
    TEST_FAILS(ctx, DT_ERR_ARG, "whose targets are classes", dt_loader_create(masks, &o, &l));
    o.augment.cutmix = 2.5;
    TEST_FAILS(ctx, DT_ERR_ARG, "expected 0 to 2", dt_loader_create(images, &o, &l));
    dt_dataset_free(masks);
    dt_dataset_free(images);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(refused)
{
    static const struct {
        dt_augment_options a;
        const char *text;
    } cases[] = {
        { { .rotation = 181 }, "augment.rotation 181: expected 0 to 180" },
        { { .rotation = -1 }, "rotation -1" },
        { { .brightness = 1.5 }, "brightness 1.5: expected 0 to 1" },
        { { .contrast = NAN }, "contrast" },
        { { .erasing = 2 }, "erasing 2" },
    };
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d = flat(ctx, DT_TARGET_CLASS);
    dt_loader *l;
    for (int i = 0; i < DT__COUNT_OF(cases); i++) {
        const dt_loader_options o = { .batch_size = 1, .augment = cases[i].a };
        TEST_FAILS(ctx, DT_ERR_ARG, cases[i].text, dt_loader_create(d, &o, &l));
    }
    TEST_OK(ctx, dt_dataset_denoise(d, 0.1));
    const dt_loader_options o = { .batch_size = 1, .augment.erasing = 0.5 };
    TEST_FAILS(ctx, DT_ERR_ARG, "is an image, too", dt_loader_create(d, &o, &l));
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_augment_suite(void)
{
    Suite *suite = suite_create("augment");
    TCase *cases = tcase_create("images");
    tcase_add_test(cases, fixed);
    tcase_add_test(cases, brightness_and_contrast);
    tcase_add_test(cases, erasing);
    tcase_add_test(cases, rotation);
    tcase_add_loop_test(cases, mixtures, 0, 5);
    tcase_add_test(cases, mixtures_are_refused);
    tcase_add_test(cases, refused);
    suite_add_tcase(suite, cases);
    return suite;
}
