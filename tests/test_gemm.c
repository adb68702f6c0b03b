/* The fp32 and fp64 product: the bits of a plain triple loop in the stated order, over transposes,
 * leading dimensions, accumulation, zero extents, and operands that are filled block by block; its
 * tile grid; equal bits on any number of threads. */
#include "testing.h"

#include "kernels/products/blas_library.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>

typedef struct shape {
    int64_t m, n, k, pad;
} shape;

/* What the random matrices of one product are made of. */
typedef struct product {
    dt_dtype dtype;
    shape s;
    bool trans_a, trans_b, accumulate;
    void *a, *b, *c, *c0;
    int64_t a_count, b_count, c_count;
    dt__gemm g;
} product;

static double get(dt_dtype dtype, const void *x, int64_t i)
{
    return dtype == DT_F64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static void *random_matrix(dt_dtype dtype, int64_t count, dt__stream *stream)
{
    void *x = malloc(dt_dtype_size(dtype) * (size_t)(count + 1));
    for (int64_t i = 0; i < count; i++) {
        const double v = 2 * dt__random_unit(stream) - 1;
        if (dtype == DT_F64) {
            ((double *)x)[i] = v;
        } else {
            ((float *)x)[i] = (float)v;
        }
    }
    return x;
}

static product make(dt_dtype dtype, shape s, int form, dt__stream *stream)
{
    product p = { .dtype = dtype, .s = s };
    p.trans_a = form & 1;
    p.trans_b = form & 2;
    p.accumulate = form & 4;
    const int64_t lda = (p.trans_a ? s.m : s.k) + s.pad, ldb = (p.trans_b ? s.k : s.n) + s.pad;
    const int64_t ldc = s.n + s.pad;
    p.a_count = (p.trans_a ? s.k : s.m) * lda;
    p.b_count = (p.trans_b ? s.n : s.k) * ldb;
    p.c_count = s.m * ldc;
    p.a = random_matrix(dtype, p.a_count, stream);
    p.b = random_matrix(dtype, p.b_count, stream);
    p.c = random_matrix(dtype, p.c_count, stream);
    const size_t bytes = dt_dtype_size(dtype) * (size_t)p.c_count;
    p.c0 = malloc(bytes + 1);
    memcpy(p.c0, p.c, bytes);
    p.g = (dt__gemm){ .trans_a = p.trans_a,
                      .trans_b = p.trans_b,
                      .m = s.m,
                      .n = s.n,
                      .k = s.k,
                      .a = p.a,
                      .lda = lda,
                      .b = p.b,
                      .ldb = ldb,
                      .accumulate = p.accumulate,
                      .c = p.c,
                      .ldc = ldc };
    return p;
}

/* An operand of a product as a source; ld and dtype as in the product. */
typedef struct store {
    dt_dtype dtype;
    const void *x;
    int64_t ld;
} store;

static void fill_from_store(const void *from, const dt__patch *b)
{
    const store *s = from;
    const size_t size = dt_dtype_size(s->dtype);
    for (int64_t r = b->r0; r < b->r1; r++) {
        memcpy((char *)b->y + (size_t)((r - b->r0) * b->ldy) * size,
               (const char *)s->x + (size_t)(r * s->ld + b->c0) * size,
               (size_t)(b->c1 - b->c0) * size);
    }
}

/* The same product with its operands given as sources. */
typedef struct filled {
    store a, b;
    dt__source a_source, b_source;
    dt__gemm g;
} filled;

static void fill(const product *p, int which, filled *f)
{
    f->a = (store){ p->dtype, p->a, p->g.lda };
    f->b = (store){ p->dtype, p->b, p->g.ldb };
    f->a_source = (dt__source){ fill_from_store, &f->a };
    f->b_source = (dt__source){ fill_from_store, &f->b };
    f->g = p->g;
    if (which & 1) f->g.a_source = &f->a_source;
    if (which & 1) f->g.a = NULL;
    if (which & 2) f->g.b_source = &f->b_source;
    if (which & 2) f->g.b = NULL;
}

static void discard(product *p)
{
    free(p->a);
    free(p->b);
    free(p->c);
    free(p->c0);
}

/* Element (i, j) in the stated order. Row i of a, and column j of b, have a step between terms. */
static double element(const product *p, int64_t i, int64_t j)
{
    const dt__gemm *g = &p->g;
    const int64_t step = g->trans_a ? g->lda : 1, next = g->trans_b ? 1 : g->ldb;
    const int64_t at = g->trans_a ? i : i * g->lda, by = g->trans_b ? j * g->ldb : j;
    const double c = g->accumulate ? get(p->dtype, p->c0, i * g->ldc + j) : 0;
    if (p->dtype == DT_F64) {
        const double *a = (const double *)p->a + at, *b = (const double *)p->b + by;
        double sum = c;
        for (int64_t k = 0; k < g->k; k++) sum += a[k * step] * b[k * next];
        return sum;
    }
    const float *a = (const float *)p->a + at, *b = (const float *)p->b + by;
    float sum = (float)c;
    for (int64_t k = 0; k < g->k; k++) sum = fmaf(a[k * step], b[k * next], sum);
    return (double)sum;
}

/* One of so many elements of c is computed again. */
static const test_draws element_steps = { .usual = 1, .sanitized = 13 };

/* Elements of c, and those between rows, which must not change. */
static void check(const product *p)
{
    const dt__gemm *g = &p->g;
    const int64_t step = p->c_count > 1000 ? test_count(element_steps) : 1;
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t j = i % step; j < g->ldc; j += step) {
            const int64_t at = i * g->ldc + j;
            const double want = j < g->n ? element(p, i, j) : get(p->dtype, p->c0, at);
            const double got = get(p->dtype, p->c, at);
            TEST_EACH(got == want, "c[%lld,%lld] = %.9g, not %.9g", (long long)i, (long long)j, got,
                      want);
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

/* Runs the product with exactly the requested scratch memory. */
static void run(dt_ctx *ctx, dt_dtype dtype, const dt__gemm *g)
{
    dt__gemm here = *g;
    here.scratch = malloc(dt__gemm_scratch(g, dt_dtype_size(dtype), dt_threads(ctx)) + 1);
    ck_assert_ptr_nonnull(here.scratch);
    dt__team *const before = dt__threads_enter(ctx);
    dt__kernels_of(ctx, dtype)->gemm(&here);
    dt__threads_leave(before);
    free(here.scratch);
}

static const shape shapes[] = {
    { 1, 1, 1, 0 },   { 1, 7, 5, 3 },      { 5, 1, 9, 1 },      { 3, 4, 0, 2 },
    { 0, 4, 3, 0 },   { 4, 0, 3, 1 },      { 17, 31, 13, 5 },   { 64, 64, 64, 0 },
    { 65, 63, 1, 0 }, { 129, 257, 70, 0 }, { 300, 150, 60, 7 },
};

/* One of so many shapes is tried; the others with other transpositions. */
static const test_draws shape_steps = { .usual = 1, .quick = 2, .sanitized = 4 };
static const test_draws which_steps = { .usual = 1,
                                        .sanitized = 3 }; /* of operands from a source */

START_TEST(equals_a_triple_loop)
{
    dt_ctx *ctx = context(2);
    dt__stream stream = dt__stream_of(7, DT__FOR_USER);
    const dt_dtype dtype = _i % 2 == 0 ? DT_F32 : DT_F64;
    const int64_t step = test_count(shape_steps);
    for (int64_t s = _i / 2 % step; s < DT__COUNT_OF(shapes); s += step) {
        product p = make(dtype, shapes[s], _i / 2, &stream);
        run(ctx, dtype, &p.g);
        check(&p);
        discard(&p);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Operands that a source fills block by block: one tile, several tiles, and many steps. */
START_TEST(sources_fill_operands_block_by_block)
{
    static const shape more[] = { { 70, 600, 300, 3 }, { 600, 70, 300, 0 }, { 3, 5, 7000, 1 } };
    dt_ctx *ctx = context(2);
    dt__stream stream = dt__stream_of(17, DT__FOR_USER);
    const dt_dtype dtype = _i % 2 == 0 ? DT_F32 : DT_F64;
    const int64_t step = test_count(shape_steps);
    for (int64_t s = _i / 2 % step; s < DT__COUNT_OF(shapes) + DT__COUNT_OF(more); s += step) {
        const bool usual = s < DT__COUNT_OF(shapes);
        const int64_t by = test_count(which_steps);
        for (int64_t which = 1 + (_i / 2 + s / step) % by; which < 4; which += by) {
            product p =
                make(dtype, usual ? shapes[s] : more[s - DT__COUNT_OF(shapes)], _i / 2, &stream);
            filled f;
            fill(&p, (int)which, &f);
            run(ctx, dtype, &f.g);
            check(&p);
            discard(&p);
        }
    }
    dt_ctx_free(ctx);
}
END_TEST

static const shape large[] = {
    { 256, 256, 64, 0 }, { 64, 1024, 100, 0 }, { 1000, 70, 65, 1 },
    { 333, 333, 77, 0 }, { 1, 3000, 900, 0 },  { 600, 10, 130, 0 },
    { 10, 130, 600, 0 }, { 64, 700, 700, 0 },  { 700, 1100, 64, 0 },
};
static const int threads[] = { 2, 3, 4, 8 };
static const test_draws thread_steps = { .usual = 1, .sanitized = 3 }; /* one number of as many */

START_TEST(same_bits_on_any_number_of_threads)
{
    const dt_dtype dtype = _i == 0 ? DT_F32 : DT_F64;
    dt__stream stream = dt__stream_of(11, DT__FOR_USER);
    for (int s = 0; s < DT__COUNT_OF(large); s++) {
        product p = make(dtype, large[s], s % 8, &stream);
        const size_t bytes = dt_dtype_size(dtype) * (size_t)p.c_count;
        void *one = malloc(bytes);
        dt_ctx *ctx = context(1);
        run(ctx, dtype, &p.g);
        dt_ctx_free(ctx);
        memcpy(one, p.c, bytes);
        for (int64_t t = 0; t < DT__COUNT_OF(threads); t += test_count(thread_steps)) {
            memcpy(p.c, p.c0, bytes);
            ctx = context(threads[t]);
            run(ctx, dtype, &p.g);
            dt_ctx_free(ctx);
            ck_assert_mem_eq(one, p.c, bytes);
        }
        free(one);
        discard(&p);
    }
}
END_TEST

START_TEST(sources_give_the_same_bits_on_any_number_of_threads)
{
    dt__stream stream = dt__stream_of(19, DT__FOR_USER);
    for (int s = 0; s < DT__COUNT_OF(large); s++) {
        product p = make(DT_F32, large[s], s % 8, &stream);
        const size_t bytes = sizeof(float) * (size_t)p.c_count;
        void *one = malloc(bytes);
        for (int64_t t = -1; t < DT__COUNT_OF(threads); t += test_count(thread_steps)) {
            const int count = t < 0 ? 1 : threads[t];
            dt_ctx *ctx = context(count);
            filled f;
            fill(&p, _i, &f);
            memcpy(p.c, p.c0, bytes);
            run(ctx, DT_F32, &f.g);
            if (t < 0) memcpy(one, p.c, bytes);
            ck_assert_mem_eq(one, p.c, bytes);
            dt_ctx_free(ctx);
        }
        free(one);
        discard(&p);
    }
}
END_TEST

/* A row of a that is read for both rows of c. */
START_TEST(rows_may_overlap)
{
    dt_ctx *ctx = context(2);
    const float a[3] = { 1, 2, 3 }, b[6] = { 1, 0, 0, 1, 1, 1 };
    float c[4] = { 9, 9, 9, 9 };
    const dt__gemm g = {
        .m = 2, .n = 2, .k = 3, .a = a, .lda = 0, .b = b, .ldb = 2, .c = c, .ldc = 2
    };
    run(ctx, DT_F32, &g);
    const float want[4] = { 4, 5, 4, 5 };
    ck_assert_mem_eq(c, want, sizeof c);
    dt_ctx_free(ctx);
}
END_TEST

/* A sink that adds a patch to a matrix of zeros: each element must arrive once. */
typedef struct drain {
    float *y;
    int64_t ldy;
} drain;

static void add_patch(void *to, const dt__patch *b)
{
    const drain *d = to;
    for (int64_t r = b->r0; r < b->r1; r++) {
        const float *from = (const float *)b->y + (r - b->r0) * b->ldy;
        for (int64_t c = b->c0; c < b->c1; c++) d->y[r * d->ldy + c] += from[c - b->c0];
    }
}

START_TEST(sinks_take_every_element_once)
{
    static const shape some[] = { { 3, 5, 2, 0 }, { 300, 70, 40, 0 }, { 20, 1100, 1500, 0 } };
    dt_ctx *ctx = context(_i);
    dt__stream stream = dt__stream_of(23, DT__FOR_USER);
    for (int s = 0; s < DT__COUNT_OF(some); s++) {
        product p = make(DT_F32, some[s], 2, &stream);
        float *bias = random_matrix(DT_F32, p.s.n, &stream);
        drain to = { calloc((size_t)p.c_count, sizeof(float)), p.g.ldc };
        const dt__sink sink = { add_patch, &to };
        p.g.bias = bias;
        p.g.c_sink = &sink;
        p.g.c = NULL;
        run(ctx, DT_F32, &p.g);
        const int64_t step = p.c_count > 1000 ? test_count(element_steps) : 1;
        for (int64_t i = s; i < p.c_count; i += step) {
            const float want = (float)element(&p, i / p.s.n, i % p.s.n) + bias[i % p.s.n];
            TEST_EACH(to.y[i] == want, "element %lld: %g, not %g", (long long)i, to.y[i], want);
        }
        free(to.y);
        free(bias);
        discard(&p);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Tiles cover c exactly once; there are at most as many as threads but for a sink's; a product
 * that takes microseconds is one. */
static void check_grid(const dt__gemm *g, int n_threads)
{
    const dt__gemm_grid grid = dt__gemm_grid_of(g, n_threads);
    const int64_t down = dt__ceil_div(g->m, grid.rows);
    const bool small = g->alone || 2 * g->m * g->n * g->k < 1000000, sinks = g->c_sink != NULL;
    TEST_EACH(grid.tiles == down * grid.across && grid.across == dt__ceil_div(g->n, grid.columns) &&
                  grid.tiles >= 1 && (sinks || grid.tiles <= (small ? 1 : n_threads)) &&
                  (grid.across == 1 || grid.columns % DT__GEMM_PANEL == 0) &&
                  (!sinks || grid.columns <= DT__GEMM_SUNK),
              "%lld x %lld x %lld: %lld tiles of %lld x %lld", (long long)g->m, (long long)g->n,
              (long long)g->k, (long long)grid.tiles, (long long)grid.rows,
              (long long)grid.columns);
}

START_TEST(the_grid_covers_the_product)
{
    const dt__sink sink = { NULL, NULL };
    const int thread_step = (int)test_count(thread_steps);
    for (int64_t m = 1; m < 3000; m = m * 5 / 3 + 1) {
        for (int64_t n = 1; n < 3000; n = n * 5 / 3 + 1) {
            for (int64_t k = 1; k < 3000; k = k * 3 + 1) {
                for (int t = 0; t < DT__COUNT_OF(threads); t += thread_step) {
                    dt__gemm g = { .m = m, .n = n, .k = k };
                    check_grid(&g, threads[t]);
                    g.alone = true;
                    check_grid(&g, threads[t]);
                    g.c_sink = &sink;
                    g.alone = false;
                    check_grid(&g, threads[t]);
                }
            }
        }
    }
}
END_TEST

START_TEST(copies_any_strides)
{
    dt_ctx *ctx = context(2);
    const dt__kernels *kernels = dt__kernels_of(ctx, DT_F32);
    enum { A = 31, B = 37, C = 41 };
    static float x[A * B * C], y[A * B * C];
    for (int i = 0; i < A * B * C; i++) x[i] = (float)i;
    dt__copy c = { 3, { C, A, B }, x, { 1, B * C, C }, y, { A * B, B, 1 } };
    kernels->copy(&c);
    for (int i = 0; i < C * A * B; i++) {
        const int b = i % B, a = i / B % A, k = i / (A * B);
        TEST_EACH(y[i] == x[(a * B + b) * C + k], "element %d", i);
    }
    dt__copy back = { 2, { 2, 3 }, x + 5, { 0, -1 }, y, { 3, 1 } }; /* broadcast, reversed */
    kernels->copy(&back);
    const float want[6] = { 5, 4, 3, 5, 4, 3 };
    ck_assert_mem_eq(y, want, sizeof want);
    dt__copy scalar = { .rank = 0, .x = x + 7, .y = y };
    kernels->copy(&scalar);
    ck_assert(y[0] == 7);
    dt__copy empty = { 2, { 0, 3 }, NULL, { 3, 1 }, NULL, { 3, 1 } };
    kernels->copy(&empty);
    const uint16_t from[4] = { 1, 2, 3, 4 };
    uint16_t to[4];
    dt__copy half = { 2, { 2, 2 }, from, { 1, 2 }, to, { 2, 1 } };
    dt__copy_bytes(&half, 2);
    ck_assert(to[0] == 1 && to[1] == 3 && to[2] == 2 && to[3] == 4);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(fills_and_adds)
{
    dt_ctx *ctx = context(2);
    const int64_t n = 40001;
    double *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y);
    const dt__kernels *kernels = dt__kernels_of(ctx, DT_F64);
    kernels->fill(n, 0.1, x);
    kernels->fill(n, 2, y);
    kernels->add_into(n, x, y);
    for (int64_t i = 0; i < n; i++) TEST_EACH(x[i] == 0.1 && y[i] == 2.1, "%lld", (long long)i);
    free(x);
    free(y);
    dt_ctx_free(ctx);
}
END_TEST

/* OpenBLAS runs on one thread, unless the caller asks otherwise, so that there is only one pool of
 * threads. */
START_TEST(openblas_has_one_thread)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.leave_blas_threads = true;
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    TEST_OK(ctx, dt__blas_load(ctx));
    dt__blas.openblas_set_num_threads(2);
    TEST_OK(ctx, dt__blas_load(ctx));
    ck_assert_int_eq(dt__blas.openblas_get_num_threads(), 2);
    dt_ctx_free(ctx);
    ctx = context(2);
    TEST_OK(ctx, dt__blas_load(ctx));
    ck_assert_int_eq(dt__blas.openblas_get_num_threads(), 1);
    dt_ctx_free(ctx);
}
END_TEST

/* If OpenBLAS would search for memory forever, loading it fails at once. */
START_TEST(no_room_for_blas)
{
    if (!test_malloc_can_fail()) return; /* sanitizers map terabytes */
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = 1000; /* 126 GiB of buffers */
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = (rlim_t)(SIZE_MAX > UINT32_MAX ? UINT64_C(64) << 30 : UINT32_MAX);
    const int limited = setrlimit(RLIMIT_AS, &limit);
    const dt_status status = dt__blas_load(ctx);
    limit.rlim_cur = before;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    ck_assert_int_eq(limited, 0);
    ck_assert_int_eq(status, DT_ERR_NOMEM);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "OpenBLAS"));
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_gemm_suite(void)
{
    Suite *suite = suite_create("gemm");
    TCase *c = tcase_create("gemm");
    tcase_add_loop_test(c, equals_a_triple_loop, 0, 16);
    tcase_add_loop_test(c, sources_fill_operands_block_by_block, 0, 16);
    tcase_add_loop_test(c, same_bits_on_any_number_of_threads, 0, 2);
    tcase_add_loop_test(c, sources_give_the_same_bits_on_any_number_of_threads, 1, 4);
    tcase_add_test(c, rows_may_overlap);
    tcase_add_loop_test(c, sinks_take_every_element_once, 1, 4);
    tcase_add_test(c, the_grid_covers_the_product);
    tcase_add_test(c, openblas_has_one_thread);
    tcase_add_test(c, copies_any_strides);
    tcase_add_test(c, fills_and_adds);
    tcase_add_test(c, no_room_for_blas);
    suite_add_tcase(suite, c);
    return suite;
}
