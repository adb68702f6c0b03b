/* A grouped weight is one FakeQuantTensor. Its codes are those of each expert quantized separately,
 * for every scheme, extent, instruction set and number of threads. */
#include "testing.h"

#include "autograd/codes.h"
#include "core/tensor.h"
#include "kernels/kernels.h"
#include "qat/schemes/scheme.h"
#include "qat/quantized.h"
#include "qat/quantizer.h"

#include <detent/experimental/ops.h>
#include <detent/qat.h>

#include <stdlib.h>

/* ---- expert by expert ----------------------------------------------------------------------- */

/* A grouped weight and the codes of all of it; a plain weight of one expert's data, and its
 * codes. */
typedef struct side {
    dt_tensor *w;
    dt_module *range;
    dt__codes *codes;
} side;

static int64_t below(dt__stream *s, int64_t n) { return (int64_t)(dt__random_unit(s) * (double)n); }

static dt_ctx *context(uint64_t mask, int threads)
{
    dt_ctx *ctx;
    dt_ctx_options o = dt_ctx_defaults();
    o.cpu_mask = mask;
    o.threads = threads;
    TEST_OK(NULL, dt_ctx_create(&ctx, &o));
    return ctx;
}

/* A static range, initialized with the values of w. */
static dt_module *range_of(dt_tensor *w, const dt__fq *fq)
{
    dt_module *range;
    dt__quantizer_size size = { .scales = 1 };
    TEST_OK(w->ctx, dt__quantizer_scales(w, &fq->map, &fq->quant, &size.scales));
    TEST_OK(w->ctx, dt__quantizer_create(w->ctx, &fq->quant, &size, &range));
    TEST_OK(w->ctx, dt__quantizer_begin(w, &fq->map, dt__quantizer_of(range)));
    return range;
}

static side quantized(dt_tensor *w, const dt_quant_spec *quant)
{
    side s = { .w = w };
    dt__fq fq = { .quant = *quant, .map = dt__row_map_of_experts(dt_grouped_count(w)) };
    if (quant->range != DT_RANGE_DYNAMIC) {
        s.range = range_of(w, &fq);
        fq.scale = dt__quantizer_of(s.range)->scale;
        fq.zero_point = dt__quantizer_of(s.range)->zero_point;
    }
    TEST_OK(w->ctx, dt__fq_wrap(w, &fq));
    TEST_OK(w->ctx, dt__fq_codes(w, &s.codes));
    return s;
}

static void discard(side *s)
{
    dt__codes_release(s->codes);
    dt_tensor_free(s->w);
    dt_module_free(s->range);
}

static dt_tensor *experts(dt_ctx *ctx, const int64_t dims[3], dt__stream *stream)
{
    dt_tensor *w;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 3, dims, &w));
    float *x = dt_data_mut(w);
    for (int64_t i = 0; i < w->count; i++) {
        x[i] = (float)((dt__random_unit(stream) - 0.5) * (double)(1 + i / 7 % 5));
    }
    TEST_OK(ctx, dt_set_grouped(w));
    return w;
}

/* A plain weight of the values of expert e. */
static dt_tensor *copy_of(const dt_tensor *w, int64_t e)
{
    dt_tensor *x;
    TEST_OK(w->ctx, dt_tensor_create(w->ctx, DT_F32, 2, w->dims + 1, &x));
    const int64_t n = x->count;
    if (n > 0)
        memcpy(dt_data_mut(x), (const float *)dt__data(w) + e * n, (size_t)n * sizeof(float));
    return x;
}

static bool same(const void *a, const void *b, int64_t n, int64_t size)
{
    return n == 0 || memcmp(a, b, (size_t)n * (size_t)size) == 0;
}

static int bit_of(const dt__codes *codes, const dt__cut *cut, int64_t element)
{
    const int64_t row = element / cut->columns, k = element % cut->columns;
    if (codes->mask == NULL) return 1;
    return codes->mask[row * dt__mask_bytes(cut) + k / 8] >> k % 8 & 1;
}

static void check_masks(const side *all, const side *one, int64_t e)
{
    dt__cut of_all, of_one;
    const dt__fq *a = all->w->ext, *b = one->w->ext;
    const dt__weight_shape whole = dt__weight_shape_of(all->w, &a->map);
    const dt__weight_shape single = dt__weight_shape_of(one->w, &b->map);
    TEST_OK(all->w->ctx, dt__weight_cut(all->w->ctx, &a->quant, &whole, &of_all));
    TEST_OK(one->w->ctx, dt__weight_cut(one->w->ctx, &b->quant, &single, &of_one));
    const int64_t n = one->w->count;
    for (int64_t i = 0; i < n; i++) {
        TEST_EACH(bit_of(all->codes, &of_all, e * n + i) == bit_of(one->codes, &of_one, i),
                  "element %lld of expert %lld", (long long)i, (long long)e);
    }
}

static void check_zeros(const side *all, const side *one, int64_t e)
{
    const dt__codes *a = all->codes, *b = one->codes;
    const int64_t blocks = b->rows * b->groups;
    TEST_EACH((a->zero == NULL) == (b->zero == NULL), "zero points");
    for (int64_t i = 0; i < blocks && b->zero != NULL; i++) {
        const int8_t got = a->zero[a->zero_step == 0 ? 0 : e * blocks + i];
        TEST_EACH(got == b->zero[b->zero_step == 0 ? 0 : i], "zero point %lld", (long long)i);
    }
}

static void check_ranges(const side *all, const side *one, int64_t e)
{
    if (all->range == NULL || all->w->count == 0) return;
    const dt_tensor *a = dt__quantizer_of(all->range)->scale;
    const dt_tensor *b = dt__quantizer_of(one->range)->scale;
    const float *of_expert = (const float *)dt__data(a) + e * b->count;
    TEST_EACH(a->count == b->count * all->w->dims[0], "%lld scales", (long long)a->count);
    TEST_EACH(same(of_expert, dt__data(b), b->count, sizeof(float)), "scales that stand");
}

static void check_image(const side *all, const side *one, int64_t e)
{
    dt_tensor *a, *b;
    TEST_OK(all->w->ctx, dt__dequantized(all->w->ctx, all->w, all->codes, &a));
    TEST_OK(one->w->ctx, dt__dequantized(one->w->ctx, one->w, one->codes, &b));
    const float *of_expert = (const float *)dt__data(a) + e * b->count;
    TEST_EACH(same(of_expert, dt__data(b), b->count, sizeof(float)), "image of expert %lld",
              (long long)e);
    dt_tensor_free(a);
    dt_tensor_free(b);
}

/* Panels (codes, scales, sums of codes), zero points, ranges, masks and dequantized values of each
 * expert. */
static void check_experts(dt_ctx *ctx, const int64_t dims[3], const dt_quant_spec *quant,
                          dt__stream *stream)
{
    dt_tensor *w = experts(ctx, dims, stream);
    side all = quantized(w, quant);
    const dt__panel_layout *l = &all.codes->layout;
    int64_t clipped = 0;
    for (int64_t e = 0; e < dims[0]; e++) {
        side one = quantized(copy_of(w, e), quant);
        const size_t bytes = one.codes->layout.bytes, at = (size_t)e * bytes;
        TEST_EACH(l->expert_rows == dims[1] && bytes * (size_t)dims[0] == l->bytes, "extents");
        TEST_EACH(same((char *)all.codes->panels + at, one.codes->panels, (int64_t)bytes, 1),
                  "panels of expert %lld of %lld x [%lld,%lld]", (long long)e, (long long)dims[0],
                  (long long)dims[1], (long long)dims[2]);
        TEST_EACH(all.codes->integer == one.codes->integer, "for integer products");
        check_zeros(&all, &one, e);
        check_ranges(&all, &one, e);
        check_masks(&all, &one, e);
        check_image(&all, &one, e);
        clipped += one.codes->clipped;
        discard(&one);
    }
    TEST_EACH(all.codes->clipped == clipped, "clipped codes");
    discard(&all);
}

/* Settings of every kind, of which dt_quant_check takes many. */
static void draw_quant(dt__stream *s, dt_quant_spec *q)
{
    *q = dt_weight_quant_defaults();
    q->range = (int)below(s, 3);
    q->scheme = (int)below(s, DT__SCHEMES);
    q->granularity = DT_PER_TENSOR + (int)below(s, 3);
    q->bits = 2 + below(s, 7);
    q->group_size = (int64_t[]){ 8, 16, 24, 32, 64, 256 }[below(s, 6)];
    q->scale_dtype = (int)below(s, 3);
    q->ste = (int)below(s, 3);
    q->observer = DT_OBSERVER_MSE;
    q->is_unsigned = dt__scheme_of(q->scheme)->has_zero && below(s, 2) == 0;
    if (dt__scheme_of(q->scheme)->bits != 0) q->bits = dt__scheme_of(q->scheme)->bits;
    if (dt__scheme_of(q->scheme)->fp16_blocks) {
        q->bits = 4;
        q->granularity = DT_PER_GROUP;
        q->group_size = 32;
    }
    if (dt__scheme_of(q->scheme)->group == 0) return;
    q->granularity = DT_PER_GROUP;
    q->group_size = dt__scheme_of(q->scheme)->group;
    if (dt__scheme_of(q->scheme)->settle == NULL) return;
    q->range = DT_RANGE_DYNAMIC;
    q->scale_dtype = DT_SCALE_F32;
}

#define MASKS 4

static const test_draws draws = { .usual = 150, .quick = 60, .sanitized = 8 };
static const test_draws gradient_draws = { .usual = 60, .quick = 30, .sanitized = 12 };

START_TEST(codes_are_those_of_each_expert)
{
    static const uint64_t masks[MASKS] = { DT_CPU_PLAIN, DT_CPU_AVX2, DT_CPU_AVX2 | DT_CPU_AVX_VNNI,
                                           UINT64_MAX };
    static const int64_t rows[] = { 1, 2, 31, 32, 33, 64, 70 }, experts[] = { 1, 2, 3, 7 };
    dt_ctx *ctx = context(masks[_i % MASKS], 1 + _i % 3);
    dt__stream s = dt__stream_of((uint64_t)_i, DT__FOR_USER);
    for (int round = 0; round < test_count(draws);) {
        dt_quant_spec q;
        draw_quant(&s, &q);
        if (dt__quant_check(ctx, &q, DT__QUANT_TENSOR) != DT_OK) continue;
        const int64_t columns = round % 25 == 0 ? 0 : 1 + below(&s, round % 4 == 0 ? 600 : 90);
        const int64_t dims[] = { experts[below(&s, 4)],
                                 round % 31 == 0 ? 0 : rows[below(&s, DT__COUNT_OF(rows))],
                                 columns };
        check_experts(ctx, dims, &q, &s);
        round++;
    }
    dt_ctx_free(ctx);
}
END_TEST

/* The experts of a bias are no matrices. */
START_TEST(vectors_have_no_rows)
{
    dt_ctx *ctx = context(UINT64_MAX, 1);
    dt_tape *t;
    dt_tensor *b;
    const dt_quant_spec q = dt_weight_quant_defaults();
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ 3, 40 }, &b));
    TEST_OK(ctx, dt_set_grouped(b));
    ck_assert_ptr_null(dt_square(t, dt_fake_quant(t, b, &q, true)));
    TEST_FAILS(ctx, DT_ERR_SHAPE, "its experts must be matrices", dt_tape_status(t));
    dt_tape_free(t);
    dt_tensor_free(b);
    dt_ctx_free(ctx);
}
END_TEST

/* Enough rows for several threads, and experts that end with partial panels. */
START_TEST(codes_of_large_weights_are_those_of_each_expert)
{
    dt__stream s = dt__stream_of(77, DT__FOR_USER);
    for (int threads = 1; threads <= 3; threads += 2) {
        dt_ctx *ctx = context(UINT64_MAX, threads);
        for (int g = DT_PER_TENSOR; g <= DT_PER_GROUP; g++) {
            dt_quant_spec q = dt_weight_quant_defaults();
            q.granularity = g;
            q.scheme = threads == 1 ? DT_SCHEME_SYMMETRIC : DT_SCHEME_ASYMMETRIC;
            check_experts(ctx, (const int64_t[]){ 6, 90, 320 }, &q, &s);
        }
        dt_ctx_free(ctx);
    }
}
END_TEST

/* ---- gradients ------------------------------------------------------------------------------ */

/* The gradient of sum(w^ r), r being `factors`, into the slots of w and of its scale. */
static void run_backward(side *s, const float *factors)
{
    dt_tape *t;
    dt_tensor *r;
    dt_ctx *ctx = s->w->ctx;
    TEST_OK(ctx, dt_set_requires_grad(s->w, true));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 3 - !s->w->grouped, s->w->dims, factors, &r));
    TEST_OK(ctx, dt_backward(t, dt_sum(t, dt_mul(t, s->w, r), NULL), NULL));
    dt_tape_free(t);
    dt_tensor_free(r);
}

static void check_gradients(dt_ctx *ctx, const int64_t dims[3], const dt_quant_spec *quant,
                            dt__stream *stream)
{
    dt_tensor *w = experts(ctx, dims, stream);
    const int64_t n = dims[1] * dims[2];
    float *factors = malloc((size_t)w->count * sizeof *factors);
    for (int64_t i = 0; i < w->count; i++) factors[i] = (float)(dt__random_unit(stream) - 0.5);
    side all = quantized(w, quant);
    run_backward(&all, factors);
    for (int64_t e = 0; e < dims[0]; e++) {
        side one = quantized(copy_of(w, e), quant);
        run_backward(&one, factors + e * n);
        const float *dw = (const float *)dt_data(dt_grad(w)) + e * n;
        TEST_EACH(same(dw, dt_data(dt_grad(one.w)), n, sizeof(float)), "dw of expert %lld",
                  (long long)e);
        if (quant->range == DT_RANGE_LEARNED) {
            const dt_tensor *ds = dt_grad(dt__quantizer_of(all.range)->scale);
            const dt_tensor *of_one = dt_grad(dt__quantizer_of(one.range)->scale);
            const float *of_expert = (const float *)dt__data(ds) + e * of_one->count;
            TEST_EACH(same(of_expert, dt__data(of_one), of_one->count, sizeof(float)),
                      "ds of expert %lld", (long long)e);
        }
        discard(&one);
    }
    discard(&all);
    free(factors);
}

/* Masks of clipped elements, and gradients of scales. */
START_TEST(gradients_are_those_of_each_expert)
{
    dt_ctx *ctx = context(UINT64_MAX, 1 + _i % 3);
    dt__stream s = dt__stream_of((uint64_t)_i + 100, DT__FOR_USER);
    for (int round = 0; round < test_count(gradient_draws);) {
        dt_quant_spec q;
        draw_quant(&s, &q);
        q.ste = round % 3 == 0 ? DT_STE_DEFAULT : DT_STE_CLIPPED;
        if (round % 2 == 0) q.range = DT_RANGE_LEARNED;
        if (dt__quant_check(ctx, &q, DT__QUANT_TENSOR) != DT_OK) continue;
        const int64_t dims[] = { 1 + below(&s, 4), 1 + below(&s, 70), 1 + below(&s, 130) };
        check_gradients(ctx, dims, &q, &s);
        round++;
    }
    check_gradients(ctx, (const int64_t[]){ 3, 40, 700 },
                    &(dt_quant_spec){ .bits = 4,
                                      .granularity = _i == 0 ? DT_PER_TENSOR : DT_PER_CHANNEL,
                                      .range = DT_RANGE_LEARNED },
                    &s);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- products ------------------------------------------------------------------------------- */

/* Groups of an expert's columns that are not consecutive, another order for each expert: nearest
 * codes, but column c is of the group of column (c * step) mod columns. */
static dt__codes *ordered_codes(dt_tensor *w, const dt_quant_spec *quant, int64_t first)
{
    dt__codes *plain, *made;
    const dt__fq fq = { .quant = *quant, .map = dt__row_map_of_experts(dt_grouped_count(w)) };
    TEST_OK(w->ctx, dt__codes_make(w, &fq, "w", &plain));
    const dt__panel_layout *l = &plain->layout;
    const int64_t orders = dt__max_i64(1, dt_grouped_count(w)), n = l->columns;
    dt_code_rows rows = { malloc((size_t)(l->rows * n)),
                          malloc((size_t)(l->rows * l->groups) * sizeof(float)), NULL,
                          malloc((size_t)(orders * n) * sizeof(int32_t)), orders };
    for (int64_t i = 0; i < orders * n; i++) {
        rows.group_of[i] = (int32_t)(i % n * (2 * (first + i / n) + 3) % n / l->group);
    }
    const dt_code_rows taken = { rows.codes, rows.scale, NULL, NULL, orders };
    dt__codes_to_rows(plain, &taken);
    TEST_OK(w->ctx, dt__codes_from_rows(w->ctx, l, false, &rows, &made));
    made->map = fq.map;
    dt__codes_release(plain);
    free(rows.codes);
    free(rows.scale);
    free(rows.group_of);
    return made;
}

/* x W_e^T of rows n0 ... n1-1 of w, by codes of x and by its values. */
static void multiply(dt_tensor *x, const dt__codes *w, const int64_t n[2], float *y[2])
{
    dt__codes *u;
    const dt_quant_spec quant = dt_activation_quant_defaults();
    TEST_OK(x->ctx, dt__codes_make(x, &(dt__fq){ .quant = quant }, "x", &u));
    dt__codes_weight weight = { .w = w, .y = y[0], .n0 = n[0], .n1 = n[1] };
    void *room = malloc(dt__codes_product_room(u, w) + 1);
    dt__codes_product(&(dt__codes_products){ .x = u, .n = 1, .weight = &weight, .room = room });
    free(room);
    weight.y = y[1];
    room = malloc(dt__codes_floats_room(x->dims[0], w) + 1);
    dt__codes_product_floats(&(dt__codes_floats){
        .m = x->dims[0], .x = dt__data(x), .n = 1, .weight = &weight, .room = room });
    free(room);
    dt__codes_release(u);
}

/* The rows of one expert, multiplied as a separate weight. */
START_TEST(products_are_those_of_each_expert)
{
    dt_ctx *ctx = context(_i < 2 ? DT_CPU_PLAIN : UINT64_MAX, 2);
    dt__stream s = dt__stream_of(55, DT__FOR_USER);
    const int64_t dims[] = { 4, 45, 68 }, x_dims[] = { 5, 68 }, none[] = { 0, 0 };
    const bool ordered = _i % 2 == 1;
    dt_quant_spec quant = dt_weight_quant_defaults();
    quant.group_size = 8;
    dt_tensor *w = experts(ctx, dims, &s), *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, x_dims, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    dt__codes *all = ordered_codes(w, &quant, 0);
    float *y[4];
    for (int i = 0; i < 4; i++) y[i] = calloc(5 * 45, sizeof(float));
    for (int64_t e = 0; e < 4; e++) {
        dt_tensor *one = copy_of(w, e);
        dt__codes *own;
        if (ordered) own = ordered_codes(one, &quant, e);
        else TEST_OK(ctx, dt__codes_make(one, &(dt__fq){ .quant = quant }, "w", &own));
        if (!ordered) {
            dt__codes_release(all);
            const dt__fq fq = { .quant = quant, .map = dt__row_map_of_experts(4) };
            TEST_OK(ctx, dt__codes_make(w, &fq, "w", &all));
        }
        ck_assert((all->order != NULL) == ordered);
        multiply(x, all, (const int64_t[]){ e * 45, e * 45 + 45 }, y);
        multiply(x, own, none, y + 2);
        for (int i = 0; i < 2; i++) ck_assert_mem_eq(y[i], y[i + 2], 5 * 45 * sizeof(float));
        multiply(x, all, (const int64_t[]){ e * 45 + 32, e * 45 + 45 }, y); /* a later panel */
        for (int r = 0; r < 5; r++) {
            ck_assert_mem_eq(y[0] + r * 13, y[2] + r * 45 + 32, 13 * sizeof(float));
        }
        dt__codes_release(own);
        dt_tensor_free(one);
    }
    for (int i = 0; i < 4; i++) free(y[i]);
    dt__codes_release(all);
    dt_tensor_free(w);
    dt_tensor_free(x);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_grouped_quant_suite(void)
{
    Suite *suite = suite_create("grouped_quant");
    TCase *experts = tcase_create("experts");
    tcase_set_timeout(experts, 120);
    tcase_add_loop_test(experts, codes_are_those_of_each_expert, 0, 3 * MASKS);
    tcase_add_test(experts, codes_of_large_weights_are_those_of_each_expert);
    tcase_add_test(experts, vectors_have_no_rows);
    tcase_add_loop_test(experts, gradients_are_those_of_each_expert, 0, 3);
    tcase_add_loop_test(experts, products_are_those_of_each_expert, 0, 4);
    suite_add_tcase(suite, experts);
    return suite;
}
