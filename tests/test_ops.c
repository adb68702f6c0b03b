/* Every op of ops.inc, every case beside it, every check: a table is printed, and a hole in it is a
 * failure. */
#include "testing.h"

#include "ops/ops_list.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define DT__OP(name) extern const dt__op_cases dt__cases_of_##name;
#include "ops/ops.inc"
#undef DT__OP

static const dt__op_cases *const all[] = {
#define DT__OP(name) &dt__cases_of_##name,
#include "ops/ops.inc"
#undef DT__OP
};

static int n_in(const dt__case *k)
{
    if (k->n_in > 0) return k->n_in;
    int n = 0;
    while (n < DT__CASE_IN && (k->in[n].r != 0 || k->in[n].dims[0] != 0 || k->in[n].dims[1] != 0)) n++;
    return n;
}

static int rank_of(const dt__case_tensor *x)
{
    if (x->r != 0) return x->r == DT__SCALAR ? 0 : x->r;
    int r = DT_MAX_RANK;
    while (r > 0 && x->dims[r - 1] == 0) r--;
    return r;
}

static double random_of(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (double)(*s >> 40) / (double)(1 << 24);
}

static dt_tensor *make(dt_ctx *ctx, const dt__case_tensor *x, dt_dtype real, uint64_t seed)
{
    const dt_dtype other = real == DT_F32 ? DT_F64 : DT_F32;
    const dt_dtype d = x->dtype != DT_F32 ? x->dtype : x->other ? other : real;
    dt_tensor *y;
    TEST_OK(ctx, dt_tensor_create(ctx, d, rank_of(x), x->dims, &y));
    const bool ranged = x->low != 0 || x->high != 0;
    const double low = ranged ? x->low : -1, high = ranged ? x->high : 1;
    char *p = dt__data_mut(y);
    for (int64_t i = 0; i < y->count; i++) {
        double v = low + random_of(&seed) * (high - low);
        if (x->given) v = x->values[i];
        else v = x->dtype != DT_F32 ? floor(v) : (double)(float)v;
        switch (d) {
        case DT_F32: ((float *)p)[i] = (float)v; break;
        case DT_F64: ((double *)p)[i] = v; break;
        case DT_I32: ((int32_t *)p)[i] = (int32_t)v; break;
        case DT_I64: ((int64_t *)p)[i] = (int64_t)v; break;
        default: p[i] = (char)v;
        }
    }
    return y;
}

static double at(const dt_tensor *x, int64_t k)
{
    const void *p = dt__data(x);
    int64_t o = dt__offset_of(k, x->rank, x->dims, x->strides);
    switch (x->dtype) {
    case DT_F32: return (double)((const float *)p)[o];
    case DT_F64: return ((const double *)p)[o];
    case DT_I32: return ((const int32_t *)p)[o];
    case DT_I64: return (double)((const int64_t *)p)[o];
    default: return ((const uint8_t *)p)[o];
    }
}

static void one(const dt_op *op, const dt__case *k, dt_dtype real)
{
    dt_ctx *ctx;
    dt_tape *t;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_tensor *in[DT__CASE_IN];
    const int n = n_in(k);
    for (int i = 0; i < n; i++) {
        in[i] = make(ctx, &k->in[i], real, (uint64_t)i + 7);
        if (op->backward != NULL && dt__is_float(in[i]->dtype) && op->role[i] != DT_WRITE) dt_set_requires_grad(in[i], true);
    }
    dt_seed(ctx, 1);
    dt_tensor *y = dt_apply(t, op, in, n, k->options);
    if (k->fails != DT_OK) {
        if (dt_tape_status(t) != k->fails || (k->says && !strstr(dt_error(ctx), k->says)))
            printf("%s/%s: got %s: %s\n", op->name, k->name, dt_status_name(dt_tape_status(t)), dt_error(ctx));
    } else if (y == NULL) {
        printf("%s/%s: %s\n", op->name, k->name, dt_error(ctx));
    } else {
        for (int i = 0; i < k->n_y; i++) {
            if (!test_near(at(y, i), k->y[i], 1e-6, 1e-6)) printf("%s/%s: y[%d] %g not %g\n", op->name, k->name, i, at(y, i), k->y[i]);
        }
        if (real == DT_F64 && op->backward && !k->rough && y->count && y->requires_grad) {
            dt_tensor *up = make(ctx, &(dt__case_tensor){ .r = y->rank ? y->rank : DT__SCALAR, .dims = {0}, .low=-1, .high=1 }, real, 99);
            dt_tensor_free(up);
            TEST_OK(ctx, dt_tensor_create(ctx, real, y->rank, y->dims, &up));
            uint64_t seed = 5;
            for (int64_t i = 0; i < up->count; i++) ((double *)dt__data_mut(up))[i] = random_of(&seed) - 0.5;
            TEST_OK(ctx, dt_backward(t, y, up));
            dt_tape_reset(t);
            dt_no_grad(t, true);
            for (int i = 0; i < n; i++) {
                if (!in[i]->requires_grad) continue;
                double worst = 0;
                for (int64_t e = 0; e < in[i]->count; e++) {
                    double *p = (double *)dt__data_mut(in[i]) + e, v = *p, f[2];
                    for (int s = 0; s < 2; s++) {
                        *p = v + (s ? 1e-5 : -1e-5);
                        dt_seed(ctx, 1);
                        dt_tensor *z = dt_apply(t, op, in, n, k->options);
                        f[s] = 0;
                        for (int64_t q = 0; q < z->count; q++) f[s] += at(z, q) * at(up, q);
                        dt_tape_reset(t);
                    }
                    *p = v;
                    double err = fabs((f[1] - f[0]) / 2e-5 - at(in[i]->grad, e));
                    if (!(err < worst)) worst = err;
                }
                if (getenv("V")) printf("%s/%s %d: %g\n", op->name, k->name, i, worst);
                if (!(worst < 1e-7)) printf("%s/%s: gradient %d off by %g\n", op->name, k->name, i, worst);
            }
            dt_tensor_free(up);
        }
    }
    for (int i = 0; i < n; i++) dt_tensor_free(in[i]);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

START_TEST(every_case)
{
    for (int i = 0; i < DT__COUNT_OF(all); i++) {
        for (int k = 0; k < all[i]->n; k++) {
            one(all[i]->op, &all[i]->cases[k], DT_F32);
            one(all[i]->op, &all[i]->cases[k], DT_F64);
        }
    }
}
END_TEST

Suite *test_ops_suite(void)
{
    Suite *s = suite_create("ops");
    TCase *c = tcase_create("ops");
    tcase_add_test(c, every_case);
    suite_add_tcase(s, c);
    return s;
}
