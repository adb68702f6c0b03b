/* Functions, means, slices and broadcasting pairs of codes (numerics §8): results beside those of
 * the op of floats on the same numbers, and gradients, which are that op's where nothing was
 * clamped. */
#include "testing.h"

#include "core/core.h"

#include <detent/experimental/device.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct given {
    dt_tensor *a, *b;
    const dt_device_range *range; /* NULL: an op of floats */
} given;

typedef dt_tensor *make(dt_tape *t, const given *g);

static dt_tensor *table(dt_tape *t, const given *g, int function)
{
    const dt_device_table_options o = { function, 0.3 };
    return dt_device_table(t, g->a, g->range, &o);
}

#define TABLE(name, number)                                                                        \
    static dt_tensor *name(dt_tape *t, const given *g) { return table(t, g, number); }
TABLE(elu, DT_TABLE_ELU)
TABLE(gelu, DT_TABLE_GELU)
TABLE(gelu_tanh, DT_TABLE_GELU_TANH)
TABLE(leaky, DT_TABLE_LEAKY_RELU)
TABLE(hardswish, DT_TABLE_HARDSWISH)
TABLE(relu, DT_TABLE_RELU)
TABLE(relu6, DT_TABLE_RELU6)

static dt_tensor *sigmoid(dt_tape *t, const given *g)
{
    return dt_device_table(t, g->a, NULL, &(dt_device_table_options){ DT_TABLE_SIGMOID, 0 });
}

static dt_tensor *hyperbolic(dt_tape *t, const given *g)
{
    return dt_device_table(t, g->a, NULL, &(dt_device_table_options){ DT_TABLE_TANH, 0 });
}

static dt_tensor *mean(dt_tape *t, const given *g)
{
    const dt_reduce_options o = { .dims = { 2, { 3, 1 } } };
    return dt_device_mean(t, g->a, g->range, &o);
}

static dt_tensor *slice(dt_tape *t, const given *g)
{
    const dt_slice_options o = {
        .dims = { 1, { 2 } }, .starts = { 1, { 1 } }, .stops = { 1, { 4 } }, .steps = { 1, { 2 } }
    };
    return dt_device_slice(t, g->a, &o);
}

static dt_tensor *add(dt_tape *t, const given *g)
{
    return dt_device_add(t, g->a, g->b, g->range, NULL);
}

static dt_tensor *sub(dt_tape *t, const given *g)
{
    return dt_device_sub(t, g->b, g->a, g->range, NULL);
}

static dt_tensor *mul(dt_tape *t, const given *g)
{
    return dt_device_mul(t, g->a, g->b, g->range, NULL);
}

static dt_tensor *prelu(dt_tape *t, const given *g)
{
    const int64_t slopes[] = { 3, 1, 1 };
    const dt_slice_options first = {
        .dims = { 1, { 0 } }, .starts = { 1, { 1 } }, .stops = { 1, { 2 } }, .steps = { 1, { 1 } }
    };
    dt_tensor *b = dt_device_reshape(t, dt_device_slice(t, g->b, &first), 3, slopes);
    return dt_device_prelu(t, g->a, b, g->range);
}

static dt_tensor *upsample(dt_tape *t, const given *g)
{
    return dt_device_upsample_nearest(t, g->a, 7, 12);
}

static const struct {
    const char *name;
    make *make;
    double off; /* tolerance in codes besides half a code: rounding twice, or in 16 bits */
} ops[] = { { "sigmoid", sigmoid, 0.001 },
            { "tanh", hyperbolic, 0.001 },
            { "elu", elu, 0.001 },
            { "gelu", gelu, 0.001 },
            { "gelu_tanh", gelu_tanh, 0.001 },
            { "leaky_relu", leaky, 0.26 },
            { "hardswish", hardswish, 0.6 },
            { "relu", relu, 0.26 },
            { "relu6", relu6, 0.26 },
            { "prelu", prelu, 0.26 },
            { "upsample_nearest", upsample, 0.001 },
            { "mean", mean, 0.26 },
            { "slice", slice, 0.001 },
            { "add", add, 0.01 },
            { "sub", sub, 0.01 },
            { "mul", mul, 0.26 } };

static dt_device_range range_of(dt_ctx *ctx, float scale, int8_t zero)
{
    const int64_t one = 1;
    dt_device_range r = { NULL, NULL, NULL };
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 1, &one, &scale, &r.scale));
    TEST_OK(ctx, dt_tensor_from(ctx, DT_I8, 1, &one, &zero, &r.zero_point));
    return r;
}

static void free_range(dt_device_range *r)
{
    dt_tensor_free(r->scale);
    dt_tensor_free(r->zero_point);
}

static dt_tensor *leaf(dt_ctx *ctx, const int64_t dims[4])
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, dims, &x));
    TEST_OK(ctx, dt_fill_uniform(x, -3, 3));
    TEST_OK(ctx, dt_set_requires_grad(x, true));
    return x;
}

static void take(dt_tensor *to, const dt_tensor *from)
{
    ck_assert_int_eq(dt_count(to), dt_count(from));
    memcpy(dt_data_mut(to), dt_data(from), (size_t)dt_count(from) * sizeof(float));
}

/* Compares the codes of y with the numbers of `like`; where a code was clamped, sets dy in `masked`
 * to 0; where that is in doubt, in both. */
static void compare_codes(int op, const dt_tensor *y, const dt_tensor *like, dt_tensor *dy,
                          dt_tensor *masked)
{
    float scale, *d = dt_data_mut(dy), *m = dt_data_mut(masked);
    int zero;
    const int64_t n = dt_count(y);
    int8_t *codes = malloc((size_t)n);
    ck_assert_ptr_nonnull(codes);
    ck_assert_int_eq(dt_coded_range(y, &scale, &zero), DT_OK);
    ck_assert_int_eq(dt_coded_read(y, codes), DT_OK);
    for (int64_t i = 0; i < n; i++) {
        const double real = (double)((const float *)dt_data(like))[i] / (double)scale + zero;
        const double cut = fmin(fmax(real, -128), 127),
                     past = fmin(fabs(real + 128.5), fabs(real - 127.5));
        ck_assert_msg(fabs(codes[i] - cut) <= 0.5 + ops[op].off, "%s: %d, %g", ops[op].name,
                      codes[i], real);
        if (past < 2) d[i] = 0;
        m[i] = real < -128.5 || real > 127.5 ? 0 : d[i];
    }
    free(codes);
}

static void compare_gradients(int op, const dt_tensor *x, const dt_tensor *like)
{
    const dt_tensor *a = dt_grad(x), *b = dt_grad(like);
    ck_assert(((a == NULL) == (b == NULL)));
    for (int64_t i = 0; a != NULL && i < dt_count(a); i++) {
        const double p = (double)((const float *)dt_data(a))[i];
        const double q = (double)((const float *)dt_data(b))[i];
        ck_assert_msg(fabs(p - q) <= 1e-4 * (1 + fabs(q)), "%s: %g, not %g", ops[op].name, p, q);
    }
}

START_TEST(codes_and_gradients)
{
    dt_ctx *ctx;
    dt_tape *t, *floats;
    const int64_t a_dims[] = { 2, 3, 5, 4 }, b_dims[] = { 2, 3, 1, 1 };
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_tape_create(ctx, &floats));
    for (int draw = 0; draw < 20; draw++) {
        dt_device_range of_a = range_of(ctx, 0.025f + 0.001f * (float)draw, (int8_t)(draw % 9 - 4));
        dt_device_range of_b = range_of(ctx, 0.03f, -3);
        dt_device_range of_y = range_of(ctx, 0.013f + 0.002f * (float)draw, (int8_t)(7 - draw));
        given g = { leaf(ctx, a_dims), leaf(ctx, b_dims), NULL }, coded = g;
        coded.range = &of_y;
        coded.a = dt_device_quantize(t, g.a, &of_a);
        coded.b = dt_device_quantize(t, g.b, &of_b);
        dt_tensor *y = ops[_i].make(t, &coded), *dy, *masked;
        TEST_OK(ctx, dt_tape_status(t));
        given plain = { leaf(ctx, a_dims), leaf(ctx, b_dims), &of_y };
        take(plain.a, dt_device_dequantize(t, coded.a));
        take(plain.b, dt_device_dequantize(t, coded.b));
        dt_tensor *like = ops[_i].make(floats, &plain);
        TEST_OK(ctx, dt_tape_status(floats));
        int64_t dims[DT_MAX_RANK];
        for (int i = 0; i < dt_rank(y); i++) dims[i] = dt_dim(y, i);
        TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, dt_rank(y), dims, &dy));
        TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, dt_rank(y), dims, &masked));
        TEST_OK(ctx, dt_fill_uniform(dy, -1, 1));
        compare_codes(_i, y, like, dy, masked);
        TEST_OK(ctx, dt_backward(t, y, dy));
        TEST_OK(ctx, dt_backward(floats, like, masked));
        compare_gradients(_i, g.a, plain.a);
        compare_gradients(_i, g.b, plain.b);
        dt_tape_reset(t);
        dt_tape_reset(floats);
        dt_tensor *const made[] = { g.a, g.b, plain.a, plain.b, dy, masked };
        for (int i = 0; i < DT__COUNT_OF(made); i++) dt_tensor_free(made[i]);
        free_range(&of_a);
        free_range(&of_b);
        free_range(&of_y);
    }
    dt_tape_free(t);
    dt_tape_free(floats);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_device_functions_suite(void)
{
    Suite *s = suite_create("device_functions");
    TCase *c = tcase_create("ops");
    tcase_add_loop_test(c, codes_and_gradients, 0, DT__COUNT_OF(ops));
    suite_add_tcase(s, c);
    return s;
}
