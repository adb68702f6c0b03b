/* IDX files of images and of labels, plain or gzip. */
#include "fuzz.h"

#include "testing.h"

static void run(const uint8_t *data, size_t n)
{
    fuzz_bytes rest = { data, n };
    const fuzz_bytes images = fuzz_part(&rest);
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    dt_dataset *d = NULL;
    const char *a = fuzz_file("images", images.v, images.n),
               *b = fuzz_file("labels", rest.v, rest.n);
    if (dt_idx_read(ctx, a, b, 0, &d) == DT_OK) fuzz_batches(d);
    else fuzz_refused(ctx, d != NULL);
    fuzz_end(ctx);
}

static void seeds(const fuzz_seeds *s)
{
    static const uint8_t pixels[18] = { 1, 2, 3, 250 }, labels[2] = { 1, 0 };
    const dt_images all = { 2, 1, 3, 3, DT_TARGET_CLASS, 2, pixels, labels };
    char folder[TEST_PATH], a[TEST_PATH], b[TEST_PATH];
    dt_ctx *ctx = NULL;
    dt_dataset *d = NULL;
    test_folder(folder);
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_dataset_create(ctx, &all, &d));
    for (int i = 0; i < 2; i++) {
        size_t n, m;
        test_join(a, folder, i == 0 ? "images" : "images.gz");
        test_join(b, folder, i == 0 ? "labels" : "labels.gz");
        TEST_OK(ctx, dt_idx_write(d, a, b));
        char *x = test_read_file(a, &n), *y = test_read_file(b, &m);
        const fuzz_bytes part[] = { { (uint8_t *)x, n }, { (uint8_t *)y, m } };
        fuzz_seed_parts(s, i == 0 ? "plain" : "gzip", part, 2);
        free(x);
        free(y);
    }
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}

const fuzz_target fuzz_target_idx = { "idx", "IDX images and labels", run, seeds };
