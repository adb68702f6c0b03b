/* Products and convolutions of bf16 (dt_set_products): the bits of the formula, which is computed
 * once more here; the same bits of every set and number of threads; gradients; passes that do not
 * record stay f32. */
#include "testing.h"

#include "autograd/op.h"
#include "autograd/tape.h"
#include "kernels/sets.h"

#include <detent/ops.h>
#include <detent/experimental/nn.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the formula ----------------------------------------------------------------------------- */

static float flushed(float x) { return fabsf(x) < 0x1p-126F ? copysignf(0, x) : x; }

/* Rounds x to 8 significant bits, by arithmetic instead of bits. */
static float rounded(float x)
{
    int exponent;
    if (!isfinite(x) || flushed(x) == 0) return flushed(x);
    const double unit = ldexp(1, (frexp((double)x, &exponent), exponent - 8));
    return (float)(nearbyint((double)x / unit) * unit);
}

static float fused(float a, float b, float c) { return flushed(fmaf(a, b, c)); }

static float added(float a, float b) { return flushed(flushed(a) + flushed(b)); }

/* A sum in progress: of terms one after the other, or by matrix tiles, which add 32 of them at
 * once: the sum of those at even places and that of those at odd places. */
typedef struct total {
    bool tiles;
    float sum, part[2];
    int terms;
} total;

static void add_term(total *t, float a, float b)
{
    float *to = t->tiles ? &t->part[t->terms % 2] : &t->sum;
    *to = fused(rounded(a), rounded(b), *to);
    t->terms++;
    if (!t->tiles || t->terms < 32) return;
    *t = (total){ .tiles = true, .sum = added(t->sum, added(t->part[0], t->part[1])) };
}

static float sum_of(total *t)
{
    while (t->tiles && t->terms > 0) add_term(t, 0, 0);
    return t->sum;
}

static const int choices[] = { DT_PRODUCTS_BF16, DT_PRODUCTS_BF16_TILES };

static float next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)((double)(*state >> 40) / 8388608 - 1);
}

static float *numbers(int64_t n, uint64_t *state)
{
    float *x = malloc((size_t)(n + 1) * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = next(state);
    return x;
}

static dt_ctx *context(int threads, uint64_t mask)
{
    dt_ctx *ctx;
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = threads;
    o.cpu_mask = mask;
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    TEST_OK(ctx, dt__kernels_open(ctx));
    return ctx;
}

/* ---- products -------------------------------------------------------------------------------- */

static void multiply(dt_ctx *ctx, bool tiles, dt__gemm g)
{
    const dt__kernels *k = dt__kernels_of(ctx, DT_F32);
    g.scratch = malloc(dt__gemm_scratch(&g, sizeof(float), dt_threads(ctx)) + 1);
    dt__team *const before = dt__threads_enter(ctx);
    (tiles ? k->gemm_tiles : k->gemm_bf16)(&g);
    dt__threads_leave(before);
    free(g.scratch);
}

static void check_product(const dt__gemm *g, bool tiles, const float *c0)
{
    const float *a = g->a, *b = g->b, *c = g->c;
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t j = 0; j < g->n; j++) {
            total t = { tiles, g->accumulate ? flushed(c0[i * g->ldc + j]) : 0, { 0 }, 0 };
            for (int64_t k = 0; k < g->k; k++) {
                add_term(&t, a[g->trans_a ? k * g->lda + i : i * g->lda + k],
                         b[g->trans_b ? j * g->ldb + k : k * g->ldb + j]);
            }
            const float sum = sum_of(&t);
            TEST_EACH(sum == c[i * g->ldc + j], "c[%lld,%lld] = %.9g, not %.9g", (long long)i,
                      (long long)j, (double)c[i * g->ldc + j], (double)sum);
        }
    }
}

static const int64_t extents[][3] = { { 1, 1, 1 },    { 5, 7, 3 },    { 17, 33, 13 },
                                      { 3, 40, 300 }, { 29, 64, 64 }, { 40, 31, 1027 },
                                      { 70, 65, 5 },  { 2, 3, 2049 } };

enum { TRANS_A = 1, TRANS_B = 2, ACCUMULATE = 4, BY_TILES = 8, FORMS = 16 };

START_TEST(a_product_has_the_bits_of_the_formula)
{
    uint64_t state = (uint64_t)_i;
    dt_ctx *ctx = context(2, UINT64_MAX);
    for (int s = 0; s < DT__COUNT_OF(extents); s++) {
        dt__gemm g = { .trans_a = _i & TRANS_A, .trans_b = _i & TRANS_B };
        g.accumulate = _i & ACCUMULATE;
        g.m = extents[s][0];
        g.n = extents[s][1];
        g.k = extents[s][2];
        g.lda = (g.trans_a ? g.m : g.k) + s % 3;
        g.ldb = (g.trans_b ? g.k : g.n) + s % 2;
        g.ldc = g.n + s % 4;
        float *a = numbers((g.trans_a ? g.k : g.m) * g.lda, &state);
        float *b = numbers((g.trans_b ? g.n : g.k) * g.ldb, &state);
        float *c = numbers(g.m * g.ldc, &state), *c0 = malloc((size_t)(g.m * g.ldc) * sizeof *c0);
        memcpy(c0, c, (size_t)(g.m * g.ldc) * sizeof *c0);
        g.a = a;
        g.b = b;
        g.c = c;
        multiply(ctx, _i & BY_TILES, g);
        check_product(&g, _i & BY_TILES, c0);
        free(a);
        free(b);
        free(c);
        free(c0);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* ---- blocks, sources and sinks --------------------------------------------------------------- */

typedef struct matrix {
    float *x;
    int64_t ld;
} matrix;

static void fill(const void *from, const dt__patch *p)
{
    const matrix *m = from;
    for (int64_t r = p->r0; r < p->r1; r++) {
        memcpy((float *)p->y + (r - p->r0) * p->ldy, m->x + r * m->ld + p->c0,
               (size_t)(p->c1 - p->c0) * sizeof(float));
    }
}

static void take(void *to, const dt__patch *p)
{
    const matrix *m = to;
    for (int64_t r = p->r0; r < p->r1; r++) {
        memcpy(m->x + r * m->ld + p->c0, (const float *)p->y + (r - p->r0) * p->ldy,
               (size_t)(p->c1 - p->c0) * sizeof(float));
    }
}

/* More rows, terms and columns than are packed at once: compares with the plain kernels compiled
 * for AVX2, with operands and result in memory and as sources and sinks. */
START_TEST(blocks_and_sources_have_the_same_bits)
{
    enum { M = 1060, N = 150, K = 530 };
    uint64_t state = (uint64_t)_i;
    const bool trans_a = _i & TRANS_A, trans_b = _i & TRANS_B, tiles = _i & BY_TILES;
    const matrix a = { numbers(M * K, &state), trans_a ? M : K };
    const matrix b = { numbers(N * K, &state), trans_b ? K : N };
    float *const bias = numbers(N, &state), *const c[] = { numbers(M * N, &state),
                                                           numbers(M * N, &state),
                                                           numbers(M * N, &state) };
    dt__gemm g = { .trans_a = trans_a, .trans_b = trans_b, .m = M, .n = N, .k = K, .bias = bias };
    g.a = a.x;
    g.lda = a.ld;
    g.b = b.x;
    g.ldb = b.ld;
    g.ldc = N;
    const uint64_t masks[] = { UINT64_MAX, DT_CPU_AVX2 };
    for (int i = 0; i < 2; i++) {
        dt_ctx *ctx = context(1 + i, masks[i]);
        g.c = c[i];
        multiply(ctx, tiles, g);
        dt_ctx_free(ctx);
    }
    const dt__source a_source = { fill, &a }, b_source = { fill, &b };
    matrix to = { c[2], N };
    const dt__sink sink = { take, &to };
    dt_ctx *ctx = context(2, UINT64_MAX);
    g.a = g.b = g.c = NULL;
    g.a_source = &a_source;
    g.b_source = &b_source;
    g.c_sink = &sink;
    multiply(ctx, tiles, g);
    dt_ctx_free(ctx);
    for (int i = 1; i < 3; i++) ck_assert_mem_eq(c[0], c[i], M * N * sizeof(float));
    for (int i = 0; i < 3; i++) free(c[i]);
    free(a.x);
    free(b.x);
    free(bias);
}
END_TEST

/* Sums around the smallest normal number, where the processor flushes what rounds to less. */
START_TEST(sums_that_are_denormal_are_flushed)
{
    static const float values[][4] = {
        /* a, b, c: c + a b, and the result */
        { 0x1p-100F, 0x1p-26F, 0, 0x1p-126F },
        { 0x1p-100F, 0x1p-27F, 0, 0 },
        { 0x1p-100F, -0x1p-27F, 0x1p-126F, 0 },
        { 0x1p-100F, -0x1p-27F, 0x1.8p-126F, 0x1p-126F },
        { 0x1p-130F, 1, 1, 1 },
        { -0x1p-90F, 0x1p-62F, 0x1p-126F, 0x1p-126F },
        { 1, 0, 0x1p-127F, 0 },
    };
    static const uint64_t masks[] = { DT_CPU_PLAIN, DT_CPU_AVX2, UINT64_MAX };
    for (int m = 0; m < DT__COUNT_OF(masks); m++) {
        dt_ctx *ctx = context(1, masks[m]);
        for (int i = 0; i < DT__COUNT_OF(values); i++) {
            float c = values[i][2];
            const dt__gemm g = { .m = 1,
                                 .n = 1,
                                 .k = 1,
                                 .a = &values[i][0],
                                 .lda = 1,
                                 .b = &values[i][1],
                                 .ldb = 1,
                                 .accumulate = true,
                                 .c = &c,
                                 .ldc = 1 };
            float by_tiles = c;
            multiply(ctx, false, g);
            dt__gemm t = g;
            t.c = &by_tiles;
            multiply(ctx, true, t);
            const float ab = fused(rounded(values[i][0]), rounded(values[i][1]), 0);
            ck_assert_msg(by_tiles == added(values[i][2], ab), "%d: %a", i, (double)by_tiles);
            ck_assert_msg(c == values[i][3], "%d: %a, not %a", i, (double)c, (double)values[i][3]);
        }
        dt_ctx_free(ctx);
    }
}
END_TEST

/* ---- convolutions ---------------------------------------------------------------------------- */

enum { X, Y, W };

typedef struct problem {
    dt__conv conv;
    int64_t count[3];
    float *in[3], *made[4], *bias; /* made: x, y, w, and y with a bias */
} problem;

static int64_t below(uint64_t *state, int64_t n)
{
    return (int64_t)((double)(next(state) + 1) / 2 * (double)n) % n;
}

static dt__conv draw(uint64_t *state)
{
    static const int64_t widths[] = { 1, 2, 3, 5, 8, 16, 33, 48 };
    dt__conv c = { .batch = 1 + below(state, 40), .groups = 1 };
    c.in = widths[below(state, 8)];
    c.out = widths[below(state, 8)];
    for (int i = 0; i < 2; i++) {
        c.kernel[i] = 1 + below(state, 4);
        c.stride[i] = 1 + below(state, 3);
        c.padding[i] = below(state, 4);
        c.dilation[i] = 1 + below(state, 2);
        c.y_size[i] = 1 + below(state, 10);
        const int64_t reach = c.dilation[i] * (c.kernel[i] - 1) + 1;
        const int64_t x = (c.y_size[i] - 1) * c.stride[i] + reach - 2 * c.padding[i];
        if (x < 1) c.padding[i] = 0;
        c.x_size[i] = x < 1 ? x + 2 * c.padding[i] : x;
        if (x < 1) c.x_size[i] = (c.y_size[i] - 1) * c.stride[i] + reach;
        c.x_size[i] += below(state, c.stride[i]);
    }
    return c;
}

static problem open_problem(const dt__conv *c, uint64_t seed)
{
    problem p = { .conv = *c };
    p.count[X] = c->batch * c->in * dt__conv_x_plane(c);
    p.count[Y] = c->batch * c->out * dt__conv_y_plane(c);
    p.count[W] = c->out * c->in * dt__conv_taps(c);
    for (int i = X; i <= W; i++) {
        p.in[i] = numbers(p.count[i], &seed);
        p.made[i] = numbers(p.count[i], &seed);
    }
    p.made[3] = numbers(p.count[Y], &seed);
    p.bias = numbers(c->out, &seed);
    return p;
}

static void close_problem(problem *p)
{
    for (int i = X; i <= W; i++) free(p->in[i]);
    for (int i = 0; i < 4; i++) free(p->made[i]);
    free(p->bias);
}

static void compute(dt_ctx *ctx, const dt__kernels *kernels, dt__conv_work w)
{
    size_t bytes;
    TEST_OK(ctx, dt__conv_plan(ctx, kernels, &w, &bytes));
    w.scratch = malloc(bytes + 1); /* the sanitizer sees its end */
    dt__team *const before = dt__threads_enter(ctx);
    dt__conv_compute(ctx, kernels, &w);
    dt__threads_leave(before);
    free(w.scratch);
}

static void solve(dt_ctx *ctx, int products, problem *p)
{
    const dt__kernels *k = dt__kernels_of(ctx, DT_F32);
    const dt__conv_work all = {
        .conv = &p->conv, .x = p->in[X], .y = p->in[Y], .w = p->in[W], .products = products
    };
    dt__conv_work w = all;
    w.to_x = p->made[X];
    w.to_w = p->made[W];
    compute(ctx, k, w);
    w = all;
    w.to_y = p->made[Y];
    compute(ctx, k, w);
    w.to_y = p->made[3];
    w.bias = p->bias;
    compute(ctx, k, w);
}

/* Element t of channel o of a sample: pairs of channels, then taps, then the two of a pair. */
static float forward_at(const problem *p, bool tiles, int64_t n, int64_t o, const int64_t t[2])
{
    const dt__conv *c = &p->conv;
    total sum = { .tiles = tiles };
    for (int64_t pair = 0; pair < c->in; pair += 2) {
        for (int64_t k = 0; k < dt__conv_taps(c); k++) {
            const int64_t tap[] = { k / c->kernel[1], k % c->kernel[1] };
            int64_t at[2];
            for (int i = 0; i < 2; i++) {
                at[i] = t[i] * c->stride[i] - c->padding[i] + tap[i] * c->dilation[i];
            }
            const bool inside =
                at[0] >= 0 && at[0] < c->x_size[0] && at[1] >= 0 && at[1] < c->x_size[1];
            for (int64_t i = pair; i < pair + 2; i++) {
                const int64_t place =
                    ((n * c->in + i) * c->x_size[0] + at[0]) * c->x_size[1] + at[1];
                const bool real = inside && i < c->in;
                const float w = i < c->in ? p->in[W][(o * c->in + i) * dt__conv_taps(c) + k] : 0;
                add_term(&sum, w, real ? p->in[X][place] : 0);
            }
        }
    }
    return sum_of(&sum);
}

static void check_forward(const problem *p, bool tiles)
{
    const dt__conv *c = &p->conv;
    for (int64_t e = 0; e < p->count[Y]; e += 7) {
        const int64_t at[] = { e / c->y_size[1] % c->y_size[0], e % c->y_size[1] };
        const int64_t o = e / dt__conv_y_plane(c) % c->out, n = e / dt__conv_y_plane(c) / c->out;
        const float want = forward_at(p, tiles, n, o, at);
        ck_assert_msg(p->made[Y][e] == want, "y[%lld] = %.9g, not %.9g", (long long)e,
                      (double)p->made[Y][e], (double)want);
        ck_assert(p->made[3][e] == want + p->bias[o]);
    }
}

/* In doubles, from rounded operands. */
static void check_near(dt_ctx *ctx, const problem *p)
{
    const dt__kernels *k = dt__kernels_of(ctx, DT_F64);
    double *in[3], *made[3];
    for (int i = X; i <= W; i++) {
        in[i] = malloc((size_t)p->count[i] * sizeof(double));
        made[i] = malloc((size_t)p->count[i] * sizeof(double));
        for (int64_t e = 0; e < p->count[i]; e++) in[i][e] = (double)rounded(p->in[i][e]);
    }
    k->conv(&p->conv, in[X], in[W], NULL, made[Y]);
    k->conv_backward_x(&p->conv, in[Y], in[W], NULL, made[X]);
    k->conv_backward_w(&p->conv, in[X], in[Y], made[W]);
    for (int i = X; i <= W; i++) {
        double most = 0;
        for (int64_t e = 0; e < p->count[i]; e++) most = fmax(most, fabs(made[i][e]));
        for (int64_t e = 0; e < p->count[i]; e++) {
            ck_assert_msg(fabs((double)p->made[i][e] - made[i][e]) <= 1e-5 * most,
                          "result %d [%lld] = %g, not %g", i, (long long)e, (double)p->made[i][e],
                          made[i][e]);
        }
    }
    for (int i = X; i <= W; i++) {
        free(in[i]);
        free(made[i]);
    }
}

static const test_draws draws = { .usual = 40, .sanitized = 6 };

START_TEST(a_convolution_has_the_bits_of_the_formula)
{
    dt_ctx *fast = context(2, UINT64_MAX);
    uint64_t state = (uint64_t)_i;
    for (int i = 0; i < test_count(draws); i++) {
        const dt__conv c = draw(&state);
        problem p = open_problem(&c, (uint64_t)i);
        solve(fast, choices[_i % 2], &p);
        check_forward(&p, choices[_i % 2] == DT_PRODUCTS_BF16_TILES);
        check_near(fast, &p);
        close_problem(&p);
    }
    dt_ctx_free(fast);
}
END_TEST

START_TEST(sets_and_threads_change_no_bit)
{
    const struct {
        int threads;
        uint64_t mask;
    } other[] = { { 1, UINT64_MAX }, { 3, UINT64_MAX }, { 2, DT_CPU_AVX2 }, { 1, DT_CPU_PLAIN } };
    dt_ctx *first = context(2, UINT64_MAX);
    uint64_t state = 99;
    for (int i = 0; i < test_count(draws) / 2; i++) {
        const dt__conv c = draw(&state);
        problem a = open_problem(&c, (uint64_t)i);
        solve(first, choices[_i], &a);
        for (int k = 0; k < DT__COUNT_OF(other); k++) {
            dt_ctx *ctx = context(other[k].threads, other[k].mask);
            problem b = open_problem(&c, (uint64_t)i);
            solve(ctx, choices[_i], &b);
            for (int m = X; m <= W; m++) {
                ck_assert_mem_eq(a.made[m], b.made[m], (size_t)a.count[m] * sizeof(float));
            }
            close_problem(&b);
            dt_ctx_free(ctx);
        }
        close_problem(&a);
    }
    dt_ctx_free(first);
}
END_TEST

/* ---- ops ------------------------------------------------------------------------------------- */

static dt_tensor *tensor(dt_ctx *ctx, const char *name, int rank, const int64_t *dims)
{
    uint64_t state = (uint64_t)name[0];
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, rank, dims, &x));
    float *data = dt_data_mut(x);
    for (int64_t i = 0; i < dt_count(x); i++) data[i] = next(&state);
    dt_set_requires_grad(x, true);
    return x;
}

/* A linear layer under DT_PRODUCTS_BF16 or _TILES: recorded, its result and gradients are products
 * of rounded operands; not recorded, it has the bits of f32. */
START_TEST(a_recorded_pass_multiplies_bf16)
{
    dt_ctx *ctx = context(2, UINT64_MAX);
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    const int64_t m = 9, n = 5, k = 7;
    dt_tensor *x = tensor(ctx, "x", 2, (const int64_t[]){ m, k });
    dt_tensor *w = tensor(ctx, "w", 2, (const int64_t[]){ n, k });
    dt_tensor *dy = tensor(ctx, "d", 2, (const int64_t[]){ m, n });
    float *one = malloc((size_t)(m * n) * sizeof *one);
    memcpy(one, dt_data(dt_linear(t, x, w, NULL)), (size_t)(m * n) * sizeof *one);
    dt_tape_reset(t);
    const bool tiles = choices[_i] == DT_PRODUCTS_BF16_TILES;
    TEST_OK(ctx, dt_set_products(ctx, choices[_i]));
    dt_no_grad(t, true);
    ck_assert_mem_eq(one, dt_data(dt_linear(t, x, w, NULL)), (size_t)(m * n) * sizeof *one);
    dt_no_grad(t, false);
    dt_tape_reset(t);
    dt_tensor *y = dt_linear(t, x, w, NULL);
    TEST_OK(ctx, dt_set_products(ctx, DT_PRODUCTS_F32)); /* the record knows its own */
    TEST_OK(ctx, dt_backward(t, y, dy));
    const float *a = dt_data(x), *b = dt_data(w), *d = dt_data(dy);
    const dt__gemm forward = { .trans_b = true,
                               .m = m,
                               .n = n,
                               .k = k,
                               .a = a,
                               .lda = k,
                               .b = b,
                               .ldb = k,
                               .c = dt_data_mut(y),
                               .ldc = n };
    check_product(&forward, tiles, NULL);
    const dt__gemm by_x = { .m = m,
                            .n = k,
                            .k = n,
                            .a = d,
                            .lda = n,
                            .b = b,
                            .ldb = k,
                            .c = dt_data_mut(dt_grad(x)),
                            .ldc = k };
    check_product(&by_x, tiles, NULL);
    const dt__gemm by_w = { .trans_a = true,
                            .m = n,
                            .n = k,
                            .k = m,
                            .a = d,
                            .lda = n,
                            .b = a,
                            .ldb = k,
                            .c = dt_data_mut(dt_grad(w)),
                            .ldc = k };
    check_product(&by_w, tiles, NULL);
    free(one);
    dt_tape_free(t);
    dt_tensor_free(x);
    dt_tensor_free(w);
    dt_tensor_free(dy);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- values that are held as bf16 ------------------------------------------------------------ */

enum { IMAGES, FIRST, MIDDLE, SECOND, THIRD, FOURTH, LEAVES };

/* A network whose results are read by products alone, by several of them, through a view, or also
 * by an op that needs them exactly. `drops`: what no later op reads is dropped, as modules do. */
typedef struct net {
    dt_tensor *leaf[LEAVES];
    dt_conv_options first, second;
    bool exact, drops;
} net;

static net draw_net(dt_ctx *ctx, uint64_t *state)
{
    net of = { .first = dt_conv_defaults(), .second = dt_conv_defaults() };
    const int64_t n = 1 + below(state, 4), in = 1 + below(state, 5);
    const int64_t middle = 1 + below(state, 20), out = 1 + below(state, 6);
    for (int i = 0; i < 2; i++) {
        of.first.stride[i] = 1 + below(state, 3);
        of.first.padding[i] = below(state, 2);
        of.second.stride[i] = 1 + below(state, 2);
    }
    of.exact = below(state, 3) == 0;
    const int64_t size[] = { 3 + below(state, 9), 5 + below(state, 30) };
    of.leaf[IMAGES] = tensor(ctx, "i", 4, (const int64_t[]){ n, in, size[0], size[1] });
    of.leaf[FIRST] = tensor(ctx, "f", 4, (const int64_t[]){ middle, in, 3, 2 });
    of.leaf[MIDDLE] = tensor(ctx, "m", 4, (const int64_t[]){ middle, middle, 1, 2 });
    of.leaf[SECOND] = tensor(ctx, "s", 4, (const int64_t[]){ middle, out, 2, 3 });
    return of;
}

static dt_tensor *dropped(dt_tape *t, const net *of, dt_tensor *x, dt_tensor *y)
{
    if (of->drops) dt_drop(t, x);
    return y;
}

/* y [n, n]; the first run makes the last two leaves. */
static dt_tensor *run_net(dt_tape *t, net *of)
{
    dt_ctx *ctx = dt_tape_ctx(t);
    if (of->drops) TEST_OK(ctx, dt__scope_enter(t));
    dt_tensor *x = dt_conv2d(t, of->leaf[IMAGES], of->leaf[FIRST], NULL, &of->first);
    x = dropped(t, of, x, dt_relu(t, x));
    x = dropped(t, of, x, dt_conv2d(t, x, of->leaf[MIDDLE], NULL, &of->second));
    x = dropped(t, of, x, dt_relu(t, x));
    x = dropped(t, of, x, dt_conv_transpose2d(t, x, of->leaf[SECOND], NULL, &of->second));
    x = dropped(t, of, x, dt_relu(t, x));
    TEST_OK(ctx, dt_tape_status(t));
    const int64_t n = x->dims[0], dims[] = { n, x->count / n };
    x = dropped(t, of, x, dt_reshape(t, x, 2, dims));
    for (int i = THIRD; i <= FOURTH && of->leaf[i] == NULL; i++) {
        of->leaf[i] = tensor(ctx, i == THIRD ? "t" : "o", 2, (const int64_t[]){ 7, dims[1] });
    }
    dt_tensor *a = dt_linear(t, x, of->leaf[THIRD], NULL);
    dt_tensor *b = dt_linear(t, x, of->leaf[FOURTH], NULL);
    if (of->exact) a = dt_add(t, a, dt_linear(t, dt_silu(t, x), of->leaf[THIRD], NULL));
    dropped(t, of, x, NULL);
    dt_tensor *turned = dropped(t, of, b, dt_transpose(t, b, 0, 1));
    dt_tensor *y = dt_matmul(t, a, turned);
    dropped(t, of, a, NULL);
    dropped(t, of, turned, NULL);
    if (of->drops) dt__scope_leave(t, &y, 1);
    return y;
}

/* The gradients of all leaves, and the bytes that wait for backward. */
static void differentiate_net(dt_ctx *ctx, net *of, int products, dt_tensor **gradient,
                              int64_t *held)
{
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_set_products(ctx, products));
    const int64_t before = (int64_t)dt_memory_of(ctx).used;
    dt_tensor *y = run_net(t, of);
    *held = (int64_t)dt_memory_of(ctx).used - before;
    dt_tensor *dy = tensor(ctx, "d", 2, y->dims);
    TEST_OK(ctx, dt_backward(t, y, dy));
    for (int i = 0; i < LEAVES; i++) {
        TEST_OK(ctx, dt_alias(dt_grad(of->leaf[i]), &gradient[i]));
        dt_grad_clear(of->leaf[i]);
    }
    dt_tensor_free(dy);
    dt_tape_free(t);
}

START_TEST(values_held_as_bf16_change_no_bit)
{
    uint64_t state = 3 + (uint64_t)_i;
    for (int draw = 0; draw < 12; draw++) {
        dt_ctx *ctx = context(1 + draw % 2, UINT64_MAX);
        net of = draw_net(ctx, &state);
        dt_tape *t;
        TEST_OK(ctx, dt_tape_create(ctx, &t));
        run_net(t, &of);
        dt_tape_free(t);
        dt_tensor *gradient[3][LEAVES];
        int64_t held[3];
        for (int i = 0; i < 3; i++) {
            of.drops = i < 2;
            differentiate_net(ctx, &of, i == 0 ? DT_PRODUCTS_F32 : choices[_i], gradient[i],
                              &held[i]);
        }
        for (int i = 0; i < LEAVES; i++) {
            const size_t bytes = (size_t)dt_count(of.leaf[i]) * sizeof(float);
            ck_assert_mem_eq(dt_data(gradient[1][i]), dt_data(gradient[2][i]), bytes);
        }
        ck_assert_int_lt(held[1], held[0]);
        for (int i = 0; i < 3; i++) dt__free_tensors(LEAVES, gradient[i]);
        dt__free_tensors(LEAVES, of.leaf);
        dt_ctx_free(ctx);
    }
}
END_TEST

/* A step of a small convolutional network, whose operands wait for backward as bf16. */
static dt_status convolution_step(dt_ctx *ctx, void *user)
{
    const dt_cnn_options o = {
        .image = { 3, { 3, 9, 8 } },
        .n_blocks = 2,
        .blocks = { { .out = 5, .kernel = 3, .stride = 1, .padding = 1, .groups = 1 },
                    { .out = 4, .kernel = 3, .stride = 2, .padding = 1, .groups = 1 } },
        .outputs = 3,
        .norms = { .groups = 1, .momentum = 0.1, .eps = 1e-5 }
    };
    dt_module *m = NULL;
    dt_tape *t = NULL;
    dt_tensor *x = NULL, *labels = NULL;
    dt_status s = dt_set_products(ctx, *(const int *)user);
    if (s == DT_OK) s = dt_cnn_create(ctx, &o, &m);
    if (s == DT_OK) s = dt_tape_create(ctx, &t);
    if (s == DT_OK) s = dt_tensor_create(ctx, DT_F32, 4, (const int64_t[]){ 2, 3, 9, 8 }, &x);
    if (s == DT_OK) s = dt_tensor_create(ctx, DT_I32, 1, (const int64_t[]){ 2 }, &labels);
    if (s == DT_OK) {
        dt_train(m, true);
        dt_tensor *loss = dt_cross_entropy(t, dt_forward(t, m, x), labels, NULL);
        s = dt_tape_status(t);
        if (s == DT_OK) s = dt_backward(t, loss, NULL);
    }
    dt_tape_free(t);
    dt_tensor_free(x);
    dt_tensor_free(labels);
    dt_module_free(m);
    return s;
}

START_TEST(every_allocation)
{
    int products = choices[_i];
    ck_assert_int_gt(test_every_allocation(convolution_step, &products), 50);
}
END_TEST

START_TEST(an_unknown_choice_is_an_error)
{
    dt_ctx *ctx = context(1, UINT64_MAX);
    TEST_FAILS(ctx, DT_ERR_ARG, "3 is none of DT_PRODUCTS_", dt_set_products(ctx, 3));
    TEST_FAILS(ctx, DT_ERR_ARG, "-1 is none of", dt_set_products(ctx, -1));
    ck_assert_int_eq(dt_set_products(NULL, DT_PRODUCTS_BF16), DT_ERR_ARG);
    dt_ctx_free(ctx);
}
END_TEST

/* Of as many forms one: neither operand transposed, both, or one for tiles. */
static const test_draws form_steps = { .usual = 1, .sanitized = 3 };

Suite *test_bf16_suite(void)
{
    Suite *suite = suite_create("bf16");
    TCase *c = tcase_create("bf16");
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, a_product_has_the_bits_of_the_formula, 0, FORMS);
    for (int i = 0; i < FORMS; i += (int)test_count(form_steps)) {
        if (!(i & ACCUMULATE))
            tcase_add_loop_test(c, blocks_and_sources_have_the_same_bits, i, i + 1);
    }
    tcase_add_test(c, sums_that_are_denormal_are_flushed);
    tcase_add_loop_test(c, a_convolution_has_the_bits_of_the_formula, 0, 4);
    tcase_add_loop_test(c, sets_and_threads_change_no_bit, 0, DT__COUNT_OF(choices));
    tcase_add_loop_test(c, a_recorded_pass_multiplies_bf16, 0, DT__COUNT_OF(choices));
    tcase_add_loop_test(c, values_held_as_bf16_change_no_bit, 0, DT__COUNT_OF(choices));
    tcase_add_loop_test(c, every_allocation, 0, DT__COUNT_OF(choices));
    tcase_add_test(c, an_unknown_choice_is_an_error);
    suite_add_tcase(suite, c);
    return suite;
}
