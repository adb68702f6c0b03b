/* Datasets, digits, batches, and the `data:` block of recipes. */
#include "sample.h"

#include "core/shuffle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- datasets ------------------------------------------------------------------------------ */

START_TEST(datasets)
{
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d = sample_counted(ctx, 10, 2, 3, 4), *last = NULL, *rest = NULL;
    TEST_FAILS(ctx, DT_ERR_ARG, "0 to 10", dt_dataset_split(d, 11, &last));
    TEST_FAILS(ctx, DT_ERR_ARG, "0 to 10", dt_dataset_split(d, -1, &last));
    TEST_OK(ctx, dt_dataset_split(d, 4, &last));
    ck_assert_int_eq(dt_dataset_count(d), 6);
    ck_assert_int_eq(dt_dataset_count(last), 4);
    ck_assert_int_eq(dt_dataset_classes(last), 4);
    ck_assert_int_eq(dt_dataset_label(last, 0), 6 % 4);
    ck_assert_ptr_eq(dt_dataset_image(last, 0), dt_dataset_image(d, 5) + 6);
    ck_assert_ptr_null(dt_dataset_image(d, 6));
    ck_assert_ptr_null(dt_dataset_image(d, -1));
    ck_assert_int_eq(dt_dataset_label(d, 6), -1);
    dt_dataset_free(d);
    TEST_OK(ctx, dt_dataset_split(last, 4, &rest));
    ck_assert_int_eq(dt_dataset_count(last), 0);
    dt_dataset_free(last);
    ck_assert_int_eq(dt_dataset_image(rest, 0)[0], (uint8_t)(36 * 7));
    dt_ctx_free(ctx); /* the order of frees does not matter */
    dt_dataset_free(rest);
    dt_dataset_free(NULL);
}
END_TEST

START_TEST(bad_datasets)
{
    static const uint8_t pixels[6] = { 0 }, labels[3] = { 0, 1, 2 };
    static const dt_images cases[] = {
        { -1, 1, 1, 2, DT_TARGET_CLASS, 3, pixels, labels },
        { 3, 0, 1, 2, DT_TARGET_CLASS, 3, pixels, labels },
        { 3, 1, 0, 2, DT_TARGET_CLASS, 3, pixels, labels },
        { 3, 1, 1, -2, DT_TARGET_CLASS, 3, pixels, labels },
        { 3, 1, 1, 2, DT_TARGET_CLASS, 0, pixels, labels },
        { 3, 1, 1, 2, DT_TARGET_CLASS, 257, pixels, labels },
        { 3, 1, 1, 2, DT_TARGET_CLASS, 2, pixels, labels },
        { 3, 1, 1, 1, DT_TARGET_MASK, 2, pixels, labels },
        { 3, 1, 1, 1, (dt_target)3, 3, pixels, labels },
        { INT64_MAX, 1, 2, 2, DT_TARGET_CLASS, 3, pixels, labels },
        { 1 << 30, 1 << 30, 2, 4, DT_TARGET_IMAGE, 3, pixels, pixels },
    };
    dt_ctx *ctx = sample_context(1);
    for (int i = 0; i < DT__COUNT_OF(cases); i++) {
        dt_dataset *d = NULL;
        TEST_FAILS(ctx, DT_ERR_ARG, "expected", dt_dataset_create(ctx, &cases[i], &d));
        ck_assert_ptr_null(d);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* ---- digits -------------------------------------------------------------------------------- */

/* FNV-1a of the labels and pixels. */
static uint64_t hash_of(const dt_dataset *d)
{
    const int64_t size = dt_dataset_height(d) * dt_dataset_width(d);
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (int64_t i = 0; i < dt_dataset_count(d); i++) {
        const uint8_t *image = dt_dataset_image(d, i);
        h = (h ^ (uint64_t)dt_dataset_label(d, i)) * UINT64_C(0x100000001b3);
        for (int64_t p = 0; p < size; p++) h = (h ^ image[p]) * UINT64_C(0x100000001b3);
    }
    return h;
}

START_TEST(digits_are_fixed)
{
    dt_ctx *one = sample_context(1), *four = sample_context(4);
    dt_dataset *a = sample_digits(one, 500, 1), *b = sample_digits(four, 500, 1),
               *c = sample_digits(four, 100, 1);
    sample_assert_same(a, b);
    for (int64_t i = 0; i < 100; i++) {
        ck_assert_mem_eq(dt_dataset_image(a, i), dt_dataset_image(c, i), 784);
    }
    ck_assert_uint_eq(hash_of(a), UINT64_C(0x97f98534ab328efd)); /* on every machine */
    dt_dataset *other = sample_digits(one, 500, 2);
    ck_assert_uint_ne(hash_of(other), hash_of(a));
    dt_dataset *none = sample_digits(one, 0, 2);
    ck_assert_int_eq(dt_dataset_count(none), 0);
    dt_dataset *bad = NULL;
    TEST_FAILS(one, DT_ERR_ARG, "-1 images", dt_digits_create(one, -1, 0, DT_TARGET_CLASS, &bad));
    dt_dataset_free(a);
    dt_dataset_free(b);
    dt_dataset_free(c);
    dt_dataset_free(other);
    dt_dataset_free(none);
    dt_ctx_free(one);
    dt_ctx_free(four);
}
END_TEST

/* The three tasks draw the same digits: masks hold digit + 1 where there is much ink, clean images
 * differ from the others by the noise alone. */
START_TEST(digits_for_tasks)
{
    dt_ctx *one = sample_context(1), *four = sample_context(4);
    dt_dataset *d = sample_digits(one, 200, 1), *clean = NULL, *masks = NULL, *bad = NULL;
    TEST_OK(one, dt_digits_create(one, 200, 1, DT_TARGET_IMAGE, &clean));
    TEST_OK(four, dt_digits_create(four, 200, 1, DT_TARGET_MASK, &masks));
    TEST_FAILS(one, DT_ERR_ARG, "kind 3", dt_digits_create(one, 1, 1, (dt_target)3, &bad));
    ck_assert_int_eq(dt_dataset_target(masks), DT_TARGET_MASK);
    ck_assert_int_eq(dt_dataset_classes(masks), 11);
    ck_assert_int_eq(dt_dataset_target(clean), DT_TARGET_IMAGE);
    ck_assert_int_eq(dt_dataset_classes(clean), 0);
    int wrong = 0, white = 0;
    for (int64_t i = 0; i < 200; i++) {
        const uint8_t *image = dt_dataset_image(d, i), *mask = dt_dataset_target_image(masks, i);
        const uint8_t *without = dt_dataset_image(clean, i);
        ck_assert_mem_eq(image, dt_dataset_image(masks, i), 784);
        ck_assert_ptr_eq(without, dt_dataset_target_image(clean, i));
        for (int k = 0; k < 784; k++) {
            wrong += abs(image[k] - without[k]) > 20;
            wrong += mask[k] != 0 && (mask[k] != dt_dataset_label(d, i) + 1 || without[k] < 80);
            wrong += mask[k] == 0 && without[k] > 128;
            white += mask[k] != 0;
        }
    }
    ck_assert_int_eq(wrong, 0);
    ck_assert_int_gt(white, 200 * 50);
    ck_assert_int_lt(white, 200 * 250);
    ck_assert_int_eq(dt_dataset_label(masks, 0), -1);
    ck_assert_ptr_null(dt_dataset_target_image(d, 0));
    ck_assert_ptr_null(dt_dataset_target_image(masks, 200));
    dt_dataset_free(d);
    dt_dataset_free(clean);
    dt_dataset_free(masks);
    dt_ctx_free(one);
    dt_ctx_free(four);
}
END_TEST

#define CLASSES 10
#define PIXELS 784

typedef struct linear {
    float w[CLASSES][PIXELS + 1];
} linear;

static int answer(const linear *m, const uint8_t *image, float p[CLASSES])
{
    int best = 0;
    float sum = 0;
    for (int c = 0; c < CLASSES; c++) {
        p[c] = m->w[c][PIXELS];
        for (int k = 0; k < PIXELS; k++) p[c] += m->w[c][k] * (float)image[k] / 255;
        if (p[c] > p[best]) best = c;
    }
    const float top = p[best];
    for (int c = 0; c < CLASSES; c++) sum += p[c] = expf(p[c] - top);
    for (int c = 0; c < CLASSES; c++) p[c] /= sum;
    return best;
}

static double share_right(const linear *m, const dt_dataset *d)
{
    int64_t right = 0;
    float p[CLASSES];
    for (int64_t i = 0; i < dt_dataset_count(d); i++) {
        right += answer(m, dt_dataset_image(d, i), p) == dt_dataset_label(d, i);
    }
    return (double)right / (double)dt_dataset_count(d);
}

/* Softmax regression by plain gradient descent learns the digits, but stays under 95 %. */
START_TEST(digits_are_not_linear)
{
    dt_ctx *ctx = sample_context(2);
    dt_dataset *train = sample_digits(ctx, 4000, 1), *test = sample_digits(ctx, 1000, ~UINT64_C(1));
    linear *m = calloc(1, sizeof *m);
    int seen[CLASSES] = { 0 };
    for (int step = 0; step < 5 * 4000; step++) {
        const uint8_t *image = dt_dataset_image(train, step % 4000);
        const int label = dt_dataset_label(train, step % 4000);
        const float rate = step < 3 * 4000 ? 0.02f : 0.004f;
        float p[CLASSES];
        answer(m, image, p);
        seen[label] += step < 4000;
        for (int c = 0; c < CLASSES; c++) {
            const float g = rate * (p[c] - (float)(c == label));
            for (int k = 0; k < PIXELS; k++) m->w[c][k] -= g * (float)image[k] / 255;
            m->w[c][PIXELS] -= g;
        }
    }
    const double share = share_right(m, test);
    printf("data: a linear model reads %.1f %% of the digits\n", 100 * share);
    ck_assert_double_lt(share, 0.95);
    ck_assert_double_gt(share, 0.70);
    for (int c = 0; c < CLASSES; c++) ck_assert_int_gt(seen[c], 300);
    free(m);
    dt_dataset_free(train);
    dt_dataset_free(test);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- loader -------------------------------------------------------------------------------- */

static dt_loader *loader(const dt_dataset *d, dt_ctx *ctx, const dt_loader_options *o)
{
    dt_loader *l = NULL;
    TEST_OK(ctx, dt_loader_create(d, o, &l));
    return l;
}

/* 103 images; the first pixel of each is its number. */
static dt_dataset *numbered(dt_ctx *ctx)
{
    uint8_t pixels[103 * 6] = { 0 }, labels[103];
    for (int i = 0; i < 103; i++) {
        pixels[i * 6] = (uint8_t)i;
        labels[i] = (uint8_t)(i % 7);
    }
    const dt_images images = { 103, 1, 2, 3, DT_TARGET_CLASS, 7, pixels, labels };
    dt_dataset *d = NULL;
    TEST_OK(ctx, dt_dataset_create(ctx, &images, &d));
    return d;
}

/* The numbers of the images of one epoch, in order; returns how many. */
static int read_epoch(dt_ctx *ctx, dt_loader *l, int numbers[103])
{
    int n = 0;
    for (int64_t b = 0; b < dt_loader_batches(l); b++) {
        dt_tensor *x, *labels;
        ck_assert_int_eq(dt_loader_position(l).batch, b);
        TEST_OK(ctx, dt_loader_next(l, &x, &labels));
        ck_assert_int_eq(dt_rank(x), 4);
        ck_assert_int_eq(dt_rank(labels), 1);
        ck_assert_int_eq(dt_dtype_of(x), DT_F32);
        ck_assert_int_eq(dt_dtype_of(labels), DT_I32);
        ck_assert_int_eq(dt_dim(x, 0), dt_dim(labels, 0));
        for (int64_t i = 0; i < dt_dim(x, 0); i++, n++) {
            ck_assert_int_lt(n, 103);
            numbers[n] = (int)lrintf(((const float *)dt_data(x))[i * 6] * 255);
            ck_assert_int_eq(((const int32_t *)dt_data(labels))[i], numbers[n] % 7);
        }
    }
    return n;
}

START_TEST(every_image_once)
{
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d = numbered(ctx);
    dt_loader_options o = dt_loader_defaults();
    o.batch_size = 10;
    o.seed = 5;
    o.drop_last = _i % 2 == 1;
    o.shuffle = _i < 2;
    dt_loader *l = loader(d, ctx, &o);
    ck_assert_int_eq(dt_loader_batches(l), o.drop_last ? 10 : 11);
    int before[103] = { 0 };
    for (int64_t epoch = 0; epoch < 4; epoch++) {
        int numbers[103], count[103] = { 0 };
        ck_assert_int_eq(dt_loader_position(l).epoch, epoch);
        const int n = read_epoch(ctx, l, numbers);
        ck_assert_int_eq(n, o.drop_last ? 100 : 103);
        for (int i = 0; i < n; i++) ck_assert_int_eq(count[numbers[i]]++, 0);
        int moved = 0;
        for (int i = 0; i < n; i++) moved += numbers[i] != (o.shuffle ? before[i] : i);
        if (o.shuffle) ck_assert_int_gt(moved, 80);
        else ck_assert_int_eq(moved, 0);
        memcpy(before, numbers, sizeof before);
    }
    dt_loader_free(l);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

/* Any batch read first equals the same batch of a straight run. */
START_TEST(seek)
{
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d = sample_digits(ctx, 103, 3);
    dt_loader_options o = dt_loader_defaults();
    o.batch_size = 10;
    o.augment.shift = 2;
    o.augment.flip = _i == 1;
    if (_i == 1) TEST_OK(ctx, dt_dataset_denoise(d, 0.1));
    dt_loader *straight = loader(d, ctx, &o), *jumping = loader(d, ctx, &o);
    for (int i = 0; i < 40; i++) {
        const dt_position at = dt_loader_position(straight);
        const dt_position elsewhere = { (i * 7) % 5, (i * 3) % 11 };
        dt_tensor *x, *labels, *y, *others;
        TEST_OK(ctx, dt_loader_next(straight, &x, &labels));
        TEST_OK(ctx, dt_loader_seek(jumping, elsewhere));
        TEST_OK(ctx, dt_loader_next(jumping, &y, &others));
        TEST_OK(ctx, dt_loader_seek(jumping, at));
        TEST_OK(ctx, dt_loader_next(jumping, &y, &others));
        ck_assert_int_eq(dt_count(x), dt_count(y));
        ck_assert_mem_eq(dt_data(x), dt_data(y), (size_t)dt_count(x) * sizeof(float));
        ck_assert_mem_eq(dt_data(labels), dt_data(others), (size_t)dt_count(labels) * 4);
    }
    TEST_FAILS(ctx, DT_ERR_ARG, "0 to 10", dt_loader_seek(jumping, (dt_position){ 0, 11 }));
    TEST_FAILS(ctx, DT_ERR_ARG, "batch -1", dt_loader_seek(jumping, (dt_position){ 0, -1 }));
    TEST_FAILS(ctx, DT_ERR_ARG, "epoch -1", dt_loader_seek(jumping, (dt_position){ -1, 0 }));
    dt_loader_free(straight);
    dt_loader_free(jumping);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

static float shifted(const dt_dataset *d, int64_t i, int64_t r, int64_t c)
{
    const bool inside = r >= 0 && r < dt_dataset_height(d) && c >= 0 && c < dt_dataset_width(d);
    const uint8_t p = inside ? dt_dataset_image(d, i)[r * dt_dataset_width(d) + c] : 0;
    return ((float)p / 255.0f - 0.1307f) / 0.3081f;
}

static bool is_shifted(const dt_dataset *d, int64_t i, int64_t down, int64_t right, const float *x)
{
    const int64_t height = dt_dataset_height(d), width = dt_dataset_width(d);
    for (int64_t k = 0; k < height * width; k++) {
        if (x[k] != shifted(d, i, k / width - down, k % width - right)) return false;
    }
    return true;
}

/* Each image is its original shifted by one offset; all offsets occur; epochs differ. */
START_TEST(shifts)
{
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d = sample_counted(ctx, 500, 5, 7, 10);
    dt_loader_options o = dt_loader_defaults();
    o.batch_size = 50;
    o.shuffle = false;
    TEST_OK(ctx,
            dt_dataset_normalize(d, &(dt_reals){ 1, { 0.1307 } }, &(dt_reals){ 1, { 0.3081 } }));
    o.augment.shift = 2;
    dt_loader *l = loader(d, ctx, &o);
    dt_tensor *x = NULL;
    int seen[25] = { 0 }, offset[500], same = 0;
    for (int64_t k = 0; k < 1000; k++) {
        dt_tensor *labels;
        if (k % 50 == 0) TEST_OK(ctx, dt_loader_next(l, &x, &labels));
        const float *image = (const float *)dt_data(x) + k % 50 * 35;
        int found = -1;
        for (int s = 0; s < 25; s++) {
            if (!is_shifted(d, k % 500, s / 5 - 2, s % 5 - 2, image)) continue;
            ck_assert_int_eq(found, -1);
            found = s;
        }
        ck_assert_int_ne(found, -1);
        seen[found]++;
        if (k < 500) offset[k] = found;
        else same += offset[k - 500] == found;
    }
    for (int s = 0; s < 25; s++) ck_assert_int_gt(seen[s], 15);
    ck_assert_int_lt(same, 60); /* 20 by chance */
    dt_loader_free(l);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- augmentation and noise ----------------------------------------------------------------- */

/* 40 images of 2 channels and 6 x 5 pixels with random bytes, and targets of a kind. */
static dt_dataset *random_images(dt_ctx *ctx, dt_target target)
{
    static uint8_t bytes[2][40 * 60];
    for (int i = 0; i < 40 * 60; i++) {
        bytes[0][i] = (uint8_t)(i * 37 + i * i / 11);
        bytes[1][i] = (uint8_t)(i * 91 + i * i / 7);
        if (target != DT_TARGET_IMAGE) bytes[1][i] %= 9;
    }
    const dt_images images = { 40, 2, 6, 5, target, 9, bytes[0], bytes[1] };
    dt_dataset *d = NULL;
    TEST_OK(ctx, dt_dataset_create(ctx, &images, &d));
    return d;
}

/* The byte that is moved to (r, c) of a plane of 6 x 5; 0 outside. */
static uint8_t carried(const uint8_t *plane, int down, int right, bool flip, int k)
{
    const int r = k / 5 - down, c = k % 5 - right;
    return r < 0 || r > 5 || c < 0 || c > 4 ? 0 : plane[5 * r + (flip ? 4 - c : c)];
}

typedef struct sample {
    const uint8_t *image, *target;
    const float *x;
    const void *to;
    dt_target kind;
} sample;

/* Whether image and target were moved by the same offset. */
static bool is_moved(const sample *s, int down, int right, bool flip)
{
    bool same = true;
    for (int k = 0; same && k < 60; k++) {
        const uint8_t p = carried(s->image + k / 30 * 30, down, right, flip, k % 30);
        const float mean = k < 30 ? 0.25f : 0.5f, deviation = k < 30 ? 0.5f : 2.0f;
        same = s->x[k] == ((float)p / 255.0f - mean) / deviation;
        const uint8_t q = s->kind == DT_TARGET_CLASS ? 0
                          : s->kind == DT_TARGET_MASK
                              ? carried(s->target, down, right, flip, k % 30)
                              : carried(s->target + k / 30 * 30, down, right, flip, k % 30);
        if (s->kind == DT_TARGET_CLASS) same = same && *(const int32_t *)s->to == *s->target;
        if (s->kind == DT_TARGET_MASK) same = same && ((const int32_t *)s->to)[k % 30] == q;
        if (s->kind == DT_TARGET_IMAGE) {
            same = same && ((const float *)s->to)[k] == (float)q / 255.0f;
        }
    }
    return same;
}

/* The move that was applied to a sample, 0 to 17; exactly one must match. */
static int move_of(const sample *s)
{
    int found = -1, n = 0;
    for (int m = 0; m < 18; m++) {
        if (!is_moved(s, m / 6 - 1, m / 2 % 3 - 1, m % 2 == 1)) continue;
        found = m;
        n++;
    }
    ck_assert_int_eq(n, 1);
    return found;
}

/* Images and their targets are moved equally; all moves occur; the batch size does not matter. */
START_TEST(targets_move_along)
{
    dt_ctx *ctx = sample_context(1);
    const dt_target kind = (dt_target)_i;
    dt_dataset *d = random_images(ctx, kind);
    TEST_OK(ctx,
            dt_dataset_normalize(d, &(dt_reals){ 2, { 0.25, 0.5 } }, &(dt_reals){ 2, { 0.5, 2 } }));
    dt_loader_options o = dt_loader_defaults();
    o.shuffle = false;
    o.augment = (dt_augment_options){ .crop = 1, .flip = true };
    int seen[18] = { 0 }, moves[2][200];
    for (int run = 0; run < 2; run++) {
        o.batch_size = run == 0 ? 40 : 8;
        dt_loader *l = loader(d, ctx, &o);
        for (int k = 0; k < 200; k += (int)o.batch_size) {
            dt_tensor *x, *to;
            TEST_OK(ctx, dt_loader_next(l, &x, &to));
            ck_assert_int_eq(dt_dim(x, 1), 2);
            ck_assert_int_eq(dt_rank(to), kind == DT_TARGET_CLASS  ? 1
                                          : kind == DT_TARGET_MASK ? 3
                                                                   : 4);
            ck_assert_int_eq(dt_dtype_of(to), kind == DT_TARGET_IMAGE ? DT_F32 : DT_I32);
            for (int i = 0; i < o.batch_size; i++) {
                const int64_t image = (k + i) % 40, bytes = dt_count(to) / o.batch_size;
                const uint8_t label =
                    (uint8_t)(kind == DT_TARGET_CLASS ? dt_dataset_label(d, image) : 0);
                const sample s = { dt_dataset_image(d, image),
                                   kind == DT_TARGET_CLASS ? &label
                                                           : dt_dataset_target_image(d, image),
                                   (const float *)dt_data(x) + 60 * i,
                                   (const char *)dt_data(to) + 4 * bytes * i, kind };
                moves[run][k + i] = move_of(&s);
                seen[moves[run][k + i]]++;
            }
        }
        dt_loader_free(l);
    }
    ck_assert_mem_eq(moves[0], moves[1], sizeof moves[0]);
    for (int m = 0; m < 18; m++) ck_assert_int_gt(seen[m], 0);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

/* z of 3 epochs of clean digits, by image and epoch. */
static void read_noise(dt_ctx *ctx, const dt_dataset *d, int64_t batch_size, bool shuffle, float *z)
{
    dt_loader_options o = dt_loader_defaults();
    o.batch_size = batch_size;
    o.shuffle = shuffle;
    o.augment.shift = 3;
    dt_loader *l = loader(d, ctx, &o);
    for (int64_t done = 0; done < 3 * dt_dataset_count(d);) {
        dt_tensor *x, *clean;
        TEST_OK(ctx, dt_loader_next(l, &x, &clean));
        const float *a = dt_data(x), *b = dt_data(clean);
        for (int64_t k = 0; k < dt_count(x); k++) *z++ = (a[k] - (b[k] - 0.5f) / 0.5f) / 0.4f;
        done += dt_dim(x, 0);
    }
    dt_loader_free(l);
}

/* The noise has the right moments, differs everywhere, and does not depend on batches. */
START_TEST(noise)
{
    enum { COUNT = 3 * 100 * 784 };
    dt_ctx *one = sample_context(1), *four = sample_context(4);
    dt_dataset *d[2] = { NULL, NULL };
    for (int i = 0; i < 2; i++) {
        dt_ctx *ctx = i == 0 ? one : four;
        TEST_OK(ctx, dt_digits_create(ctx, 100, 1, DT_TARGET_IMAGE, &d[i]));
        TEST_FAILS(ctx, DT_ERR_ARG, "noise", dt_dataset_denoise(d[i], -0.1));
        TEST_FAILS(ctx, DT_ERR_ARG, "noise", dt_dataset_denoise(d[i], NAN));
        TEST_OK(ctx,
                dt_dataset_normalize(d[i], &(dt_reals){ 1, { 0.5 } }, &(dt_reals){ 1, { 0.5 } }));
        TEST_OK(ctx, dt_dataset_denoise(d[i], 0.2));
    }
    float *z = malloc(COUNT * sizeof *z), *other = malloc(COUNT * sizeof *z);
    read_noise(one, d[0], 64, false, z);
    read_noise(four, d[1], 7, false, other);
    ck_assert_mem_eq(z, other, COUNT * sizeof *z);
    double moment[5] = { 0 };
    for (int64_t k = 0; k < COUNT; k++) {
        double power = 1;
        for (int m = 0; m < 5; m++, power *= (double)z[k]) moment[m] += power / COUNT;
        ck_assert(fabsf(z[k]) < 4.9f);
    }
    ck_assert_double_eq_tol(moment[1], 0, 0.01);
    ck_assert_double_eq_tol(moment[2], 1, 0.015);
    ck_assert_double_eq_tol(moment[3], 0, 0.03);
    ck_assert_double_eq_tol(moment[4], 2.85, 0.06);
    for (int lag = 1; lag < 4; lag++) { /* the next pixel, the next image, the next epoch */
        double sum = 0;
        const int64_t step = lag == 1 ? 1 : lag == 2 ? 784 : 78400;
        for (int64_t k = step; k < COUNT; k++) sum += (double)z[k] * (double)z[k - step];
        ck_assert_double_eq_tol(sum / COUNT, 0, 0.01);
    }
    free(z);
    free(other);
    for (int i = 0; i < 2; i++) dt_dataset_free(d[i]);
    dt_ctx_free(one);
    dt_ctx_free(four);
}
END_TEST

/* Blocks of noise made at once equal those made one by one. */
START_TEST(runs_of_blocks)
{
    static const uint64_t firsts[] = { 0, 5, 0xfffffff8, UINT64_MAX - 7 };
    for (int f = 0; f < DT__COUNT_OF(firsts); f++) {
        uint32_t run[4][DT__PHILOX_RUN], one[4];
        dt__philox_run(0x0123456789abcdef, firsts[f], run);
        for (int i = 0; i < DT__PHILOX_RUN; i++) {
            dt__philox(0x0123456789abcdef, firsts[f] + (uint64_t)i, one);
            for (int w = 0; w < 4; w++) ck_assert_uint_eq(run[w][i], one[w]);
        }
    }
}
END_TEST

START_TEST(bad_normalization)
{
    static const struct {
        dt_reals mean, deviation;
    } bad[] = {
        { { 0, { 0 } }, { 1, { 1 } } },        { { 3, { 0 } }, { 1, { 1 } } },
        { { 1, { INFINITY } }, { 1, { 1 } } }, { { 1, { 1e300 } }, { 1, { 1 } } },
        { { 2, { 0, NAN } }, { 1, { 1 } } },   { { 1, { 0 } }, { 0, { 1 } } },
        { { 1, { 0 } }, { 2, { 1, 0 } } },     { { 1, { 0 } }, { 1, { NAN } } },
        { { 1, { 0 } }, { 1, { -1 } } },       { { 1, { 0 } }, { 1, { 1e-300 } } },
    };
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d = random_images(ctx, DT_TARGET_CLASS);
    for (int i = 0; i < DT__COUNT_OF(bad); i++) {
        TEST_FAILS(ctx, DT_ERR_ARG, "expected",
                   dt_dataset_normalize(d, &bad[i].mean, &bad[i].deviation));
    }
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

/* A shuffle draws as dt__random_below does, one number after the other, and leaves the stream in
 * the same state. */
START_TEST(shuffles)
{
    enum { MOST = 1000 };
    static const int64_t counts[] = { 0, 1, 2, 3, 15, 16, 17, 18, 33, 257, MOST };
    for (int i = 0; i < DT__COUNT_OF(counts); i++) {
        int64_t got[MOST], wanted[MOST];
        dt__stream s = dt__stream_of(5, DT__FOR_SHUFFLE), t;
        s.next = 77;
        t = s;
        for (int64_t k = 0; k < counts[i]; k++) got[k] = wanted[k] = 3 * k;
        dt__shuffle(&s, counts[i], got);
        for (int64_t k = counts[i] - 1; k > 0; k--) {
            const int64_t other = (int64_t)dt__random_below(&t, (uint64_t)k + 1);
            const int64_t kept = wanted[k];
            wanted[k] = wanted[other];
            wanted[other] = kept;
        }
        ck_assert_int_eq(memcmp(got, wanted, (size_t)counts[i] * sizeof *got), 0);
        ck_assert_uint_eq(s.next, t.next);
    }
}
END_TEST

/* Each number occurs once; a window keeps whole runs, each in a place of its own; a window that
 * holds all is a shuffle. */
START_TEST(runs_are_shuffled_in_windows)
{
    enum { MOST = 3000 };
    static int64_t v[MOST], runs[MOST], place[MOST];
    dt__stream s = { .key = (uint64_t)_i * 977 + 5 }, t = s;
    const int64_t n = 1 + (_i * 131) % (MOST - 1), run = 1 + _i % 13, window = run * (1 + _i % 29);
    dt__shuffle_runs(&s, n, run, window, runs, v);
    for (int64_t i = 0; i < n; i++) place[i] = -1;
    for (int64_t i = 0; i < n; i++) {
        ck_assert(v[i] >= 0 && v[i] < n && place[v[i]] == -1);
        place[v[i]] = i;
    }
    if (window >= n) {
        for (int64_t i = 0; i < n; i++) runs[i] = i;
        dt__shuffle(&t, n, runs);
        ck_assert_int_eq(memcmp(v, runs, (size_t)n * sizeof *v), 0);
    }
    int64_t cut = 0; /* runs that two windows share, by the short run at the end */
    for (int64_t first = 0; first < n; first += run) {
        const int64_t past = first + run < n ? first + run : n;
        int64_t low = place[first] / window, high = low;
        for (int64_t i = first; i < past; i++) {
            low = place[i] / window < low ? place[i] / window : low;
            high = place[i] / window > high ? place[i] / window : high;
        }
        ck_assert(high - low <= 1);
        cut += high > low;
    }
    ck_assert(cut <= n / window && (n % run != 0 || cut == 0));
}
END_TEST

/* Words that would bias a remainder are drawn anew. */
START_TEST(fair_words)
{
    const uint64_t n = (UINT64_C(1) << 63) + 1;
    ck_assert(dt__is_fair(0, n) && dt__is_fair(n - 1, n) && !dt__is_fair(n, n));
    ck_assert(!dt__is_fair(UINT64_MAX, n) && !dt__is_fair(UINT64_MAX, 10));
    for (uint64_t k = 0; k < 100; k++) {
        const uint64_t below = 1 + k * 7919, limit = UINT64_MAX - UINT64_MAX % below;
        ck_assert(dt__is_fair(limit - 1, below) && !dt__is_fair(limit, below));
    }
}
END_TEST

START_TEST(batches_allocate_nothing)
{
    test_memory memory = { 0 };
    dt_ctx_options o = dt_ctx_defaults();
    o.allocator = test_allocator(&memory);
    dt_ctx *ctx = NULL;
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    dt_dataset *d = sample_digits(ctx, 103, 3);
    dt_loader_options options = dt_loader_defaults();
    options.batch_size = 10;
    options.augment.shift = 1;
    dt_loader *l = loader(d, ctx, &options);
    const int64_t calls = memory.calls;
    dt_tensor *x, *labels, *whole = NULL, *last = NULL;
    for (int i = 0; i < 33; i++) {
        TEST_OK(ctx, dt_loader_next(l, &x, &labels));
        ck_assert_int_eq(dt_dim(x, 0), i % 11 == 10 ? 3 : 10);
        dt_tensor **kept = i % 11 == 10 ? &last : &whole;
        if (*kept != NULL) ck_assert_ptr_eq(*kept, x);
        *kept = x;
    }
    ck_assert_int_eq(memory.calls, calls);
    dt_dataset_free(d);
    dt_loader_free(l);
    dt_ctx_free(ctx);
    ck_assert_int_eq(memory.live, 0);
}
END_TEST

START_TEST(bad_loaders)
{
    dt_ctx *ctx = sample_context(1);
    dt_dataset *d = sample_counted(ctx, 10, 4, 5, 2), *none = sample_counted(ctx, 0, 4, 5, 2);
    const dt_loader_options good = dt_loader_defaults();
    dt_loader_options o[8];
    for (int i = 0; i < DT__COUNT_OF(o); i++) o[i] = good;
    o[0].batch_size = 0;
    o[1].batch_size = -3;
    o[2].drop_last = true;
    o[3].augment.shift = -1;
    o[4].augment.shift = 4;
    o[5].augment.crop = -1;
    o[6].augment.crop = 4;
    o[7].augment.crop = o[7].augment.shift = 1;
    dt_loader *l = NULL;
    for (int i = 0; i < DT__COUNT_OF(o); i++) {
        TEST_FAILS(ctx, DT_ERR_ARG, "loader: ", dt_loader_create(d, &o[i], &l));
        ck_assert_ptr_null(l);
    }
    TEST_FAILS(ctx, DT_ERR_ARG, "0 images", dt_loader_create(none, &good, &l));
    TEST_OK(ctx, dt_loader_create(d, NULL, &l)); /* one batch, smaller than 64 */
    ck_assert_int_eq(dt_loader_batches(l), 1);
    dt_loader_free(l);
    dt_loader_free(NULL);
    dt_dataset_free(d);
    dt_dataset_free(none);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- `data:` of a recipe ------------------------------------------------------------------- */

typedef struct opened {
    dt_dataset *train, *validation, *test;
} opened;

static void opened_free(opened *d)
{
    dt_dataset_free(d->train);
    dt_dataset_free(d->validation);
    dt_dataset_free(d->test);
}

START_TEST(open_digits)
{
    dt_ctx *ctx = sample_context(2);
    dt_data_options o = dt_data_defaults();
    o.format = DT_DATA_DIGITS;
    opened d;
    TEST_OK(ctx, dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    ck_assert_int_eq(dt_dataset_count(d.train), 10000);
    ck_assert_int_eq(dt_dataset_count(d.test), 2000);
    ck_assert_ptr_null(d.validation);
    opened_free(&d);
    o.seed = 3;
    o.train_count = 300;
    o.test_count = 200;
    o.validation = 0.1;
    TEST_OK(ctx, dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    ck_assert_int_eq(dt_dataset_count(d.train), 270);
    ck_assert_int_eq(dt_dataset_count(d.validation), 30);
    ck_assert_int_eq(dt_dataset_count(d.test), 200);
    for (int64_t i = 0; i < 270; i++) {
        for (int64_t j = 0; j < 200; j++) {
            ck_assert_mem_ne(dt_dataset_image(d.train, i), dt_dataset_image(d.test, j), 784);
        }
    }
    opened_free(&d);
    dt_ctx_free(ctx);
}
END_TEST

/* Writes train and test files of digits into `folder`, and options that name them. */
static dt_data_options digit_files(dt_ctx *ctx, const char *folder)
{
    char images[TEST_PATH], labels[TEST_PATH];
    dt_dataset *train = sample_digits(ctx, 50, 1), *test = sample_digits(ctx, 20, 2);
    test_join(images, folder, "train-images.gz");
    test_join(labels, folder, "train-labels");
    TEST_OK(ctx, dt_idx_write(train, images, labels));
    test_join(images, folder, "test-images");
    test_join(labels, folder, "test-labels.gz");
    TEST_OK(ctx, dt_idx_write(test, images, labels));
    dt_dataset_free(train);
    dt_dataset_free(test);
    dt_data_options o = dt_data_defaults();
    o.dir = folder;
    o.train = (dt_strings){ 2, { "train-images.gz", "train-labels" } };
    o.test = (dt_strings){ 2, { "test-images", "test-labels.gz" } };
    return o;
}

START_TEST(open_files)
{
    char folder[TEST_PATH], absolute[TEST_PATH];
    test_folder(folder);
    test_join(absolute, folder, "train-labels");
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = digit_files(ctx, folder);
    o.train.v[1] = absolute;
    opened d;
    TEST_OK(ctx, dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    ck_assert_int_eq(dt_dataset_count(d.train), 50);
    ck_assert_int_eq(dt_dataset_count(d.test), 20);
    opened_free(&d);
    o.train_count = 40;
    o.test_count = 10;
    o.validation = 0.5;
    TEST_OK(ctx, dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    ck_assert_int_eq(dt_dataset_count(d.train), 20);
    ck_assert_int_eq(dt_dataset_count(d.validation), 20);
    ck_assert_int_eq(dt_dataset_count(d.test), 10);
    opened_free(&d);
    o.test.n = 0;
    TEST_OK(ctx, dt_data_open(ctx, &o, &d.train, &d.validation, &d.test));
    ck_assert_ptr_null(d.test);
    opened_free(&d);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(bad_options)
{
    char folder[TEST_PATH], name[TEST_PATH];
    test_folder(folder);
    dt_ctx *ctx = sample_context(1);
    const dt_data_options good = digit_files(ctx, folder);
    dt_dataset *d = sample_counted(ctx, 3, 27, 28, 3), *none = sample_counted(ctx, 0, 28, 28, 1);
    char small[TEST_PATH], empty[TEST_PATH];
    test_join(small, folder, "small");
    test_join(empty, folder, "empty");
    test_join(name, folder, "labels");
    TEST_OK(ctx, dt_idx_write(d, small, name));
    test_join(name, folder, "no-labels");
    TEST_OK(ctx, dt_idx_write(none, empty, name));
    dt_data_options o[14];
    for (int i = 0; i < DT__COUNT_OF(o); i++) o[i] = good;
    static const struct {
        dt_status code;
        const char *text;
    } wanted[] = {
        { DT_ERR_CONFIG, "data.train names 1" },
        { DT_ERR_CONFIG, "data.train names 0" },
        { DT_ERR_CONFIG, "data.test names 3" },
        { DT_ERR_CONFIG, "data.train_count is 51" },
        { DT_ERR_CONFIG, "data.test_count is 21" },
        { DT_ERR_CONFIG, "data.validation" },
        { DT_ERR_CONFIG, "data.validation" },
        { DT_ERR_CONFIG, "data.format" },
        { DT_ERR_CONFIG, "data.seed" },
        { DT_ERR_CONFIG, "data.train_count" },
        { DT_ERR_FORMAT, "27 x 28" },
        { DT_ERR_FORMAT, "holds no images" },
        { DT_ERR_IO, "nowhere/train-" },
        { DT_ERR_CONFIG, "data.test_count" },
    };
    o[0].train.n = 1;
    o[1].train.n = 0;
    o[2].test.n = 3;
    o[3].train_count = 51;
    o[4].test_count = 21;
    o[5].validation = NAN;
    o[6].validation = 0.001;
    o[7].format = DT_DATA_FOLDER + 1;
    o[8].seed = -1;
    o[9].train_count = -1;
    o[10].test = (dt_strings){ 2, { "small", "labels" } };
    o[11].train = (dt_strings){ 2, { "empty", "no-labels" } };
    o[12].dir = "nowhere/";
    o[13].test_count = -1;
    const size_t used = dt_memory_of(ctx).used;
    for (int i = 0; i < DT__COUNT_OF(o); i++) {
        opened r = { d, d, d };
        const dt_status status = dt_data_open(ctx, &o[i], &r.train, &r.validation, &r.test);
        ck_assert_msg(status == wanted[i].code, "%d: %s: %s", i, dt_status_name(status),
                      dt_error(ctx));
        ck_assert_msg(strstr(dt_error(ctx), wanted[i].text) != NULL, "%s", dt_error(ctx));
        ck_assert(r.train == NULL && r.validation == NULL && r.test == NULL);
        ck_assert_uint_eq(dt_memory_of(ctx).used, used);
    }
    dt_dataset_free(d);
    dt_dataset_free(none);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- failing allocations ------------------------------------------------------------------- */

/* Writes and reads plain and gzip files, splits, and makes batches. */
static dt_status scenario(dt_ctx *ctx, void *user)
{
    const char *const *path = user;
    opened d = { NULL, NULL, NULL };
    dt_loader *l = NULL;
    dt_data_options o = dt_data_defaults();
    o.dir = path[0];
    o.train = (dt_strings){ 2, { "images.gz", "labels" } };
    o.test = o.train;
    o.validation = 0.5;
    dt_loader_options options = dt_loader_defaults();
    options.batch_size = 3;
    dt_tensor *x, *labels;
    dt_status status = dt_digits_create(ctx, 20, 1, DT_TARGET_CLASS, &d.train);
    if (status == DT_OK) status = dt_idx_write(d.train, path[1], path[2]);
    opened_free(&d);
    d = (opened){ NULL, NULL, NULL };
    if (status == DT_OK) status = dt_data_open(ctx, &o, &d.train, &d.validation, &d.test);
    if (status == DT_OK) status = dt_loader_create(d.train, &options, &l);
    if (status == DT_OK) status = dt_loader_next(l, &x, &labels);
    dt_loader_free(l);
    opened_free(&d);
    return status;
}

START_TEST(memory_fails)
{
    char folder[TEST_PATH], images[TEST_PATH], labels[TEST_PATH];
    test_folder(folder);
    test_join(images, folder, "images.gz");
    test_join(labels, folder, "labels");
    const char *paths[] = { folder, images, labels };
    const int64_t runs = test_every_allocation(scenario, paths);
    ck_assert_int_gt(runs, 20);
    ck_assert_int_eq(sample_entries(folder), 2);
}
END_TEST

Suite *test_data_suite(void)
{
    Suite *s = suite_create("data");
    TCase *images = tcase_create("images");
    tcase_add_test(images, datasets);
    tcase_add_test(images, bad_datasets);
    tcase_add_test(images, digits_are_fixed);
    tcase_add_test(images, digits_for_tasks);
    tcase_add_test(images, digits_are_not_linear);
    tcase_add_test(images, bad_normalization);
    suite_add_tcase(s, images);
    TCase *batches = tcase_create("batches");
    tcase_add_loop_test(batches, every_image_once, 0, 4);
    tcase_add_loop_test(batches, seek, 0, 2);
    tcase_add_test(batches, shifts);
    tcase_add_loop_test(batches, targets_move_along, DT_TARGET_CLASS, DT_TARGET_MASK + 1);
    tcase_add_test(batches, noise);
    tcase_add_test(batches, runs_of_blocks);
    tcase_add_test(batches, shuffles);
    tcase_add_loop_test(batches, runs_are_shuffled_in_windows, 0, 200);
    tcase_add_test(batches, fair_words);
    tcase_add_test(batches, batches_allocate_nothing);
    tcase_add_test(batches, bad_loaders);
    suite_add_tcase(s, batches);
    TCase *recipe = tcase_create("recipe");
    tcase_add_test(recipe, open_digits);
    tcase_add_test(recipe, open_files);
    tcase_add_test(recipe, bad_options);
    tcase_add_test(recipe, memory_fails);
    suite_add_tcase(s, recipe);
    return s;
}
