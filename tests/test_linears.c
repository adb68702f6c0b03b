/* dt_linears against dt_linear, bit for bit: weights of every form, alone and mixed, over
 * activations as floats and as codes, few rows and many, any number of threads. */
#include "testing.h"

#include "core/core.h"
#include "qat/quantized.h"

#include <detent/experimental/ops.h>
#include <detent/qat.h>

#include <string.h>

typedef enum form { PLAIN, NIBBLES, CODED_BYTES, SIMULATED, FORMS } form;

static dt_tensor *random_tensor(dt_ctx *ctx, int rank, const int64_t *dims)
{
    dt_tensor *x;
    ck_assert_int_eq(dt_tensor_create(ctx, DT_F32, rank, dims, &x), DT_OK);
    ck_assert_int_eq(dt_fill_normal(x, 0, 1), DT_OK);
    return x;
}

static dt_tensor *weight_of(dt_ctx *ctx, form f, int64_t rows, int64_t columns)
{
    dt_tensor *w = random_tensor(ctx, 2, (const int64_t[]){ rows, columns });
    dt_quant_spec q = dt_weight_quant_defaults();
    q.bits = f == CODED_BYTES ? 7 : 4;
    if (f == PLAIN) return w;
    ck_assert_int_eq(dt__fq_wrap(w, &(dt__fq){ .quant = q, .simulated = f == SIMULATED }), DT_OK);
    return w;
}

/* The tried case, for the message. */
typedef struct trial {
    int64_t rows;
    int bits; /* of the activation; 0: floats */
    int threads;
    form forms[DT_MAX_OUT];
} trial;

static void compare(const trial *r, dt_tape *t, dt_tensor *x, const dt_linear_part *part)
{
    dt_tensor *y[DT_MAX_OUT];
    ck_assert_msg(dt_linears(t, x, part, DT_MAX_OUT, y) == DT_OK, "%s", dt_error(dt_tape_ctx(t)));
    for (int i = 0; i < DT_MAX_OUT; i++) {
        dt_tensor *want = dt_linear(t, x, part[i].weight, part[i].bias);
        const size_t bytes = (size_t)dt_count(want) * sizeof(float);
        TEST_EACH(memcmp(dt_data(y[i]), dt_data(want), bytes) == 0,
                  "%lld rows, activations of %d bits, %d threads, weight %d of form %d",
                  (long long)r->rows, r->bits, r->threads, i, (int)r->forms[i]);
    }
}

static void try_it(const trial *r)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = r->threads;
    dt_ctx *ctx;
    dt_tape *t;
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    ck_assert_int_eq(dt_tape_create(ctx, &t), DT_OK);
    dt_no_grad(t, true);
    const int64_t in = 96, outputs[DT_MAX_OUT] = { 64, 33, 7, 160 };
    dt_linear_part part[DT_MAX_OUT];
    for (int i = 0; i < DT_MAX_OUT; i++) {
        part[i].weight = weight_of(ctx, r->forms[i], outputs[i], in);
        part[i].bias = i % 2 == 0 ? random_tensor(ctx, 1, &outputs[i]) : NULL;
    }
    dt_tensor *x = random_tensor(ctx, 3, (const int64_t[]){ 1, r->rows, in });
    dt_quant_spec q = dt_activation_quant_defaults();
    q.bits = r->bits;
    compare(r, t, r->bits > 0 ? dt_fake_quant(t, x, &q, true) : x, part);
    dt_tensor_free(x);
    for (int i = 0; i < DT_MAX_OUT; i++) {
        dt_tensor_free(part[i].weight);
        dt_tensor_free(part[i].bias);
    }
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

START_TEST(bits_equal_those_of_separate_layers)
{
    static const int64_t rows[] = { 1, 2, 16, 17, 130 };
    static const int bits[] = { 0, 8, 4 };
    static const form forms[][DT_MAX_OUT] = {
        { NIBBLES, NIBBLES, NIBBLES, NIBBLES },
        { CODED_BYTES, CODED_BYTES, CODED_BYTES, CODED_BYTES },
        { NIBBLES, CODED_BYTES, NIBBLES, CODED_BYTES },
        { PLAIN, NIBBLES, SIMULATED, NIBBLES },
        { PLAIN, PLAIN, PLAIN, PLAIN },
    };
    for (int i = 0; i < DT__COUNT_OF(rows) * DT__COUNT_OF(bits) * DT__COUNT_OF(forms); i++) {
        trial r = { .rows = rows[i % 5], .bits = bits[i / 5 % 3] };
        memcpy(r.forms, forms[i / 15], sizeof r.forms);
        for (r.threads = 1; r.threads <= 3; r.threads++) try_it(&r);
    }
}
END_TEST

START_TEST(a_gradient_is_refused)
{
    dt_ctx *ctx;
    dt_tape *t;
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    ck_assert_int_eq(dt_tape_create(ctx, &t), DT_OK);
    dt_tensor *x = random_tensor(ctx, 2, (const int64_t[]){ 3, 8 });
    dt_linear_part part = { weight_of(ctx, PLAIN, 4, 8), NULL };
    dt_tensor *y[DT_MAX_OUT + 1];
    ck_assert_int_eq(dt_linears(t, x, &part, 1, y), DT_OK); /* not requested */
    ck_assert_int_eq(dt_set_requires_grad(part.weight, true), DT_OK);
    ck_assert_int_eq(dt_linears(t, x, &part, 1, y), DT_ERR_STATE);
    ck_assert_ptr_null(y[0]);
    dt_tape_reset(t);
    ck_assert_int_eq(dt_linears(t, x, &part, 0, y), DT_ERR_ARG);
    dt_tape_reset(t);
    dt_no_grad(t, true);
    ck_assert_int_eq(dt_linears(t, x, &part, 1, y), DT_OK);
    dt_tensor_free(x);
    dt_tensor_free(part.weight);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_linears_suite(void);
Suite *test_linears_suite(void)
{
    Suite *s = suite_create("linears");
    TCase *c = tcase_create("linears");
    tcase_add_test(c, bits_equal_those_of_separate_layers);
    tcase_add_test(c, a_gradient_is_refused);
    suite_add_tcase(s, c);
    return s;
}
