/* Convolutions of floats: random problems with all options, large enough for the fast kernel,
 * against plain C, and plain C against doubles; the same bits on any number of threads; plans
 * cached for a shape. The ops' own cases are in their files. */
#include "testing.h"

#include "kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Operands and results of a problem, as floats or doubles. */
typedef struct problem {
    dt__conv conv;
    int64_t count[3];         /* elements of x, y, w */
    void *in[3], *bias;       /* x, y, w */
    void *made[3], *alone[2]; /* y, x and w together; y and x with a bias */
} problem;

enum { X, Y, W };

static int64_t below(uint64_t *state, int64_t n)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((*state >> 33) % (uint64_t)n);
}

/* Random options, depthwise and signals included; x may end with rows that no kernel position
 * reads. */
static dt__conv draw(uint64_t *state)
{
    static const int64_t widths[] = { 1, 2, 3, 5, 8, 9, 16, 24 };
    const bool signal = below(state, 4) == 0, depthwise = below(state, 4) == 0;
    dt__conv c = { .batch = 1 + below(state, 21), .groups = 1 + below(state, 3) };
    c.in = widths[below(state, 8)];
    c.out = widths[below(state, 8)];
    if (depthwise) c.groups = 4 + below(state, 20);
    if (depthwise) c.in = c.out = 1;
    c.in *= c.groups;
    c.out *= c.groups * (depthwise && below(state, 3) == 0 ? 2 : 1);
    for (int i = 0; i < 2; i++) {
        c.kernel[i] = 1 + below(state, 5);
        c.stride[i] = 1 + below(state, 3);
        c.padding[i] = below(state, 4);
        c.dilation[i] = 1 + below(state, 3);
        c.y_size[i] = 4 + below(state, 12);
        if (i == 0 && signal) {
            c.kernel[i] = c.stride[i] = c.dilation[i] = c.y_size[i] = 1;
            c.padding[i] = 0;
        }
        const int64_t reach = c.dilation[i] * (c.kernel[i] - 1) + 1;
        const int64_t least = (c.y_size[i] - 1) * c.stride[i] + reach - 2 * c.padding[i];
        if (least < 1) c.padding[i] = 0;
        c.x_size[i] = least < 1 ? least + 2 * c.padding[i] : least;
        if (least < 1) c.x_size[i] = (c.y_size[i] - 1) * c.stride[i] + reach;
        c.x_size[i] += signal && i == 0 ? 0 : below(state, c.stride[i]);
    }
    return c;
}

static void *values(int64_t n, bool wide, uint64_t *state)
{
    void *x = malloc((size_t)n * (wide ? sizeof(double) : sizeof(float)));
    for (int64_t i = 0; i < n; i++) {
        const float v = (float)below(state, 2001) / 1000 - 1;
        if (wide) ((double *)x)[i] = (double)v;
        else ((float *)x)[i] = v;
    }
    return x;
}

static void *poisoned(int64_t n, bool wide)
{
    const size_t bytes = (size_t)n * (wide ? sizeof(double) : sizeof(float));
    void *x = malloc(bytes);
    memset(x, 0x7f, bytes);
    return x;
}

static void open_problem(problem *p, const dt__conv *c, bool wide, uint64_t seed)
{
    *p = (problem){ .conv = *c };
    p->count[X] = c->batch * c->in * dt__conv_x_plane(c);
    p->count[Y] = c->batch * c->out * dt__conv_y_plane(c);
    p->count[W] = c->out * c->in / c->groups * dt__conv_taps(c);
    for (int i = X; i <= W; i++) {
        p->in[i] = values(p->count[i], wide, &seed);
        p->made[i] = poisoned(p->count[i], wide);
    }
    for (int i = X; i <= Y; i++) p->alone[i] = poisoned(p->count[i], wide);
    p->bias = values(c->in > c->out ? c->in : c->out, wide, &seed);
}

static void close_problem(problem *p)
{
    for (int i = X; i <= W; i++) free(p->in[i]);
    for (int i = X; i <= W; i++) free(p->made[i]);
    for (int i = X; i <= Y; i++) free(p->alone[i]);
    free(p->bias);
}

static void compute(dt_ctx *ctx, const dt__kernels *kernels, dt__conv_work work)
{
    size_t bytes;
    TEST_OK(ctx, dt__conv_plan(ctx, kernels, &work, &bytes));
    work.scratch = dt__alloc(ctx, bytes);
    ck_assert_ptr_nonnull(work.scratch);
    dt__conv_compute(ctx, kernels, &work);
    dt__release(ctx, work.scratch);
}

/* Everything that the four ops compute: y or x with a bias, then x and w, and y and w. */
static void solve(dt_ctx *ctx, const dt__kernels *kernels, problem *p)
{
    const dt__conv_work all = { .conv = &p->conv, .x = p->in[X], .y = p->in[Y], .w = p->in[W] };
    dt__conv_work w = all;
    dt__team *const before = dt__threads_enter(ctx);
    w.to_y = p->made[Y];
    w.to_w = p->made[W];
    compute(ctx, kernels, w);
    w = all;
    w.to_x = p->made[X];
    w.to_w = p->made[W];
    compute(ctx, kernels, w);
    w = all;
    w.bias = p->bias;
    w.to_y = p->alone[Y];
    compute(ctx, kernels, w);
    w.to_y = NULL;
    w.to_x = p->alone[X];
    compute(ctx, kernels, w);
    dt__threads_leave(before);
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

/* |a - b| <= 1e-5 of the largest |b|. */
static bool near(const float *a, const double *b, int64_t n)
{
    double most = 0, worst = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(b[i]));
    for (int64_t i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - b[i]);
        if (!(d <= worst)) worst = isnan(d) ? INFINITY : d;
    }
    return worst <= 1e-5 * most;
}

static void must_be_near(const problem *a, const problem *b, const char *which)
{
    const dt__conv *c = &a->conv;
    bool good = true;
    for (int i = X; i <= W; i++) good = good && near(a->made[i], b->made[i], a->count[i]);
    for (int i = X; i <= Y; i++) good = good && near(a->alone[i], b->alone[i], a->count[i]);
    ck_assert_msg(good,
                  "%s: batch %lld, %lld -> %lld in %lld groups, %lldx%lld -> %lldx%lld, kernel "
                  "%lldx%lld, stride %lld %lld, padding %lld %lld, dilation %lld %lld",
                  which, (long long)c->batch, (long long)c->in, (long long)c->out,
                  (long long)c->groups, (long long)c->x_size[0], (long long)c->x_size[1],
                  (long long)c->y_size[0], (long long)c->y_size[1], (long long)c->kernel[0],
                  (long long)c->kernel[1], (long long)c->stride[0], (long long)c->stride[1],
                  (long long)c->padding[0], (long long)c->padding[1], (long long)c->dilation[0],
                  (long long)c->dilation[1]);
}

static const test_draws draws = { .usual = 150, .sanitized = 40 };

START_TEST(every_path_is_near_doubles)
{
    dt_ctx *fast = context(2, UINT64_MAX), *plain = context(2, DT_CPU_PLAIN);
    uint64_t state = (uint64_t)_i;
    for (int i = 0; i < test_count(draws); i++) {
        const dt__conv c = draw(&state);
        problem f, p, d;
        open_problem(&f, &c, false, (uint64_t)i);
        open_problem(&p, &c, false, (uint64_t)i);
        open_problem(&d, &c, true, (uint64_t)i);
        solve(fast, fast->kernels[DT_F32], &f);
        solve(plain, plain->kernels[DT_F32], &p);
        solve(plain, plain->kernels[DT_F64], &d);
        must_be_near(&p, &d, "plain C");
        must_be_near(&f, &d, "the fast path");
        close_problem(&f);
        close_problem(&p);
        close_problem(&d);
    }
    dt_ctx_free(fast);
    dt_ctx_free(plain);
}
END_TEST

static bool same(const problem *a, const problem *b)
{
    bool equal = true;
    for (int i = X; i <= W; i++) {
        const size_t bytes = (size_t)a->count[i] * sizeof(float);
        equal = equal && memcmp(a->made[i], b->made[i], bytes) == 0;
        equal = equal && (i == W || memcmp(a->alone[i], b->alone[i], bytes) == 0);
    }
    return equal;
}

START_TEST(threads_change_no_bit)
{
    static const int counts[] = { 2, 3, 8 };
    dt_ctx *one = context(1, UINT64_MAX), *more[3];
    for (int k = 0; k < 3; k++) more[k] = context(counts[k], UINT64_MAX);
    uint64_t state = 77;
    for (int i = 0; i < test_count(draws) / 3; i++) {
        const dt__conv c = draw(&state);
        problem a;
        open_problem(&a, &c, false, (uint64_t)i);
        solve(one, one->kernels[DT_F32], &a);
        for (int k = 0; k < 3; k++) {
            problem b;
            open_problem(&b, &c, false, (uint64_t)i);
            solve(more[k], more[k]->kernels[DT_F32], &b);
            ck_assert_msg(same(&a, &b), "problem %d on %d threads", i, counts[k]);
            close_problem(&b);
        }
        close_problem(&a);
    }
    for (int k = 0; k < 3; k++) dt_ctx_free(more[k]);
    dt_ctx_free(one);
}
END_TEST

/* A cached shape allocates nothing; more shapes than the cache holds replace old ones. */
START_TEST(a_shape_is_prepared_once)
{
    dt_ctx *ctx = context(2, UINT64_MAX);
    uint64_t state = 5;
    const dt__conv c = draw(&state);
    problem p;
    open_problem(&p, &c, false, 1);
    solve(ctx, ctx->kernels[DT_F32], &p);
    const uint64_t before = dt_memory_of(ctx).allocations;
    solve(ctx, ctx->kernels[DT_F32], &p);
    ck_assert_uint_eq(dt_memory_of(ctx).allocations, before);
    for (int i = 0; i < 300; i++) {
        const dt__conv other = { 1,          300 + i,  1,        1,        { 16, 16 },
                                 { 16, 16 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } };
        const dt__conv_work w = { .conv = &other, .x = &other, .w = &other, .to_y = p.made[Y] };
        size_t bytes;
        TEST_OK(ctx, dt__conv_plan(ctx, ctx->kernels[DT_F32], &w, &bytes));
    }
    problem again;
    open_problem(&again, &c, false, 1);
    solve(ctx, ctx->kernels[DT_F32], &again);
    ck_assert(same(&p, &again));
    close_problem(&p);
    close_problem(&again);
    dt_ctx_free(ctx);
}
END_TEST

/* Images that a source function writes on demand, in place of x or y. */
typedef struct images {
    const float *data;
    int64_t columns;
} images;

static void fill(const void *from, const dt__patch *patch)
{
    const images *s = from;
    for (int64_t r = patch->r0; r < patch->r1; r++) {
        memcpy((float *)patch->y + (r - patch->r0) * patch->ldy,
               s->data + r * s->columns + patch->c0,
               (size_t)(patch->c1 - patch->c0) * sizeof(float));
    }
}

static void from_sources(dt_ctx *ctx, const problem *p, problem *out)
{
    const dt__conv *c = &p->conv;
    const images from[] = { { p->in[X], p->count[X] / c->batch },
                            { p->in[Y], p->count[Y] / c->batch } };
    const dt__source x = { fill, &from[X] }, y = { fill, &from[Y] };
    const dt__conv_work all = { .conv = c, .x_source = &x, .y_source = &y, .w = p->in[W] };
    dt__conv_work w = all;
    w.to_y = out->made[Y];
    w.to_w = out->made[W];
    compute(ctx, ctx->kernels[DT_F32], w);
    w = all;
    w.to_x = out->made[X];
    w.to_w = out->made[W];
    compute(ctx, ctx->kernels[DT_F32], w);
}

START_TEST(sources_write_inputs_and_outputs_on_demand)
{
    dt_ctx *ctx = context(2, _i == 0 ? UINT64_MAX : 0);
    uint64_t state = 9;
    for (int i = 0; i < 20; i++) {
        const dt__conv c = draw(&state);
        problem p, q;
        open_problem(&p, &c, false, 1);
        open_problem(&q, &c, false, 2);
        solve(ctx, ctx->kernels[DT_F32], &p);
        from_sources(ctx, &p, &q);
        for (int k = X; k <= W; k++) {
            ck_assert(memcmp(p.made[k], q.made[k], (size_t)p.count[k] * sizeof(float)) == 0);
        }
        close_problem(&p);
        close_problem(&q);
    }
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_conv_suite(void)
{
    Suite *s = suite_create("conv");
    TCase *c = tcase_create("paths");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, every_path_is_near_doubles, 0, 2);
    tcase_add_test(c, threads_change_no_bit);
    tcase_add_test(c, a_shape_is_prepared_once);
    tcase_add_loop_test(c, sources_write_inputs_and_outputs_on_demand, 0, 2);
    suite_add_tcase(s, c);
    return s;
}
