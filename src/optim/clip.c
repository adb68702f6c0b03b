/* Clipping by the global norm of all gradients.
 *     norm = sqrt(sum of g^2 over all parameters)      g *= min(1, limit / (norm + 1e-6))
 * [Pascanu et al. 2013; the 1e-6 is PyTorch's]. The sum is made in double: blocks of 1024 elements,
 * then pairs of sums in a tree whose shape depends on the counts alone, so that no number of threads
 * changes a bit. */
#include "nn/module.h"

#include <detent/optim.h>
#include <math.h>

#define BLOCK 1024

/* Four sums side by side, so that one addition need not wait for the other. */
static double block_f32(const float *x, int64_t n)
{
    double s[4] = { 0.0 };
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        for (int k = 0; k < 4; k++) s[k] += (double)x[i + k] * (double)x[i + k];
    }
    for (; i < n; i++) s[0] += (double)x[i] * (double)x[i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

static double block_f64(const double *x, int64_t n)
{
    double s[4] = { 0.0 };
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        for (int k = 0; k < 4; k++) s[k] += x[i + k] * x[i + k];
    }
    for (; i < n; i++) s[0] += x[i] * x[i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

static double sum_squares(const dt_tensor *x, int64_t first, int64_t n)
{
    if (n <= BLOCK) {
        return x->dtype == DT_F32 ? block_f32((const float *)dt__data(x) + first, n)
                                  : block_f64((const double *)dt__data(x) + first, n);
    }
    const int64_t half = dt__round_up(dt__ceil_div(n, 2), BLOCK);
    return sum_squares(x, first, half) + sum_squares(x, first + half, n - half);
}

static double sum_params(const dt__param *params, int64_t n)
{
    if (n == 0) return 0.0;
    if (n == 1) {
        const dt_tensor *g = params[0].x->grad;
        return g == NULL ? 0.0 : sum_squares(g, 0, g->count);
    }
    return sum_params(params, n / 2) + sum_params(params + n / 2, n - n / 2);
}

dt_status dt_clip_grad_norm(dt_module *m, dt_tape *t, double limit, double *norm)
{
    if (t->status != DT_OK) return t->status;
    if (isnan(limit)) return dt_tape_fail(t, DT_ERR_ARG, "clip_grad_norm: the limit is NaN");
    const dt__param *params;
    int64_t n;
    const dt_status s = dt__module_params(m, &params, &n);
    if (s != DT_OK) return dt__tape_adopt(t, s);
    const double found = sqrt(sum_params(params, n));
    if (norm != NULL) *norm = found;
    const double factor = limit / (found + 1e-6);
    if (!(limit > 0.0) || !isfinite(found) || factor >= 1.0) return DT_OK;
    for (int64_t i = 0; i < n; i++) {
        if (params[i].x->grad != NULL) dt_mul_(t, params[i].x->grad, NULL, factor);
    }
    return t->status;
}
