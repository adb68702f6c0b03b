/* Attention that reads keys and values as a decoder's cache keeps them: gradients in f64 against
 * differences of the plain formula at the dequantized values, and what is refused. Then rows that
 * are not finite, in every form in which attention reads keys and values. */
#include "testing.h"

#include "core/core.h"

#include <detent/experimental/ops.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, QUERIES = 5, KEYS = 7, HEADS = 4, KV = 2, WIDEST = 12 };
enum { Q, K, V };

static dt_ctx *ctx;
static dt_tape *tape;

static void setup(void)
{
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_tape_create(ctx, &tape));
}

static void teardown(void)
{
    dt_tape_free(tape);
    dt_ctx_free(ctx);
}

/* ---- the formula once more ------------------------------------------------------------------- */

/* A problem; k and v are those that attention reads. */
typedef struct problem {
    int64_t width;
    dt_attention_options how;
    double *x[3], *dy;
} problem;

static int64_t rows_of(int which) { return BATCH * (which == Q ? QUERIES * HEADS : KEYS * KV); }

static const double *row(const problem *p, int which, int64_t b, int64_t time, int64_t head)
{
    const int64_t times = which == Q ? QUERIES : KEYS, heads = which == Q ? HEADS : KV;
    return p->x[which] + ((b * times + time) * heads + head) * p->width;
}

static double dot(int64_t n, const double *a, const double *b)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static bool sees(const problem *p, int64_t query, int64_t key)
{
    const int64_t at = query + KEYS - QUERIES;
    if (!p->how.causal) return true;
    return key <= at && (p->how.window == 0 || key > at - p->how.window);
}

/* The row of y of one query and head; returns dy . y. */
static double attend(const problem *p, int64_t b, int64_t query, int64_t head, double *y)
{
    double sum = 0;
    for (int64_t i = 0; i < p->width; i++) y[i] = 0;
    for (int64_t key = 0; key < KEYS; key++) {
        if (!sees(p, query, key)) continue;
        const int64_t of = head / (HEADS / KV);
        const double e =
            exp(dot(p->width, row(p, Q, b, query, head), row(p, K, b, key, of)) * p->how.scale);
        for (int64_t i = 0; i < p->width; i++) y[i] += e * row(p, V, b, key, of)[i];
        sum += e;
    }
    for (int64_t i = 0; i < p->width; i++) y[i] /= sum;
    return dot(p->width, y, p->dy + ((b * QUERIES + query) * HEADS + head) * p->width);
}

static double loss_of(const problem *p)
{
    double sum = 0, y[WIDEST];
    for (int64_t r = 0; r < rows_of(Q); r++) {
        sum += attend(p, r / HEADS / QUERIES, r / HEADS % QUERIES, r % HEADS, y);
    }
    return sum;
}

/* x = H x, each `order` elements: element i, j of H is -1 where i and j share an odd number of
 * bits. */
static void rotate(int64_t width, int64_t order, double *x)
{
    double y[WIDEST];
    for (int64_t i = 0; i < width; i++) {
        y[i] = 0;
        for (int64_t j = i - i % order; j < i - i % order + order; j++) {
            bool odd = false;
            for (int64_t bits = i % order & j % order; bits > 0; bits &= bits - 1) odd = !odd;
            y[i] += odd ? -x[j] : x[j];
        }
    }
    memcpy(x, y, (size_t)width * sizeof *x);
}

/* Replaces a row by its dequantized values. */
static void pass_cache(int cache, int64_t width, double *x)
{
    int64_t order = 1;
    double most = 0;
    while (cache == DT_CACHE_INT4 && width % (2 * order) == 0) order *= 2;
    rotate(width, order, x);
    for (int64_t i = 0; i < width; i++) {
        if (fabs(x[i]) > fabs(most) || (x[i] == -most && x[i] < 0)) most = x[i];
    }
    const float extent = (float)most / -8;
    const float scale = cache == DT_CACHE_INT4 ? extent : (float)fabs(most) / 127;
    const float inverse = 1 / scale;
    for (int64_t i = 0; i < width; i++) {
        const float code = nearbyintf((float)x[i] * inverse);
        x[i] = (double)(cache == DT_CACHE_INT4 && code > 7 ? 7 : code) * (double)scale;
    }
    rotate(width, order, x);
    for (int64_t i = 0; i < width; i++) x[i] /= (double)order;
}

/* ---- against the op -------------------------------------------------------------------------- */

static dt_tensor *tensor_of(const problem *p, int which)
{
    dt_tensor *x;
    const int64_t dims[] = { BATCH, which == Q ? QUERIES : KEYS, which == Q ? HEADS : KV,
                             p->width };
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F64, 4, dims, p->x[which], &x));
    return x;
}

/* Sums of up to four of these are exact in f32. */
static problem draw(uint64_t seed, int64_t width, int cache)
{
    static const int64_t windows[] = { 0, 3 };
    problem p = { .width = width, .how = { .causal = seed % 3 != 0, .scale = 0.4 } };
    dt__stream s = dt__stream_of(seed, DT__FOR_USER);
    p.how.cache = cache;
    p.how.window = p.how.causal ? windows[seed % 2] : 0;
    for (int which = Q; which <= V + 1; which++) {
        const int64_t n = rows_of(which > V ? Q : which) * width;
        double *x = malloc((size_t)n * sizeof *x);
        for (int64_t i = 0; i < n; i++) {
            x[i] = ((double)dt__random_below(&s, 4001) - 2000) / 1024;
        }
        if (which > V) p.dy = x;
        else p.x[which] = x;
    }
    return p;
}

static void free_problem(problem *p)
{
    for (int i = Q; i <= V; i++) free(p->x[i]);
    free(p->dy);
}

static void check_values(const problem *p, const dt_tensor *y, const char *what)
{
    double want[WIDEST];
    const double *got = dt_data(y);
    for (int64_t r = 0; r < rows_of(Q); r++) {
        attend(p, r / HEADS / QUERIES, r / HEADS % QUERIES, r % HEADS, want);
        for (int64_t i = 0; i < p->width; i++) {
            TEST_EACH(test_near(got[r * p->width + i], want[i], 1e-11, 1e-11),
                      "%s: row %lld, element %lld: %g, not %g", what, (long long)r, (long long)i,
                      got[r * p->width + i], want[i]);
        }
    }
}

static void check_gradient(problem *p, int which, const dt_tensor *gradient, const char *what)
{
    const double step = 1e-5, *got = dt_data(gradient);
    for (int64_t i = 0; i < rows_of(which) * p->width; i++) {
        double *x = &p->x[which][i];
        const double at = *x;
        *x = at + step;
        const double above = loss_of(p);
        *x = at - step;
        const double want = (above - loss_of(p)) / (2 * step);
        *x = at;
        TEST_EACH(test_near(got[i], want, 1e-7, 1e-6), "%s: operand %d, element %lld: %g, not %g",
                  what, which, (long long)i, got[i], want);
    }
}

static void check(uint64_t seed, int64_t width, int cache)
{
    char what[80];
    problem p = draw(seed, width, cache);
    dt_tensor *x[3], *up;
    const int64_t dims[] = { BATCH, QUERIES, HEADS, width };
    snprintf(what, sizeof what, "seed %d, width %d, cache %s", (int)seed, (int)width,
             dt_cache_names[cache]);
    for (int i = Q; i <= V; i++) {
        x[i] = tensor_of(&p, i);
        TEST_OK(ctx, dt_set_requires_grad(x[i], true));
        for (int64_t r = 0; r < rows_of(i) && i != Q; r++) {
            pass_cache(cache, width, p.x[i] + r * width);
        }
    }
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F64, 4, dims, p.dy, &up));
    dt_tape_reset(tape);
    dt_tensor *y = dt_attention(tape, &(dt_attention_operands){ .q = x[Q], .k = x[K], .v = x[V] },
                                &p.how, NULL);
    TEST_EACH(y != NULL, "%s: %s", what, dt_error(ctx));
    check_values(&p, y, what);
    TEST_OK(ctx, dt_backward(tape, y, up));
    for (int i = Q; i <= V; i++) check_gradient(&p, i, dt_grad(x[i]), what);
    for (int i = Q; i <= V; i++) dt_tensor_free(x[i]);
    dt_tensor_free(up);
    free_problem(&p);
}

/* _i: the cache. */
START_TEST(gradients_are_those_at_what_the_codes_stand_for)
{
    const int64_t widths[] = { 1, 4, 5, 6, 12 };
    for (uint64_t seed = 0; seed < 3; seed++) {
        for (int i = 0; i < DT__COUNT_OF(widths); i++) check(seed, widths[i], _i);
    }
}
END_TEST

/* ---- rows that are not finite ---------------------------------------------------------------- */

/* How keys and values come: as floats, of one of the caches, or as codes of given scales. */
enum { CODES = DT_CACHES, PACKED, WAYS };

/* A problem of drawn numbers, and the rows that are not finite: of q, k or v those of all heads and
 * batch entries from `first` to past - 1. */
typedef struct bad_case {
    int64_t queries, keys, each, kv, width; /* each: heads of q that share keys */
    dt_attention_options how;
    int way, which, threads;
    uint64_t cpu_mask;
    int64_t first, past, element;
    float bad;
} bad_case;

static int64_t pick(dt__stream *s, int64_t least, int64_t most)
{
    return least + (int64_t)dt__random_below(s, (uint64_t)(most - least + 1));
}

/* The bad rows are one, often the first, or for keys a whole part of 512, or all. */
static void draw_bad_rows(dt__stream *s, bad_case *p)
{
    const int64_t n = p->which == Q ? p->queries : p->keys;
    const int64_t at = pick(s, 0, 2) == 0 ? 0 : pick(s, 0, n - 1);
    p->first = at;
    p->past = at + 1;
    if (p->which != K || pick(s, 0, 1) == 0) return;
    const bool all = pick(s, 0, 2) == 0;
    p->first = all ? 0 : at - at % 512;
    p->past = all ? n : dt__min_i64(n, p->first + 512);
}

static bad_case draw_bad_case(uint64_t seed, int way)
{
    static const int64_t keys[] = { 1, 2, 5, 16, 17, 64, 65, 130, 512, 520, 700, 1030 };
    static const uint64_t sets[] = { DT_CPU_PLAIN, DT_CPU_AVX2, UINT64_MAX };
    const float bad[] = { NAN, INFINITY, -INFINITY };
    dt__stream s = dt__stream_of(seed, DT__FOR_USER);
    bad_case p = { .keys = keys[pick(&s, 0, DT__COUNT_OF(keys) - 1)], .way = way };
    p.queries = pick(&s, 0, 1) == 0 ? pick(&s, 1, 4) : pick(&s, 1, 90);
    p.each = pick(&s, 1, 3);
    p.kv = pick(&s, 1, 2);
    p.width = pick(&s, 0, 1) == 0 ? pick(&s, 1, 20) : 16 * pick(&s, 1, 2);
    p.how.causal = pick(&s, 0, 3) > 0;
    if (p.how.causal && pick(&s, 0, 1) == 0) p.how.window = pick(&s, 0, 1) + pick(&s, 0, p.keys);
    p.how.cache = way < DT_CACHES ? way : DT_CACHE_F32;
    p.which = (int)pick(&s, Q, V);
    p.threads = (int)pick(&s, 1, 3);
    p.cpu_mask = sets[pick(&s, 0, 2)];
    p.element = pick(&s, 0, p.width - 1);
    /* infinity is NaN where a cache finds the scale */
    p.bad = bad[p.which != Q && p.how.cache != DT_CACHE_F32 ? pick(&s, 0, 2) : 0];
    draw_bad_rows(&s, &p);
    return p;
}

/* Floats in -1 ... 1, or any bytes. */
static dt_tensor *drawn(dt_ctx *c, dt_dtype dtype, int rank, const int64_t *dims, dt__stream *s)
{
    dt_tensor *x;
    TEST_OK(c, dt_tensor_create(c, dtype, rank, dims, &x));
    for (int64_t i = 0; i < dt_count(x); i++) {
        if (dtype == DT_F32) ((float *)dt_data_mut(x))[i] = 2 * (float)dt__random_unit(s) - 1;
        else ((uint8_t *)dt_data_mut(x))[i] = (uint8_t)dt__random_below(s, 256);
    }
    return x;
}

/* Codes are bad by their scale, floats by one element. */
static void spoil(const bad_case *p, dt_tensor *x, int64_t heads)
{
    const int64_t n = dt_dim(x, 1), width = dt_rank(x) == 3 ? 1 : dt_dim(x, 3);
    const int64_t element = width == 1 ? 0 : p->element;
    float *data = dt_data_mut(x);
    for (int64_t i = 0; i < BATCH * n * heads; i++) {
        const int64_t time = i / heads % n;
        if (time >= p->first && time < p->past) data[i * width + element] = p->bad;
    }
}

/* y and lse, [rows][width] and [rows], with bad rows or without. */
static void run_case(const bad_case *p, bool spoiled, float *y, float *lse)
{
    const dt_ctx_options options = { .threads = p->threads, .cpu_mask = p->cpu_mask };
    const int64_t heads = p->each * p->kv, rows = BATCH * p->queries * heads;
    const int64_t q[] = { BATCH, p->queries, heads, p->width };
    const int64_t k[] = { BATCH, p->keys, p->kv, p->way == PACKED ? (p->width + 1) / 2 : p->width };
    const dt_dtype dtype = p->way < CODES ? DT_F32 : p->way == CODES ? DT_I8 : DT_U8;
    dt__stream s = dt__stream_of(7, DT__FOR_USER);
    dt_tensor *x[5] = { NULL }, *sums;
    dt_ctx *c;
    dt_tape *t;
    TEST_OK(NULL, dt_ctx_create(&c, &options));
    TEST_OK(c, dt_tape_create(c, &t));
    x[Q] = drawn(c, DT_F32, 4, q, &s);
    for (int i = K; i <= V; i++) x[i] = drawn(c, dtype, 4, k, &s);
    for (int i = V + 1; i <= V + 2 && p->way >= CODES; i++) x[i] = drawn(c, DT_F32, 3, k, &s);
    const int at = p->which == Q || p->way < CODES ? p->which : p->which + 2;
    if (spoiled) spoil(p, x[at], p->which == Q ? heads : p->kv);
    const dt_attention_operands in = {
        .q = x[Q], .k = x[K], .v = x[V], .k_scale = x[V + 1], .v_scale = x[V + 2]
    };
    const dt_tensor *out = dt_attention(t, &in, &p->how, &sums);
    TEST_OK(c, dt_tape_status(t));
    memcpy(y, dt_data(out), (size_t)(rows * p->width) * sizeof *y);
    memcpy(lse, dt_data(sums), (size_t)rows * sizeof *lse);
    for (int i = 0; i < 5; i++) dt_tensor_free(x[i]);
    dt_tape_free(t);
    dt_ctx_free(c);
}

/* Whether a query attends to one of the keys from `first` to past - 1. */
static bool attends(const bad_case *p, int64_t query, int64_t first, int64_t past)
{
    const int64_t at = query + p->keys - p->queries, window = p->how.window;
    if (!p->how.causal) return first < past;
    const int64_t begin = window == 0 ? 0 : dt__max_i64(0, at + 1 - window);
    return dt__max_i64(first, begin) < dt__min_i64(past, at + 1);
}

/* Whether a bad value may reach a query that does not attend to it: up to 3 in front of it, and up
 * to 66 behind its window. */
static bool is_near(const bad_case *p, int64_t query)
{
    const int64_t at = query + p->keys - p->queries, window = p->how.window;
    if (p->which != V || at + 3 < p->first) return false;
    return window == 0 || at - window + 1 < p->past + 66;
}

/* Rows that attend to what is bad are NaN; all others have the bits that they have without it. */
static void check_bad_case(uint64_t seed, int way)
{
    const bad_case p = draw_bad_case(seed, way);
    const int64_t heads = p.each * p.kv, rows = BATCH * p.queries * heads;
    float *y[2], *lse[2];
    for (int i = 0; i < 2; i++) {
        y[i] = malloc((size_t)(rows * p.width) * sizeof *y[i]);
        lse[i] = malloc((size_t)rows * sizeof *lse[i]);
        run_case(&p, i == 1, y[i], lse[i]);
    }
    for (int64_t r = 0; r < rows; r++) {
        const int64_t query = r / heads % p.queries;
        const bool own = p.which == Q && query >= p.first && query < p.past;
        const bool bad = p.which == Q ? own && attends(&p, query, 0, p.keys)
                                      : attends(&p, query, p.first, p.past);
        TEST_EACH(bad && p.which != V ? isnan(lse[1][r]) != 0
                                      : memcmp(&lse[0][r], &lse[1][r], sizeof **lse) == 0,
                  "seed %d, way %d, operand %d: lse of row %lld is %g", (int)seed, way, p.which,
                  (long long)r, (double)lse[1][r]);
        for (int64_t e = r * p.width; e < (r + 1) * p.width; e++) {
            const bool lost =
                bad && (p.which != V || way != DT_CACHE_F32 || e % p.width == p.element);
            if (!bad && is_near(&p, query)) continue;
            TEST_EACH(lost ? isnan(y[1][e]) != 0 : memcmp(&y[0][e], &y[1][e], sizeof **y) == 0,
                      "seed %d, way %d, operand %d: element %lld is %g", (int)seed, way, p.which,
                      (long long)e, (double)y[1][e]);
        }
    }
    for (int i = 0; i < 2; i++) {
        free(y[i]);
        free(lse[i]);
    }
}

static const test_draws bad_cases = { .usual = 150, .quick = 60, .sanitized = 8 };

/* _i: the way. */
START_TEST(a_row_that_is_not_finite_is_nan)
{
    for (int64_t i = 0; i < test_count(bad_cases); i++) {
        check_bad_case(1000 * (uint64_t)_i + (uint64_t)i, _i);
    }
}
END_TEST

/* ---- limits ---------------------------------------------------------------------------------- */

static dt_tensor *filled(const int64_t *dims, float value)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, dims, &x));
    TEST_OK(ctx, dt_fill(x, (double)value));
    return x;
}

static void refused(const dt_attention_operands *in, const dt_attention_options *how,
                    const char *says)
{
    dt_tape_reset(tape);
    ck_assert_ptr_null(dt_attention(tape, in, how, NULL));
    ck_assert_msg(dt_tape_status(tape) == DT_ERR_ARG && strstr(dt_error(ctx), says) != NULL,
                  "%s: %s", dt_status_name(dt_tape_status(tape)), dt_error(ctx));
}

START_TEST(masks_and_unknown_caches_are_refused)
{
    const int64_t dims[] = { 1, 3, 1, 4 };
    dt_tensor *x[3], *mask;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_U8, 2, (const int64_t[]){ 1, 3 }, &mask));
    for (int k = Q; k <= V; k++) x[k] = filled(dims, 1);
    dt_attention_operands in = { .q = x[Q], .k = x[K], .v = x[V], .key_mask = mask };
    refused(&in, &(dt_attention_options){ .cache = DT_CACHE_INT4 }, "a cache excludes masks");
    in.key_mask = NULL;
    refused(&in, &(dt_attention_options){ .cache = DT_CACHES }, "cache is 3; it must be 1");
    for (int k = Q; k <= V; k++) dt_tensor_free(x[k]);
    dt_tensor_free(mask);
}
END_TEST

Suite *test_attention_cached_suite(void);
Suite *test_attention_cached_suite(void)
{
    Suite *s = suite_create("attention_cached");
    TCase *c = tcase_create("cached");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, gradients_are_those_at_what_the_codes_stand_for, DT_CACHE_INT8,
                        DT_CACHES);
    tcase_add_loop_test(c, a_row_that_is_not_finite_is_nan, DT_CACHE_F32, WAYS);
    tcase_add_test(c, masks_and_unknown_caches_are_refused);
    suite_add_tcase(s, c);
    return s;
}
