/* The texts of C exports that compute integers alone (src/export/c/texts/device) against the values
 * that CMSIS-NN computed (golden/device): compiled as one file and loaded into the test. */
#include "device_golden.h"
#include "export/c/c_texts.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;
static void *library;
static int64_t compared;

static const char driver[] =
#include "c_device_driver.inc"
    ;

static const char *const compilers[] = { "gcc -O2", "gcc -O3 -march=native -funroll-loops",
                                         "clang -O2", NULL };

static void write_source(const char *path)
{
    bool *wanted = calloc((size_t)dt__c_texts_n, sizeof *wanted);
    FILE *f = fopen(path, "w");
    ck_assert(f != NULL && wanted != NULL);
    for (int i = 0; i < dt__c_texts_n; i++) {
        if (strncmp(dt__c_texts[i].name, "device_", 7) == 0) dt__c_text_want(wanted, i);
    }
    for (int i = 0; i < dt__c_texts_n; i++) {
        if (i == 0 || wanted[i]) fprintf(f, "%s\n", dt__c_texts[i].text);
    }
    fputs(driver, f);
    fclose(f);
    free(wanted);
}

/* False where the compiler is not installed. */
static bool load(const char *compiler)
{
    char folder[TEST_PATH], path[TEST_PATH], *output;
    if (!test_has_compiler(compiler)) return false;
    test_folder(folder);
    test_join(path, folder, "device.c");
    write_source(path);
    const int status = test_shell(&output,
                                  "cd '%s' && %s -std=c99 -pedantic -Wall -Wextra -Wconversion "
                                  "-Werror -Wno-unused-function -shared -fPIC device.c "
                                  "-o device.so 2>&1",
                                  folder, compiler);
    ck_assert_msg(status == 0, "%s: %s", compiler, output);
    free(output);
    test_join(path, folder, "device.so");
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    return true;
}

/* Converts a data pointer to a function pointer as POSIX recommends, without a cast. */
#define FUNCTION(f)                                                                                \
    do {                                                                                           \
        void *address = dlsym(library, #f);                                                        \
        ck_assert_msg(address != NULL, "%s is not there", #f);                                     \
        memcpy(&(f), &address, sizeof(f));                                                         \
    } while (0)

static int32_t n_of(const device_golden *g, const char *key, int64_t otherwise)
{
    return (int32_t)device_number(g, key, otherwise);
}

/* The weight of a case with a bias, a multiplier and a shift for each of n outputs. */
typedef struct weight {
    const int8_t *codes;
    int bits;
    int32_t *of[3];
} weight;

static weight weight_of(device_golden *g, int64_t n)
{
    static const char *const names[] = { "bias", "multiplier", "shift" };
    weight w = { .bits = n_of(g, "bits", 8) };
    w.codes = device_data(g, w.bits == 4 ? "weights_packed" : "weights",
                          w.bits == 4 ? DT_U8 : DT_I8, NULL);
    ck_assert_ptr_nonnull(w.codes);
    for (int i = 0; i < 3; i++) {
        int64_t have = 0;
        const int32_t *from = device_data(g, names[i], DT_I32, &have);
        w.of[i] = calloc((size_t)n, sizeof(int32_t));
        for (int64_t k = 0; from != NULL && k < n; k++) w.of[i][k] = from[have == 1 ? 0 : k];
    }
    return w;
}

static void weight_free(weight *w)
{
    for (int i = 0; i < 3; i++) free(w->of[i]);
}

static void compare(device_golden *g, const char *name, int8_t *got)
{
    device_equal(g, name, got);
    free(got);
}

/* ---- products -------------------------------------------------------------------------------- */

static void convolution(device_golden *g, const char *kind)
{
    void (*conv)(const int32_t *, int, const int8_t *, const int8_t *, const int32_t *const *,
                 int16_t *, int8_t *);
    void (*depthwise)(const int32_t *, int, const int8_t *, const int8_t *, const int32_t *const *,
                      int8_t *);
    FUNCTION(conv);
    FUNCTION(depthwise);
    const bool each = strcmp(kind, "depthwise") == 0;
    const int32_t c = n_of(g, "C", 1), outs = n_of(g, "O", c * n_of(g, "M", 1));
    const int32_t o[] = { n_of(g, "H", 1),
                          n_of(g, "W", 1),
                          c,
                          n_of(g, "OH", 1),
                          n_of(g, "OW", 1),
                          outs,
                          n_of(g, "g", 1),
                          n_of(g, "KH", 1),
                          n_of(g, "KW", 1),
                          n_of(g, "sh", 1),
                          n_of(g, "sw", 1),
                          n_of(g, "ph", 0),
                          n_of(g, "pw", 0),
                          n_of(g, "dh", 1),
                          n_of(g, "dw", 1),
                          n_of(g, "zx", 0),
                          n_of(g, "zy", 0),
                          n_of(g, "amin", -128),
                          n_of(g, "amax", 127),
                          strcmp(kind, "transposed") == 0 };
    const int64_t images = n_of(g, "N", 1), in = (int64_t)o[0] * o[1] * c;
    const int64_t out = (int64_t)o[3] * o[4] * outs;
    weight w = weight_of(g, outs);
    int16_t *patch = calloc((size_t)(o[7] * o[8] * c), sizeof *patch);
    int8_t *y = calloc((size_t)(images * out), 1);
    const int8_t *x = device_data(g, "input", DT_I8, NULL);
    const int32_t *const of[] = { w.of[0], w.of[1], w.of[2] };
    for (int64_t i = 0; i < images; i++) {
        if (each) depthwise(o, w.bits, x + i * in, w.codes, of, y + i * out);
        else conv(o, w.bits, x + i * in, w.codes, of, patch, y + i * out);
    }
    compare(g, "output", y);
    free(patch);
    weight_free(&w);
}

static void fully_connected(device_golden *g, const char *kind)
{
    void (*line)(const int8_t *, int32_t, int32_t, int16_t *);
    void (*product)(int, const int8_t *, const int32_t *const *, const int32_t *, const int16_t *,
                    int32_t, int8_t *);
    FUNCTION(line);
    FUNCTION(product);
    (void)kind;
    const int32_t rows = n_of(g, "B", 1), k = n_of(g, "K", 1), n = n_of(g, "N", 1);
    const int32_t o[] = { k, n_of(g, "zy", 0), n_of(g, "amin", -128), n_of(g, "amax", 127) };
    weight w = weight_of(g, n);
    int16_t *p = calloc((size_t)k, sizeof *p);
    int8_t *y = calloc((size_t)rows * (size_t)n, 1);
    const int8_t *x = device_data(g, "input", DT_I8, NULL);
    const int32_t *const of[] = { w.of[0], w.of[1], w.of[2] };
    for (int32_t i = 0; i < rows; i++) {
        line(x + i * k, k, n_of(g, "zx", 0), p);
        product(w.bits, w.codes, of, o, p, n, y + i * n);
    }
    compare(g, "output", y);
    free(p);
    weight_free(&w);
}

/* ---- others ---------------------------------------------------------------------------------- */

static void pooling(device_golden *g, const char *kind)
{
    void (*pool)(int, const int32_t *, const int8_t *, int8_t *);
    FUNCTION(pool);
    (void)kind;
    const int32_t o[] = { n_of(g, "H", 1),     n_of(g, "W", 1),  n_of(g, "C", 1),
                          n_of(g, "OH", 1),    n_of(g, "OW", 1), n_of(g, "KH", 1),
                          n_of(g, "KW", 1),    n_of(g, "sh", 1), n_of(g, "sw", 1),
                          n_of(g, "ph", 0),    n_of(g, "pw", 0), n_of(g, "amin", -128),
                          n_of(g, "amax", 127) };
    const int64_t images = n_of(g, "N", 1), in = (int64_t)o[0] * o[1] * o[2];
    const int64_t out = (int64_t)o[3] * o[4] * o[2];
    const int8_t *x = device_data(g, "input", DT_I8, NULL);
    for (int max = 0; max < 2; max++) {
        int8_t *y = calloc((size_t)(images * out), 1);
        for (int64_t i = 0; i < images; i++) pool(max, o, x + i * in, y + i * out);
        compare(g, max ? "max" : "avg", y);
    }
}

static void elementwise(device_golden *g, const char *kind)
{
    void (*pair)(int, const int32_t *, const int8_t *, const int8_t *, int32_t, int8_t *);
    FUNCTION(pair);
    (void)kind;
    int64_t n = 0;
    const int32_t o[] = { n_of(g, "z1", 0),      n_of(g, "z2", 0),    n_of(g, "zy", 0),
                          n_of(g, "m1", 0),      n_of(g, "e1", 0),    n_of(g, "m2", 0),
                          n_of(g, "e2", 0),      n_of(g, "my", 0),    n_of(g, "ey", 0),
                          n_of(g, "amin", -128), n_of(g, "amax", 127) };
    const int8_t *a = device_data(g, "a", DT_I8, &n), *b = device_data(g, "b", DT_I8, NULL);
    ck_assert(a != NULL && b != NULL);
    int8_t *y = calloc((size_t)n, 1);
    pair(device_says(g, "op", "mul"), o, a, b, (int32_t)n, y);
    compare(g, "output", y);
}

static void softmaxes(device_golden *g, const char *kind)
{
    void (*softmax)(const int32_t *, const int8_t *, int8_t *);
    FUNCTION(softmax);
    (void)kind;
    const int32_t o[] = { n_of(g, "rows", 1), n_of(g, "n", 1), n_of(g, "multiplier", 0),
                          n_of(g, "left_shift", 0), n_of(g, "diff_min", 0) };
    int8_t *y = calloc((size_t)o[0] * (size_t)o[1], 1);
    softmax(o, device_data(g, "input", DT_I8, NULL), y);
    compare(g, "output", y);
}

static const struct {
    const char *file;
    void (*check)(device_golden *g, const char *kind);
} files[] = { { "convolution", convolution }, { "depthwise", convolution },
              { "transposed", convolution },  { "fully_connected", fully_connected },
              { "pooling", pooling },         { "elementwise", elementwise },
              { "softmax", softmaxes } };

START_TEST(golden_values)
{
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    const bool here = load(compilers[_i]);
    for (int i = 0; here && i < DT__COUNT_OF(files); i++) {
        device_golden g;
        if (!device_open(ctx, files[i].file, &g)) continue;
        for (int64_t k = 0; device_case(&g, k); k++) files[i].check(&g, files[i].file);
        compared += g.compared;
        device_close(&g);
    }
    if (here) dlclose(library);
    printf("export_c_device: %s: %lld values\n", here ? compilers[_i] : "no such compiler",
           (long long)compared);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_export_c_device_suite(void)
{
    Suite *s = suite_create("export_c_device");
    TCase *c = tcase_create("golden");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, golden_values, 0, DT__COUNT_OF(compilers) - 1);
    suite_add_tcase(s, c);
    return s;
}
