/* The integer product of every instruction set against plain C, bit for bit, over random shapes,
 * groups, bits, scale dtypes and threads, and with the largest possible sums. test_panels.c
 * compares plain C with the formula. */
#include "taken_sets.h"

#include "core/text/half.h"

#include <stdlib.h>

/* One product's operands, and room for two results. */
typedef struct product {
    dt__panel_layout layout;
    dt__qgemm call;
    void *panels;
    uint8_t *u;
    int32_t *zu;
    float *sx, *bias, *block_scale;
    float *want, *got;
} product;

typedef struct shape {
    int64_t m, n, k, group;
    int bits, scale_dtype;
} shape;

enum { RANDOM, LOWEST, HIGHEST, ALTERNATING };

static int64_t below(dt__stream *s, int64_t n) { return (int64_t)dt__random_below(s, (uint64_t)n); }

static int8_t make_code(int bits, int how, int64_t k, dt__stream *s)
{
    const int qmin = -(1 << (bits - 1)), qmax = -qmin - 1;
    switch (how) {
    case LOWEST: return (int8_t)qmin;
    case HIGHEST: return (int8_t)qmax;
    case ALTERNATING: return (int8_t)(k / 2 % 2 == 0 ? qmin : qmax);
    default: return (int8_t)(qmin + below(s, 2 * -qmin));
    }
}

static float make_scale(int dtype, dt__stream *s)
{
    const float scale = (float)(dt__random_unit(s) - 0.3) * (below(s, 9) == 0 ? 100.0f : 0.1f);
    return dtype == DT__SCALE_F16    ? dt__round_f16(scale)
           : dtype == DT__SCALE_BF16 ? dt__round_bf16(scale)
                                     : scale;
}

static void *room(size_t bytes)
{
    void *p = aligned_alloc(64, bytes / 64 * 64 + 64);
    ck_assert_ptr_nonnull(p);
    memset(p, 0xff, bytes / 64 * 64 + 64);
    return p;
}

static void make_panels(product *p, int how, dt__stream *s)
{
    const dt__panel_layout *l = &p->layout;
    int8_t *codes = room((size_t)(l->rows * l->columns));
    float *scales = room((size_t)(l->rows * l->groups) * sizeof *scales);
    for (int64_t i = 0; i < l->rows * l->columns; i++) {
        codes[i] = make_code(l->bits, how, i % l->columns, s);
    }
    for (int64_t i = 0; i < l->rows * l->groups; i++) scales[i] = make_scale(l->scale_dtype, s);
    p->panels = room(l->bytes);
    dt__panel_pack(l, &(dt__code_matrix){ codes, l->columns, scales, l->groups }, p->panels);
    free(codes);
    free(scales);
}

/* Scales of blocks of activations. */
static float *blocks_of(product *p, dt__stream *s)
{
    const int64_t n = p->call.m * p->layout.groups;
    p->block_scale = room((size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; i++) p->block_scale[i] = (float)(0.001 + dt__random_unit(s));
    return p->block_scale;
}

static product make(const shape *h, int how, dt__stream *s)
{
    product p = { 0 };
    ck_assert(dt__panel_layout_of(
        &(dt__panel_shape){ h->n, h->k, h->group, h->bits, h->scale_dtype, 0 }, &p.layout));
    const int64_t ldu = p.layout.depth + below(s, 9), ldy = h->n + below(s, 3);
    make_panels(&p, how, s);
    p.u = room((size_t)(h->m * ldu));
    p.zu = room((size_t)h->m * sizeof *p.zu);
    p.sx = room((size_t)h->m * sizeof *p.sx);
    p.bias = room((size_t)h->n * sizeof *p.bias);
    p.want = room((size_t)(h->m * ldy) * sizeof *p.want);
    p.got = room((size_t)(h->m * ldy) * sizeof *p.got);
    for (int64_t i = 0; i < h->m * ldu; i++) {
        if (how == RANDOM) p.u[i] = (uint8_t)below(s, 256);
        else p.u[i] = i / ldu % 3 == 1 ? 0 : 255;
    }
    for (int64_t i = 0; i < h->m; i++) p.zu[i] = (int32_t)below(s, 256);
    for (int64_t i = 0; i < h->m; i++) p.sx[i] = (float)(0.001 + dt__random_unit(s));
    for (int64_t i = 0; i < h->n; i++) p.bias[i] = (float)(dt__random_unit(s) - 0.5);
    p.call = (dt__qgemm){ .layout = &p.layout,
                          .panels = p.panels,
                          .m = h->m,
                          .u = p.u,
                          .ldu = ldu,
                          .sx = p.sx,
                          .zu = p.zu,
                          .ldy = ldy };
    p.call.bias = below(s, 2) == 0 ? p.bias : NULL;
    if (p.layout.pieces_per_group == 1 && below(s, 3) == 0) p.call.block_scale = blocks_of(&p, s);
    return p;
}

static void discard(product *p)
{
    free(p->panels);
    free(p->u);
    free(p->zu);
    free(p->sx);
    free(p->bias);
    free(p->block_scale);
    free(p->want);
    free(p->got);
}

static void run(const product *p, const dt__kernel_set *set, float *y)
{
    dt__qgemm g = p->call;
    g.layout = &p->layout;
    g.y = y;
    memset(y, 0xff, (size_t)(g.m * g.ldy) * sizeof *y);
    if (p->layout.nibbles) set->f32->qd8_qb4_gemm(&g);
    else set->f32->qd8_qb8_gemm(&g);
}

/* Fills `got` with the team of a context of so many threads. */
static void run_on(int threads, product *p, const dt__kernel_set *set)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = threads;
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    dt__team *const before = dt__threads_enter(ctx);
    run(p, set, p->got);
    dt__threads_leave(before);
    dt_ctx_free(ctx);
}

/* Every set on 1 and 3 threads. */
static void compare(const shape *h, int how, dt__stream *s)
{
    product p = make(h, how, s);
    const size_t bytes = (size_t)(p.call.m * p.call.ldy) * sizeof(float);
    run(&p, dt__kernel_set_at(0), p.want);
    const dt__kernel_set *set;
    for (int i = 1; (set = dt__kernel_set_at(i)) != NULL; i++) {
        if (!test_takes_set(set)) continue;
        for (int t = 1; t <= 3; t += 2) {
            run_on(t, &p, set);
            TEST_EACH(memcmp(p.want, p.got, bytes) == 0,
                      "%s, %d threads: m %lld n %lld k %lld group %lld bits %d scales %d",
                      set->name, t, (long long)h->m, (long long)h->n, (long long)h->k,
                      (long long)h->group, h->bits, h->scale_dtype);
        }
    }
    discard(&p);
}

static const int64_t groups[] = { 8, 24, 32, 40, 64, 128, 256, 264, 512, INT64_MAX };

/* Every number of rows that a tile, or a mix of tiles, may have. */
START_TEST(every_number_of_rows)
{
    dt__stream s = dt__stream_of((uint64_t)_i, DT__FOR_USER);
    for (int64_t m = 1; m <= 34; m++) {
        const shape h = {
            m,  1 + below(&s, 70), 1 + below(&s, 400), groups[below(&s, DT__COUNT_OF(groups))],
            _i, (int)below(&s, 3)
        };
        compare(&h, RANDOM, &s);
    }
}
END_TEST

START_TEST(every_group_and_scale_dtype)
{
    dt__stream s = dt__stream_of(100 + (uint64_t)_i, DT__FOR_USER);
    for (int g = 0; g < DT__COUNT_OF(groups); g++) {
        for (int dtype = DT__SCALE_F32; dtype <= DT__SCALE_BF16; dtype++) {
            const shape few = {
                1 + below(&s, 5), 1 + below(&s, 100), 1 + below(&s, 1200), groups[g], _i, dtype
            };
            compare(&few, RANDOM, &s);
            const shape many = {
                16 + below(&s, 40), 32 + below(&s, 40), 1 + below(&s, 700), groups[g], _i, dtype
            };
            compare(&many, RANDOM, &s);
        }
    }
}
END_TEST

/* More rows than a chunk has, and enough work for threads. */
START_TEST(many_rows)
{
    static const shape shapes[] = {
        { 97, 64, 520, 32, 4, 0 },    { 200, 100, 256, 128, 4, 1 }, { 193, 40, 300, 64, 8, 2 },
        { 512, 32, 200, 1000, 4, 0 }, { 150, 33, 777, 1000, 6, 0 }, { 2, 2000, 600, 32, 4, 2 },
    };
    dt__stream s = dt__stream_of(3, DT__FOR_USER);
    for (int i = 0; i < DT__COUNT_OF(shapes); i++) compare(&shapes[i], RANDOM, &s);
}
END_TEST

/* Activations of 0 and 255 against the lowest and the highest codes. */
START_TEST(sums_as_large_as_can_be)
{
    static const int64_t rows[] = { 1, 2, 3, 7, 13, 20 };
    dt__stream s = dt__stream_of(7, DT__FOR_USER);
    for (int bits = 2; bits <= 8; bits++) {
        for (int how = LOWEST; how <= ALTERNATING; how++) {
            for (int i = 0; i < DT__COUNT_OF(rows); i++) {
                const shape h = { rows[i], 33,   1000, groups[(bits + i) % DT__COUNT_OF(groups)],
                                  bits,    i % 3 };
                compare(&h, how, &s);
            }
        }
    }
}
END_TEST

/* Groups longer than a piece of 32768. */
START_TEST(long_groups)
{
    static const shape shapes[] = {
        { 1, 3, 32768, INT64_MAX, 4, 0 },  { 3, 3, 32769, INT64_MAX, 8, 1 },
        { 17, 2, 70001, INT64_MAX, 4, 2 }, { 17, 2, 70001, 40000, 8, 0 },
        { 2, 2, 90000, 40000, 3, 0 },
    };
    dt__stream s = dt__stream_of(11, DT__FOR_USER);
    for (int i = 0; i < DT__COUNT_OF(shapes); i++) {
        for (int how = RANDOM; how <= HIGHEST; how++) compare(&shapes[i], how, &s);
    }
}
END_TEST

START_TEST(no_elements)
{
    static const shape shapes[] = { { 0, 5, 40, 8, 4, 0 },
                                    { 3, 0, 40, 8, 4, 0 },
                                    { 3, 5, 0, 8, 8, 0 } };
    dt__stream s = dt__stream_of(13, DT__FOR_USER);
    for (int i = 0; i < DT__COUNT_OF(shapes); i++) compare(&shapes[i], RANDOM, &s);
}
END_TEST

Suite *test_qgemm_suite(void)
{
    Suite *suite = suite_create("qgemm");
    TCase *c = tcase_create("every set equals plain C");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, every_number_of_rows, 2, 9);
    tcase_add_loop_test(c, every_group_and_scale_dtype, 2, 9);
    tcase_add_test(c, many_rows);
    tcase_add_test(c, sums_as_large_as_can_be);
    tcase_add_test(c, long_groups);
    tcase_add_test(c, no_elements);
    suite_add_tcase(suite, c);
    return suite;
}
