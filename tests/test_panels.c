/* Packed panels and the integer product: unpacking inverts packing, tiles expand to dequantized
 * values, and the product equals numerics §2 evaluated element by element from row-major codes, bit
 * for bit, with odd shapes, groups, bits, scale dtypes, largest sums, and numbers of threads. */
#include "testing.h"

#include "core/text/half.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A random weight and random activations, row-major and packed. */
typedef struct weight {
    dt__panel_layout layout;
    dt__code_matrix matrix;
    void *panels;
    int64_t m, ldu;
    uint8_t *u;
    float *sx, *bias, *block_scale, *y;
    int32_t *zu;
} weight;

enum {
    RANDOM,
    WORST_LOW, /* every code qmin, or qmax, against u of 0 or 255 */
    WORST_HIGH,
    POWERS, /* scales are powers of two of many sizes: sums that lie midway between floats */
    TINY    /* scales of the smallest normal numbers: subnormal sums */
};

static float round_scale(int dtype, float s)
{
    return dtype == DT__SCALE_F16    ? dt__round_f16(s)
           : dtype == DT__SCALE_BF16 ? dt__round_bf16(s)
                                     : s;
}

static int64_t below(dt__stream *s, int64_t n) { return (int64_t)dt__random_below(s, (uint64_t)n); }

static float make_scale(int dtype, int how, dt__stream *s)
{
    const bool negative = below(s, 4) == 0;
    float scale = (float)(dt__random_unit(s) * 0.1 + 0.001);
    if (how == POWERS) scale = ldexpf(1, (int)below(s, 30) - 15);
    if (how == TINY) scale = ldexpf(1 + scale, dtype == DT__SCALE_F16 ? -14 : -126);
    return round_scale(dtype, negative ? -scale : scale);
}

static void make_activations(weight *w, int how, dt__stream *s)
{
    const int64_t m = w->m;
    w->ldu = w->layout.depth + below(s, 9);
    w->u = malloc((size_t)(m * w->ldu) + 1);
    w->sx = malloc((size_t)m * sizeof(float) + 1);
    w->zu = malloc((size_t)m * sizeof(int32_t) + 1);
    w->bias = malloc((size_t)w->layout.rows * sizeof(float) + 1);
    w->y = malloc((size_t)(m * w->layout.rows) * sizeof(float) + 1);
    for (int64_t i = 0; i < m * w->ldu; i++) {
        w->u[i] = (uint8_t)(how == WORST_LOW || how == WORST_HIGH ? 255 * (i / w->ldu % 2)
                                                                  : below(s, 256));
    }
    for (int64_t i = 0; i < m; i++) {
        w->sx[i] = (float)(0.001 + dt__random_unit(s));
        w->zu[i] = (int32_t)below(s, 256);
    }
    for (int64_t i = 0; i < w->layout.rows; i++) w->bias[i] = (float)(dt__random_unit(s) - 0.5);
}

/* Activations are in blocks from now on. */
static void put_blocks(weight *w, dt__stream *s)
{
    const int64_t blocks = w->m * w->layout.groups;
    w->block_scale = malloc((size_t)blocks * sizeof(float) + 1);
    for (int64_t i = 0; i < blocks; i++) {
        w->block_scale[i] = (float)(0.001 + dt__random_unit(s));
    }
}

static weight make(const dt__panel_shape *shape, int64_t m, int how, dt__stream *s)
{
    weight w = { .m = m };
    ck_assert(dt__panel_layout_of(shape, &w.layout));
    const dt__panel_layout *l = &w.layout;
    const int64_t rows = l->rows, qmin = -(1 << (l->bits - 1)), qmax = -qmin - 1;
    const int64_t ld = l->columns + below(s, 4);
    w.matrix =
        (dt__code_matrix){ malloc((size_t)(rows * ld) + 1), ld,
                           malloc((size_t)(rows * l->groups) * sizeof(float) + 1), l->groups };
    for (int64_t i = 0; i < rows * ld; i++) {
        const int64_t code = how == RANDOM      ? qmin + below(s, 2 * -qmin)
                             : how == WORST_LOW ? qmin
                                                : qmax;
        w.matrix.codes[i] = (int8_t)code;
    }
    for (int64_t i = 0; i < rows * l->groups; i++) {
        w.matrix.scales[i] = make_scale(l->scale_dtype, how, s);
    }
    w.panels = aligned_alloc(64, l->bytes + 64);
    memset(w.panels, 0xaa, l->bytes);
    dt__panel_pack(l, &w.matrix, w.panels);
    make_activations(&w, how, s);
    return w;
}

static void discard(weight *w)
{
    free(w->matrix.codes);
    free(w->matrix.scales);
    free(w->panels);
    free(w->u);
    free(w->sx);
    free(w->zu);
    free(w->bias);
    free(w->block_scale);
    free(w->y);
}

static int code(const weight *w, int64_t n, int64_t k)
{
    return w->matrix.codes[n * w->matrix.ld + k];
}

static float scale(const weight *w, int64_t n, int64_t g)
{
    return w->matrix.scales[n * w->matrix.scale_step + g];
}

/* acc = fmaf(sum of u * q, scale, acc) over the pieces of a row; with u NULL all u are 1. */
static float chain(const weight *w, int64_t n, const uint8_t *u, float acc)
{
    const dt__panel_layout *l = &w->layout;
    for (int64_t g = 0; g < l->groups; g++) {
        const int64_t end = dt__min_i64((g + 1) * l->group, l->columns);
        for (int64_t start = g * l->group; start < end; start += 32768) {
            int64_t sum = 0;
            for (int64_t k = start; k < dt__min_i64(start + 32768, end); k++) {
                sum += (u == NULL ? 1 : u[k]) * code(w, n, k);
            }
            TEST_EACH(sum >= INT32_MIN && sum <= INT32_MAX, "the sum is too large");
            acc = fmaf((float)sum, scale(w, n, g), acc);
        }
    }
    return acc;
}

/* One output by the formula, from row-major codes. */
static float want_y(const weight *w, int64_t m, int64_t n, bool biased)
{
    const float ksum = chain(w, n, NULL, 0);
    const float acc = chain(w, n, w->u + m * w->ldu, -((float)w->zu[m] * ksum));
    const float y = w->sx[m] * acc;
    return biased ? y + w->bias[n] : y;
}

/* One output where activations are in blocks, each with a scale of its own. */
static float want_blocks(const weight *w, int64_t m, int64_t n, bool biased)
{
    const dt__panel_layout *l = &w->layout;
    float acc = 0;
    for (int64_t g = 0; g < l->groups; g++) {
        int64_t sum = 0;
        for (int64_t k = g * l->group; k < dt__min_i64((g + 1) * l->group, l->columns); k++) {
            sum += (w->u[m * w->ldu + k] - 128) * code(w, n, k);
        }
        acc = fmaf((float)sum, scale(w, n, g) * w->block_scale[m * l->groups + g], acc);
    }
    return biased ? acc + w->bias[n] : acc;
}

static void multiply(dt_ctx *ctx, const weight *w, bool biased)
{
    const dt__kernels *kernels = dt__kernels_of(ctx, DT_F32);
    const dt__qgemm g = { .layout = &w->layout,
                          .panels = w->panels,
                          .m = w->m,
                          .u = w->u,
                          .ldu = w->ldu,
                          .sx = w->sx,
                          .zu = w->zu,
                          .block_scale = w->block_scale,
                          .bias = biased ? w->bias : NULL,
                          .y = w->y,
                          .ldy = w->layout.rows };
    memset(w->y, 0xff, (size_t)(w->m * w->layout.rows) * sizeof(float));
    dt__team *const before = dt__threads_enter(ctx);
    (w->layout.nibbles ? kernels->qd8_qb4_gemm : kernels->qd8_qb8_gemm)(&g);
    dt__threads_leave(before);
}

static void check_product(dt_ctx *ctx, const weight *w, bool biased)
{
    multiply(ctx, w, biased);
    for (int64_t m = 0; m < w->m; m++) {
        for (int64_t n = 0; n < w->layout.rows; n++) {
            const float want =
                w->block_scale != NULL ? want_blocks(w, m, n, biased) : want_y(w, m, n, biased);
            const float got = w->y[m * w->layout.rows + n];
            TEST_EACH(memcmp(&want, &got, sizeof got) == 0, "y[%lld,%lld] = %a, not %a",
                      (long long)m, (long long)n, (double)got, (double)want);
        }
    }
}

static dt_ctx *context(int threads)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = threads;
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    TEST_OK(ctx, dt__kernels_open(ctx));
    return ctx;
}

/* ---- the product ---------------------------------------------------------------------------- */

static const int64_t groups[] = { 8, 16, 32, 40, 64, 128, 256, 512, INT64_MAX };

START_TEST(equals_the_formula)
{
    dt_ctx *ctx = context(2);
    dt__stream s = dt__stream_of((uint64_t)_i, DT__FOR_USER);
    for (int round = 0; round < 60; round++) {
        const int64_t experts = round % 3 == 0 ? 1 + below(&s, 4) : 0;
        const dt__panel_shape shape = { (1 + below(&s, 70)) * dt__max_i64(1, experts),
                                        1 + below(&s, round % 6 == 0 ? 700 : 120),
                                        groups[below(&s, DT__COUNT_OF(groups))],
                                        _i,
                                        (int)below(&s, 3),
                                        experts };
        const int how = round % 5 == 3 ? POWERS : round % 5 == 4 ? TINY : RANDOM;
        weight w = make(&shape, 1 + below(&s, round % 7 == 0 ? 140 : 9), how, &s);
        check_product(ctx, &w, round % 2 == 0);
        put_blocks(&w, &s);
        check_product(ctx, &w, round % 2 == 0);
        discard(&w);
    }
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(sums_never_saturate)
{
    dt_ctx *ctx = context(2);
    dt__stream s = dt__stream_of(3, DT__FOR_USER);
    for (int bits = 2; bits <= 8; bits++) {
        for (int how = WORST_LOW; how <= WORST_HIGH; how++) {
            const dt__panel_shape shape = { 33, 2048, bits % 2 == 0 ? 2048 : 32, bits, 0, 0 };
            weight w = make(&shape, 2, how, &s);
            check_product(ctx, &w, true);
            discard(&w);
        }
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Groups longer than 32768 are summed in pieces: one group, and a long group before a short one. */
START_TEST(long_groups_are_cut)
{
    static const dt__panel_shape shapes[] = {
        { 3, 32768, INT64_MAX, 8, 0, 0 },
        { 3, 32769, INT64_MAX, 8, 1, 0 },
        { 2, 70001, INT64_MAX, 4, 2, 0 },
        { 2, 90000, 40000, 8, 0, 0 },
    };
    dt_ctx *ctx = context(2);
    dt__stream s = dt__stream_of(5, DT__FOR_USER);
    for (int i = 0; i < DT__COUNT_OF(shapes); i++) {
        for (int how = RANDOM; how <= WORST_LOW; how++) {
            weight w = make(&shapes[i], 2, how, &s);
            check_product(ctx, &w, true);
            discard(&w);
        }
    }
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(same_bits_on_any_number_of_threads)
{
    static const int threads[] = { 2, 3, 4, 8 };
    static const dt__panel_shape shapes[] = { { 200, 320, 32, 4, 0, 5 },
                                              { 10, 1000, 128, 8, 1, 0 } };
    dt__stream s = dt__stream_of(9, DT__FOR_USER);
    for (int i = 0; i < DT__COUNT_OF(shapes); i++) {
        weight w = make(&shapes[i], 150, RANDOM, &s);
        const size_t bytes = (size_t)(w.m * w.layout.rows) * sizeof(float);
        float *one = malloc(bytes);
        dt_ctx *ctx = context(1);
        multiply(ctx, &w, true);
        dt_ctx_free(ctx);
        memcpy(one, w.y, bytes);
        for (int t = 0; t < DT__COUNT_OF(threads); t++) {
            ctx = context(threads[t]);
            multiply(ctx, &w, true);
            dt_ctx_free(ctx);
            ck_assert_mem_eq(one, w.y, bytes);
        }
        free(one);
        discard(&w);
    }
}
END_TEST

/* ---- the layout ----------------------------------------------------------------------------- */

START_TEST(unpacks_what_was_packed)
{
    dt__stream s = dt__stream_of(13, DT__FOR_USER);
    for (int round = 0; round < 200; round++) {
        const int64_t experts = round % 4 == 0 ? 1 + below(&s, 4) : 0;
        const dt__panel_shape shape = { (1 + below(&s, 80)) * dt__max_i64(1, experts),
                                        1 + below(&s, 300),
                                        groups[below(&s, DT__COUNT_OF(groups))],
                                        2 + round % 7,
                                        round % 3,
                                        experts };
        weight w = make(&shape, 1, RANDOM, &s);
        const dt__panel_layout *l = &w.layout;
        const int64_t blocks = l->rows * l->groups;
        dt__code_matrix back = { malloc((size_t)(l->rows * l->columns)), l->columns,
                                 malloc((size_t)blocks * sizeof(float)), l->groups };
        dt__panel_unpack(l, w.panels, &back);
        for (int64_t n = 0; n < l->rows; n++) {
            const int8_t *want = w.matrix.codes + n * w.matrix.ld;
            TEST_EACH(memcmp(back.codes + n * l->columns, want, (size_t)l->columns) == 0,
                      "row %lld of round %d", (long long)n, round);
        }
        ck_assert_mem_eq(back.scales, w.matrix.scales, (size_t)blocks * sizeof(float));
        free(back.codes);
        free(back.scales);
        discard(&w);
    }
}
END_TEST

/* Where each code lies, by the words of panels.h. */
START_TEST(bytes_lie_where_the_layout_says)
{
    dt__stream s = dt__stream_of(17, DT__FOR_USER);
    for (int bits = 4; bits <= 8; bits += 4) {
        const dt__panel_shape shape = { 45, 50, 24, bits, DT__SCALE_F32, 0 };
        weight w = make(&shape, 1, RANDOM, &s);
        ck_assert_uint_eq(w.layout.panel_bytes, 128 + (bits == 4 ? 128u : 256u) * 7 + 3 * 128);
        ck_assert_uint_eq(w.layout.bytes, 2 * w.layout.panel_bytes);
        for (int n = 0; n < 45; n++) {
            for (int k = 0; k < 50; k++) {
                const int lane = n % 32, i = k % 8;
                const size_t step = bits == 4 ? 128 : 256, half = step / 2;
                const uint8_t *at = (uint8_t *)w.panels + (size_t)(n / 32) * w.layout.panel_bytes +
                                    128 + (size_t)(k / 8) * step + (size_t)(k / 24) * 128 +
                                    (size_t)(lane / 16) * half + (size_t)(4 * (lane % 16) + i % 4);
                const int got = bits == 4 ? (int8_t)(i < 4 ? *at << 4 : *at & 0xf0) / 16
                                          : (int8_t)at[i < 4 ? 0 : 64];
                TEST_EACH(got == code(&w, n, k), "code [%d,%d] is %d", n, k, got);
            }
        }
        discard(&w);
    }
}
END_TEST

START_TEST(refuses_bad_shapes)
{
    static const dt__panel_shape bad[] = {
        { -1, 8, 8, 4, 0, 0 },
        { 8, -1, 8, 4, 0, 0 },
        { 8, 64, 0, 4, 0, 0 },
        { 8, 64, 12, 4, 0, 0 },
        { 8, 64, 32, 1, 0, 0 },
        { 8, 64, 32, 9, 0, 0 },
        { 8, 64, 32, 4, 3, 0 },
        { 8, 64, 32, 4, -1, 0 },
        { 8, 64, 32, 4, 0, 3 },
        { 8, 64, 32, 4, 0, -1 },
        { INT64_MAX, 8, 8, 4, 0, 0 },
        { INT64_C(1) << 40, INT64_C(1) << 40, 8, 4, 0, 0 },
        { INT64_C(1) << 33, INT64_C(1) << 31, 8, 8, 0, 0 },
    };
    dt__panel_layout l;
    for (int i = 0; i < DT__COUNT_OF(bad); i++) ck_assert(!dt__panel_layout_of(&bad[i], &l));
    ck_assert(dt__panel_layout_of(&(dt__panel_shape){ 8, 12, 12, 4, 0, 0 }, &l)); /* the row */
    ck_assert(dt__panel_layout_of(&(dt__panel_shape){ 0, 0, 32, 4, 0, 0 }, &l));
    ck_assert_uint_eq(l.bytes, 0);
}
END_TEST

/* One scale for all rows (granularity tensor), and extents of 0. */
START_TEST(one_scale_and_no_elements)
{
    dt_ctx *ctx = context(2);
    dt__stream s = dt__stream_of(19, DT__FOR_USER);
    const dt__panel_shape shape = { 40, 20, 20, 4, 0, 0 };
    weight w = make(&shape, 3, RANDOM, &s);
    w.matrix.scale_step = 0;
    dt__panel_pack(&w.layout, &w.matrix, w.panels);
    check_product(ctx, &w, true);
    w.m = 0;
    multiply(ctx, &w, true);
    discard(&w);
    const dt__panel_shape none = { 5, 0, 8, 4, 0, 0 };
    w = make(&none, 3, RANDOM, &s);
    check_product(ctx, &w, true);
    discard(&w);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- expand --------------------------------------------------------------------------------- */

START_TEST(tiles_expand_to_dequantized_values)
{
    dt_ctx *ctx = context(1);
    dt__stream s = dt__stream_of(23, DT__FOR_USER);
    for (int round = 0; round < 300; round++) {
        const int64_t experts = round % 4 == 0 ? 1 + below(&s, 4) : 0;
        const dt__panel_shape shape = { (1 + below(&s, 100)) * dt__max_i64(1, experts),
                                        1 + below(&s, 200),
                                        groups[below(&s, DT__COUNT_OF(groups))],
                                        2 + round % 7,
                                        round % 3,
                                        experts };
        weight w = make(&shape, 1, RANDOM, &s);
        const dt__panel_layout *l = &w.layout;
        int8_t *zero = malloc((size_t)(l->rows * l->groups));
        for (int64_t i = 0; i < l->rows * l->groups; i++) zero[i] = (int8_t)(below(&s, 256) - 128);
        dt__panel_tile t = { .layout = l, .panels = w.panels, .zero_step = l->groups };
        t.zero = round % 2 == 0 ? zero : NULL;
        t.n0 = below(&s, l->rows);
        t.n1 = t.n0 + below(&s, l->rows - t.n0 + 1);
        t.k0 = below(&s, l->columns);
        t.k1 = t.k0 + below(&s, l->columns - t.k0 + 1);
        t.ldy = t.k1 - t.k0 + 2;
        const int64_t count = (t.n1 - t.n0) * t.ldy;
        t.y = malloc((size_t)count * sizeof(float) + 1);
        for (int64_t i = 0; i < count; i++) t.y[i] = 77;
        dt__kernels_of(ctx, DT_F32)->expand(&t);
        for (int64_t i = 0; i < count; i++) {
            const int64_t n = t.n0 + i / t.ldy, k = t.k0 + i % t.ldy, g = k / l->group;
            const int z = t.zero == NULL || k >= t.k1 ? 0 : zero[n * l->groups + g];
            const float want = k < t.k1 ? (float)(code(&w, n, k) - z) * scale(&w, n, g) : 77;
            TEST_EACH(t.y[i] == want, "element %lld is %a", (long long)i, (double)t.y[i]);
        }
        free(t.y);
        free(zero);
        discard(&w);
    }
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(long_groups_expand)
{
    dt_ctx *ctx = context(1);
    dt__stream s = dt__stream_of(27, DT__FOR_USER);
    const dt__panel_shape shape = { 2, 70001, 40000, 4, 0, 0 };
    weight w = make(&shape, 1, RANDOM, &s);
    float *y = malloc(40000 * sizeof *y);
    dt__panel_tile t = { .layout = &w.layout, .panels = w.panels, .n0 = 1, .n1 = 2, .y = y };
    for (t.k0 = 30000; t.k0 < 70001; t.k0 += 13001) {
        t.k1 = dt__min_i64(t.k0 + 40000, 70001);
        t.ldy = t.k1 - t.k0;
        dt__kernels_of(ctx, DT_F32)->expand(&t);
        for (int64_t k = t.k0; k < t.k1; k++) {
            const float want = (float)code(&w, 1, k) * scale(&w, 1, k / 40000);
            TEST_EACH(y[k - t.k0] == want, "element %lld", (long long)k);
        }
    }
    free(y);
    discard(&w);
    dt_ctx_free(ctx);
}
END_TEST

/* 1 + (2^-24 + 2^-60) lies above the middle of two floats by less than a double can tell: a sum
 * that is rounded to double first goes down. */
START_TEST(sums_are_rounded_once)
{
    dt_ctx *ctx = context(1);
    const dt__panel_shape shape = { 1, 16, 8, 4, DT__SCALE_F32, 0 };
    dt__panel_layout layout;
    ck_assert(dt__panel_layout_of(&shape, &layout));
    int8_t codes[16] = { [0] = 1, [8] = 7, [9] = 7, [10] = 2, [11] = 1 };
    const uint8_t u[16] = { [0] = 1, [8] = 255, [9] = 255, [10] = 255, [11] = 17 };
    float scale[2] = { 1, 16773121 * 0x1p-60f }, y;
    void *panels = aligned_alloc(64, layout.bytes);
    ck_assert_ptr_nonnull(panels);
    dt__panel_pack(&layout, &(dt__code_matrix){ codes, 16, scale, 2 }, panels);
    const dt__qgemm g = { .layout = &layout,
                          .panels = panels,
                          .m = 1,
                          .u = u,
                          .ldu = 16,
                          .sx = &(const float){ 1 },
                          .zu = &(const int32_t){ 0 },
                          .y = &y,
                          .ldy = 1 };
    dt__kernels_of(ctx, DT_F32)->qd8_qb4_gemm(&g);
    ck_assert(y == 0x1.000002p0f);
    free(panels);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_panels_suite(void)
{
    Suite *suite = suite_create("panels");
    TCase *c = tcase_create("product");
    tcase_add_loop_test(c, equals_the_formula, 2, 9);
    tcase_add_test(c, sums_never_saturate);
    tcase_add_test(c, long_groups_are_cut);
    tcase_add_test(c, same_bits_on_any_number_of_threads);
    tcase_add_test(c, one_scale_and_no_elements);
    suite_add_tcase(suite, c);
    c = tcase_create("layout");
    tcase_add_test(c, unpacks_what_was_packed);
    tcase_add_test(c, bytes_lie_where_the_layout_says);
    tcase_add_test(c, refuses_bad_shapes);
    tcase_add_test(c, tiles_expand_to_dequantized_values);
    tcase_add_test(c, long_groups_expand);
    tcase_add_test(c, sums_are_rounded_once);
    suite_add_tcase(suite, c);
    return suite;
}
