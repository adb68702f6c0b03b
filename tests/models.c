/* Small models for the suites about files. */
#include "models.h"

#include "core/text/byte_order.h"
#include "nn/module.h"
#include "qat/prepare.h"
#include "testing.h"

#include <math.h>
#include <stdlib.h>

dt_mlp_options small_options(const int64_t *sizes, int norm, double dropout)
{
    dt_mlp_options o = {
        .norm = norm, .dropout = dropout, .bias = true, .momentum = 0.1, .eps = 1e-5
    };
    for (; *sizes != 0; sizes++) o.sizes.v[o.sizes.n++] = *sizes;
    return o;
}

dt_model_info small_info(const dt_mlp_options *options)
{
    const dt_family *family = dt_family_at(0);
    ck_assert_str_eq(family->name, "mlp");
    return (dt_model_info){ .family = family, .options = options };
}

dt_module *small_model(dt_ctx *ctx, const dt_mlp_options *options)
{
    dt_module *m;
    TEST_OK(ctx, dt_mlp_create(ctx, options, &m));
    return m;
}

size_t memory_of_open_file(dt_ctx *ctx, const char *path)
{
    dt_file *file;
    if (!DT__BIG_ENDIAN) return 0;
    const size_t before = dt_memory_of(ctx).used;
    TEST_OK(ctx, dt_file_open(ctx, path, &file));
    const size_t opened = dt_memory_of(ctx).used - before;
    dt_file_close(file);
    return opened;
}

dt_qat_options small_qat(int preset, const dt_quant_spec *weight)
{
    dt_qat_options o = dt_qat_defaults();
    o.preset = preset;
    if (weight == NULL) return o;
    o.weight = (dt_quant_patch){ .quant = *weight,
                                 .has_scheme = true,
                                 .has_bits = true,
                                 .has_granularity = true,
                                 .has_group_size = true,
                                 .has_scale_dtype = true,
                                 .has_ste = true,
                                 .has_unsigned = true };
    return o;
}

float *outputs_of(dt_module *m, int64_t rows, int64_t columns)
{
    dt_ctx *ctx = dt_module_ctx(m);
    const bool training = dt_is_training(m);
    const int64_t dims[2] = { rows, columns };
    dt_tensor *x;
    dt_tape *t;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, dims, &x));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    float *v = dt_data_mut(x);
    for (int64_t i = 0; i < rows * columns; i++) v[i] = sinf((float)i * 1.7f) * 2 + 0.3f;
    dt_train(m, false);
    const dt_tensor *y = dt_forward(t, m, x);
    TEST_OK(ctx, dt_tape_status(t));
    const size_t bytes = (size_t)dt_count(y) * sizeof(float);
    float *out = malloc(bytes);
    ck_assert_ptr_nonnull(out);
    memcpy(out, dt_data(y), bytes);
    dt_train(m, training);
    dt_tape_free(t);
    dt_tensor_free(x);
    return out;
}

static void same_values(const char *path, dt_tensor *a, dt_tensor *b)
{
    char text_a[256], text_b[256];
    dt_describe(a, text_a, sizeof text_a);
    dt_describe(b, text_b, sizeof text_b);
    ck_assert_msg(strcmp(text_a, text_b) == 0, "%s: %s, %s", path, text_a, text_b);
    dt_tensor *image_a = NULL, *image_b = NULL;
    if (dt_is_packed(a)) {
        TEST_OK(dt_ctx_of(a), dt_dequantize(a, &image_a));
        TEST_OK(dt_ctx_of(b), dt_dequantize(b, &image_b));
    }
    const dt_tensor *x = image_a != NULL ? image_a : dt_inner(a);
    const dt_tensor *y = image_b != NULL ? image_b : dt_inner(b);
    const size_t bytes = (size_t)dt_count(x) * dt_dtype_size(dt_dtype_of(x));
    ck_assert_msg(memcmp(dt_data(x), dt_data(y), bytes) == 0, "%s differs", path);
    dt_tensor_free(image_a);
    dt_tensor_free(image_b);
}

static dt_status compare_tensor(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    (void)kind;
    dt_tensor *y = dt_param(user, path);
    ck_assert_msg(y != NULL, "%s is missing", path);
    same_values(path, x, y);
    const dt_quant_spec *a = dt__quant_of(x), *b = dt__quant_of(y);
    if (a != NULL) ck_assert(dt__same_quant(a, b));
    ck_assert_int_eq(dt__is_simulated(x), dt__is_simulated(y));
    return DT_OK;
}

static dt_status compare_hooks(void *user, const char *path, dt_module *m)
{
    const dt__input_hook *a = dt__input_hook_of(m);
    const dt__input_hook *b = dt__input_hook_of(dt_module_at(user, path));
    ck_assert_int_eq(a == NULL, b == NULL);
    if (a == NULL) return DT_OK;
    ck_assert(dt__same_quant(&a->quant, &b->quant));
    ck_assert_int_eq(a->enabled, b->enabled);
    ck_assert_int_eq(a->simulated, b->simulated);
    return DT_OK;
}

void same_models(dt_module *a, dt_module *b)
{
    dt_module_visit(a, compare_tensor, b);
    dt_module_visit(b, compare_tensor, a);
    dt_module_visit_modules(a, compare_hooks, b);
}
