/* A grouped weight is one FakeQuantTensor: its codes are those of each member by itself, whatever the
 * scheme, its extents, the instruction set and the number of threads. */
#include "testing.h"

#include "autograd/codes.h"
#include "core/tensor.h"
#include "kernels/kernels.h"
#include "qat/quantized.h"
#include "qat/quantizer.h"

#include <detent/ops.h>
#include <detent/qat.h>

#include <stdlib.h>

/* ---- one by one ------------------------------------------------------------------------------- */

/* A grouped weight and the codes of all of it; a plain weight of one member's data, and its codes. */
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

/* A range that stands, begun with the values of w. */
static dt_module *range_of(dt_tensor *w, const dt__fq *fq)
{
    dt_module *range;
    dt__quantizer_size size = { .scales = 1 };
    TEST_OK(w->ctx, dt__quantizer_scales(w, &fq->map, &fq->quant, &size.scales));
    TEST_OK(w->ctx, dt__quantizer_create(w->ctx, &fq->quant, &size, &range));
    TEST_OK(w->ctx, dt__quantizer_begin(w, &fq->map, dt__quantizer_of(range)));
    return range;
}

static side quantized(dt_tensor *w, const dt_quant *quant)
{
    side s = { .w = w };
    dt__fq fq = { .quant = *quant, .map = dt__row_map_of_members(dt_grouped_count(w)) };
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

/* A plain weight of the values of member e. */
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
                  "element %lld of member %lld", (long long)i, (long long)e);
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
    const float *of_member = (const float *)dt__data(a) + e * b->count;
    TEST_EACH(a->count == b->count * all->w->dims[0], "%lld scales", (long long)a->count);
    TEST_EACH(same(of_member, dt__data(b), b->count, sizeof(float)), "scales that stand");
}

static void check_image(const side *all, const side *one, int64_t e)
{
    dt_tensor *a, *b;
    TEST_OK(all->w->ctx, dt__image(all->w->ctx, all->w, all->codes, &a));
    TEST_OK(one->w->ctx, dt__image(one->w->ctx, one->w, one->codes, &b));
    const float *of_member = (const float *)dt__data(a) + e * b->count;
    TEST_EACH(same(of_member, dt__data(b), b->count, sizeof(float)), "image of member %lld",
              (long long)e);
    dt_tensor_free(a);
    dt_tensor_free(b);
}

/* Panels (codes, scales, sums of codes), zero points, ranges, masks and images of each member. */
static void check_members(dt_ctx *ctx, const int64_t dims[3], const dt_quant *quant,
                          dt__stream *stream)
{
    dt_tensor *w = experts(ctx, dims, stream);
    side all = quantized(w, quant);
    const dt__panel_layout *l = &all.codes->layout;
    int64_t clipped = 0;
    for (int64_t e = 0; e < dims[0]; e++) {
        side one = quantized(copy_of(w, e), quant);
        const size_t bytes = one.codes->layout.bytes, at = (size_t)e * bytes;
        TEST_EACH(l->member_rows == dims[1] && bytes * (size_t)dims[0] == l->bytes, "extents");
        TEST_EACH(same((char *)all.codes->panels + at, one.codes->panels, (int64_t)bytes, 1),
                  "panels of member %lld of %lld x [%lld,%lld]", (long long)e, (long long)dims[0],
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
static void draw_quant(dt__stream *s, dt_quant *q)
{
    *q = dt_weight_quant_defaults();
    q->range = (int)below(s, 3);
    q->rule = (int)below(s, 4);
    q->granularity = DT_PER_TENSOR + (int)below(s, 3);
    q->bits = 2 + below(s, 7);
    q->group_size = (int64_t[]){ 8, 16, 24, 32, 64, 256 }[below(s, 6)];
    q->scale_dtype = (int)below(s, 3);
    q->ste = (int)below(s, 3);
    q->observer = DT_OBSERVER_MSE;
    q->is_unsigned = q->rule == DT_RULE_ASYMMETRIC && below(s, 2) == 0;
    if (q->rule == DT_RULE_Q4_0) {
        q->bits = 4;
        q->granularity = DT_PER_GROUP;
        q->group_size = 32;
    }
}

#define MASKS 4

START_TEST(codes_are_those_of_each_member)
{
    static const uint64_t masks[MASKS] = { 0, DT_CPU_AVX2, DT_CPU_AVX2 | DT_CPU_AVX_VNNI,
                                           UINT64_MAX };
    static const int64_t rows[] = { 1, 2, 31, 32, 33, 64, 70 }, members[] = { 1, 2, 3, 7 };
    dt_ctx *ctx = context(masks[_i % MASKS], 1 + _i % 3);
    dt__stream s = dt__stream_of((uint64_t)_i, DT__FOR_USER);
    for (int round = 0; round < 150;) {
        dt_quant q;
        draw_quant(&s, &q);
        if (dt__quant_check(ctx, &q) != DT_OK) continue;
        const int64_t columns = round % 25 == 0 ? 0 : 1 + below(&s, round % 4 == 0 ? 600 : 90);
        const int64_t dims[] = { members[below(&s, 4)],
                                 round % 31 == 0 ? 0 : rows[below(&s, DT__COUNT_OF(rows))],
                                 columns };
        check_members(ctx, dims, &q, &s);
        round++;
    }
    dt_ctx_free(ctx);
}
END_TEST

/* More than threads share, and members with panels of fewer lanes between them. */
START_TEST(large_weights_too)
{
    dt__stream s = dt__stream_of(77, DT__FOR_USER);
    for (int threads = 1; threads <= 3; threads += 2) {
        dt_ctx *ctx = context(UINT64_MAX, threads);
        for (int g = DT_PER_TENSOR; g <= DT_PER_GROUP; g++) {
            dt_quant q = dt_weight_quant_defaults();
            q.granularity = g;
            q.rule = threads == 1 ? DT_RULE_SYMMETRIC : DT_RULE_ASYMMETRIC;
            check_members(ctx, (const int64_t[]){ 6, 90, 320 }, &q, &s);
        }
        dt_ctx_free(ctx);
    }
}
END_TEST

Suite *test_grouped_quant_suite(void)
{
    Suite *suite = suite_create("grouped_quant");
    TCase *members = tcase_create("members");
    tcase_set_timeout(members, 120);
    tcase_add_loop_test(members, codes_are_those_of_each_member, 0, 3 * MASKS);
    tcase_add_test(members, large_weights_too);
    suite_add_tcase(suite, members);
    return suite;
}
