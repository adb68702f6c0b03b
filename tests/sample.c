/* Contexts and datasets for the suites about data. */
#include "sample.h"

#include <stdlib.h>

dt_ctx *sample_context(int threads)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = threads;
    dt_ctx *ctx = NULL;
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    return ctx;
}

dt_dataset *sample_counted(dt_ctx *ctx, int64_t count, int64_t height, int64_t width, int classes)
{
    uint8_t *pixels = malloc((size_t)(count * height * width) + 1);
    uint8_t *labels = malloc((size_t)count + 1);
    for (int64_t i = 0; i < count * height * width; i++) pixels[i] = (uint8_t)(i * 7 + i / 251);
    for (int64_t i = 0; i < count; i++) labels[i] = (uint8_t)(i % classes);
    const dt_images images = { count, 1, height, width, DT_TARGET_CLASS, classes, pixels, labels };
    dt_dataset *d = NULL;
    TEST_OK(ctx, dt_dataset_create(ctx, &images, &d));
    free(pixels);
    free(labels);
    return d;
}

void sample_assert_same(const dt_dataset *a, const dt_dataset *b)
{
    ck_assert_int_eq(dt_dataset_count(a), dt_dataset_count(b));
    ck_assert_int_eq(dt_dataset_channels(a), dt_dataset_channels(b));
    ck_assert_int_eq(dt_dataset_height(a), dt_dataset_height(b));
    ck_assert_int_eq(dt_dataset_width(a), dt_dataset_width(b));
    const size_t size = (size_t)(dt_dataset_height(a) * dt_dataset_width(a));
    for (int64_t i = 0; i < dt_dataset_count(a); i++) {
        ck_assert_int_eq(dt_dataset_label(a, i), dt_dataset_label(b, i));
        ck_assert_mem_eq(dt_dataset_image(a, i), dt_dataset_image(b, i), size);
    }
}

dt_dataset *sample_digits(dt_ctx *ctx, int64_t count, uint64_t seed)
{
    dt_dataset *d = NULL;
    TEST_OK(ctx, dt_digits_create(ctx, count, seed, DT_TARGET_CLASS, &d));
    return d;
}

int sample_entries(const char *folder)
{
    char *text;
    ck_assert_int_eq(test_shell(&text, "ls -A '%s' | wc -l", folder), 0);
    const int n = atoi(text);
    free(text);
    return n;
}
