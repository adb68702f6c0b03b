/* The inverse root of positive definite matrices: U^T U = A^-1, against plain sums in double. */
#include "testing.h"

#include "kernels/products/blas_library.h"
#include "kernels/products/dense64.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdlib.h>

static dt_ctx *context(int threads)
{
    dt_ctx *ctx;
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = threads;
    ck_assert_int_eq(dt_ctx_create(&ctx, &options), DT_OK);
    TEST_OK(ctx, dt__kernels_open(ctx));
    TEST_OK(ctx, dt__blas_load(ctx));
    return ctx;
}

static double *room_of(int64_t n)
{
    double *x = calloc((size_t)n, sizeof *x);
    ck_assert(x != NULL);
    return x;
}

/* X X^T of n columns of noise. */
static double *random_square(int64_t n)
{
    dt__stream stream = dt__stream_of((uint64_t)n, DT__FOR_USER);
    double *x = room_of(n * n), *h = room_of(n * n);
    for (int64_t i = 0; i < n * n; i++) x[i] = dt__random_unit(&stream) - 0.5;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            for (int64_t k = 0; k < n; k++) h[i * n + j] += x[i * n + k] * x[j * n + k];
        }
    }
    free(x);
    return h;
}

static bool run(dt__inverse_root *r, int threads)
{
    dt_ctx *ctx = context(threads);
    r->u = room_of(r->n * r->n);
    r->room = room_of(dt__inverse_root_room(r->n));
    dt__team *const before = dt__threads_enter(ctx);
    const bool good = dt__inverse_root_of(r);
    dt__threads_leave(before);
    free(r->room);
    dt_ctx_free(ctx);
    return good;
}

/* The largest element of U A U^T - I, where A is as in the header. */
static double residual(const dt__inverse_root *r)
{
    const int64_t n = r->n;
    double *ua = room_of(n * n), most = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = i; k < n; k++) {
            const int64_t row = r->order == NULL ? k : r->order[k];
            for (int64_t j = 0; j < n; j++) {
                const int64_t column = r->order == NULL ? j : r->order[j];
                double a = r->scale * r->h[row * n + column];
                if (j == k) a = (r->h[row * n + row] == 0 ? 1 : a) + r->add;
                ua[i * n + j] += r->u[i * n + k] * a;
            }
        }
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = i == j ? -1 : 0;
            for (int64_t k = j; k < n; k++) sum += ua[i * n + k] * r->u[j * n + k];
            most = fmax(most, fabs(sum));
        }
    }
    free(ua);
    return most;
}

static const int64_t sizes[] = { 1, 2, 127, 129, 192, 193, 300, 400 };

/* A U^T U = I, and U is upper triangular. The diagonal is damped as with calibration data; one
 * column is dead. */
START_TEST(test_inverse)
{
    const int64_t n = sizes[_i];
    double *h = random_square(n);
    int32_t *order = malloc((size_t)n * sizeof *order);
    for (int64_t i = 0; i < n; i++) order[i] = (int32_t)((i * 7 + 3) % n); /* 7 divides none */
    for (int64_t i = 0; i < n; i++) h[n / 2 * n + i] = h[i * n + n / 2] = 0;
    for (int ordered = 0; ordered < 2; ordered++) {
        dt__inverse_root r = { .n = n, .h = h, .scale = 0.5, .add = 0.05 };
        if (ordered == 1) r.order = order;
        ck_assert(run(&r, 2));
        ck_assert_msg(residual(&r) < 1e-10, "%d: %g", (int)n, residual(&r));
        free(r.u);
    }
    free(order);
    free(h);
}
END_TEST

START_TEST(test_threads)
{
    const int64_t n = 700;
    double *h = random_square(n), *first = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        dt__inverse_root r = { .n = n, .h = h, .scale = 1, .add = 0.01 };
        ck_assert(run(&r, threads));
        if (first == NULL) first = r.u;
        for (int64_t i = 0; i < n; i++) {
            TEST_EACH(memcmp(first + i * n + i, r.u + i * n + i, (size_t)(n - i) * sizeof *first) ==
                          0,
                      "row %d, %d threads: other bits", (int)i, threads);
        }
        if (first != r.u) free(r.u);
    }
    free(first);
    free(h);
}
END_TEST

/* One direction is taken away, wherever the blocks lie. */
START_TEST(test_not_positive)
{
    static const int64_t places[] = { 0, 5, 191, 192, 299 };
    const int64_t n = 300;
    double *h = random_square(n);
    for (int i = 0; i < DT__COUNT_OF(places); i++) {
        dt__inverse_root r = { .n = n, .h = h, .scale = 1, .add = 0.01 };
        const double kept = h[places[i] * (n + 1)];
        h[places[i] * (n + 1)] = -1;
        ck_assert(!run(&r, 2));
        h[places[i] * (n + 1)] = kept;
        free(r.u);
    }
    free(h);
}
END_TEST

START_TEST(test_product)
{
    const double a[6] = { 1, 2, 3, 4, 5, 6 }, b[6] = { 1, 0, 2, 1, 0, 1 };
    double c[4] = { 1, 1, 1, 1 };
    dt__dense p = { 2, 2, 3, 2, false, a, 3, b, 2, c, 2 };
    dt_ctx *ctx = context(1);
    dt__dense_product(&p); /* [[5, 5], [14, 11]] twice, and 1 */
    ck_assert(c[0] == 11 && c[1] == 11 && c[2] == 29 && c[3] == 23);
    p.trans_a = true; /* a as [3][2]: [[1, 3, 5], [2, 4, 6]] */
    p.lda = 2;
    p.alpha = -1;
    dt__dense_product(&p); /* less [[7, 8], [10, 10]] */
    ck_assert(c[0] == 4 && c[1] == 3 && c[2] == 19 && c[3] == 13);
    p.k = 0;
    dt__dense_product(&p);
    ck_assert(c[0] == 4);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_dense64_suite(void)
{
    Suite *s = suite_create("dense64");
    TCase *t = tcase_create("dense64");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, test_product);
    tcase_add_loop_test(t, test_inverse, 0, DT__COUNT_OF(sizes));
    tcase_add_test(t, test_threads);
    tcase_add_test(t, test_not_positive);
    suite_add_tcase(s, t);
    return s;
}
