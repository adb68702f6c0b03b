/* Activations in blocks: codes, scales and products against values of the formulas
 * (tests/golden/blocks.py, which compares them with onnxruntime and ggml), bit for bit: linear
 * layers, experts and tables. */
#include "testing.h"

#include "autograd/op.h"
#include "qat/quantized.h"

#include <detent/experimental/io.h>
#include <detent/experimental/ops.h>
#include <detent/qat.h>

#include <stdio.h>

static dt_ctx *ctx;
static dt_tape *t;
static dt_file *file;

static bool open_all(int threads)
{
    char path[TEST_PATH];
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = threads;
    if (!test_golden(path, "blocks.safetensors")) return false;
    TEST_OK(NULL, dt_ctx_create(&ctx, &o));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    return true;
}

static void close_all(void)
{
    dt_file_close(file);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

/* Tensor `what` of a case; NULL: it has none. */
static dt_tensor *part(const char *name, const char *what, dt_dtype dtype)
{
    char key[64];
    dt_tensor *x = NULL;
    snprintf(key, sizeof key, "%s.%s", name, what);
    if (dt_file_find(file, key) == NULL) return NULL;
    TEST_OK(ctx, dt_file_load(file, key, dtype, &x));
    return x;
}

static void specs(const char *name, dt_quant_spec *w, dt_quant_spec *x)
{
    char scheme[16], dtype[8];
    int bits;
    ck_assert_int_eq(sscanf(dt_file_meta(file, name), "%15s %d %7s", scheme, &bits, dtype), 3);
    const bool q4_0 = strcmp(scheme, "q4_0") == 0;
    dt_qat_preset(q4_0 ? DT_INT8_BLOCK_Q4_0_WEIGHT : DT_INT8_BLOCK_INT4_WEIGHT, w, x);
    w->bits = bits;
    w->scale_dtype = x->scale_dtype = strcmp(dtype, "f16") == 0 ? DT_SCALE_F16 : DT_SCALE_F32;
}

/* Dequantized values are code times scale: of other codes or scales they would differ. */
static void check_codes(const char *name, const char *codes, const char *scales, dt_tensor *x)
{
    dt_tensor *q = part(name, codes, DT_I32), *s = part(name, scales, DT_F32), *dense;
    TEST_OK(ctx, dt_dequantize(x, &dense));
    const int32_t *code = dt_data(q);
    const float *scale = dt_data(s), *got = dt_data(dense);
    const int64_t columns = dt_dim(q, -1), blocks = dt_dim(s, -1);
    for (int64_t i = 0; i < dt_count(q); i++) {
        const float want = (float)code[i] * scale[i / columns * blocks + i % columns / 32];
        TEST_EACH(got[i] == want, "%s.%s[%lld] stands for %.9g, not %.9g", name, codes,
                  (long long)i, (double)got[i], (double)want);
    }
    dt_tensor_free(dense);
    dt_tensor_free(q);
    dt_tensor_free(s);
}

static void check_bits(const char *name, const dt_tensor *y)
{
    dt_tensor *of_file = part(name, "y", DT_F32);
    ck_assert_msg(y != NULL, "%s: %s", name, dt_error(ctx));
    const float *got = dt_data(y), *want = dt_data(of_file);
    ck_assert_int_eq(dt_count(y), dt_count(of_file));
    for (int64_t i = 0; i < dt_count(y); i++) {
        TEST_EACH(memcmp(&got[i], &want[i], sizeof *got) == 0, "%s.y[%lld] is %.9g, not %.9g", name,
                  (long long)i, (double)got[i], (double)want[i]);
    }
    dt_tensor_free(of_file);
}

static void check_case(const char *name)
{
    dt_quant_spec of_w, of_x;
    dt_tensor *w = part(name, "w", DT_F32), *x = part(name, "x", DT_F32);
    dt_tensor *bias = part(name, "bias", DT_F32), *index = part(name, "index", DT_I32), *y;
    specs(name, &of_w, &of_x);
    if (dt_rank(w) == 3) TEST_OK(ctx, dt_set_grouped(w));
    TEST_OK(ctx, dt__fq_wrap(w, &(dt__fq){ .quant = of_w }));
    check_codes(name, "qw", "sw", w);
    if (x == NULL) {
        y = dt_embedding(t, w, index);
    } else {
        dt_tensor *u = dt__fake_quant_as(t, x, &(dt__fq){ .quant = of_x, .enabled = true });
        check_codes(name, "qx", "sx", u);
        y = index == NULL ? dt_linear(t, u, w, bias)
                          : dt_grouped_linear(t, u, w, bias, &(dt_routes){ .index = index });
    }
    check_bits(name, y);
    dt_tape_reset(t);
    dt_tensor *all[] = { w, x, bias, index };
    for (int i = 0; i < DT__COUNT_OF(all); i++) dt_tensor_free(all[i]);
}

START_TEST(values_of_the_formulas)
{
    if (!open_all(_i)) return;
    char names[128];
    int n = 0;
    snprintf(names, sizeof names, "%s", dt_file_meta(file, "cases"));
    for (char *name = strtok(names, ","); name != NULL; name = strtok(NULL, ",")) {
        check_case(name);
        n++;
    }
    ck_assert_int_eq(n, 7);
    close_all();
}
END_TEST

Suite *test_blocks_suite(void)
{
    Suite *s = suite_create("blocks");
    TCase *c = tcase_create("golden");
    tcase_add_loop_test(c, values_of_the_formulas, 1, 3);
    suite_add_tcase(s, c);
    return s;
}
