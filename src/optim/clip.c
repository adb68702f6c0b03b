/* Clipping by the global norm of all gradients.
 *     norm = sqrt(sum of g^2 over all parameters)      g *= min(1, limit / (norm + 1e-6))
 * [Pascanu et al. 2013; the 1e-6 is PyTorch's]. Squares are summed in double, first within chunks,
 * then pairwise in a tree whose shape depends on the numbers of elements only, so the number of
 * threads does not change the result. */
#include "kernels/kernels.h"
#include "nn/module.h"
#include "optim/slots.h"

#include <detent/experimental/optim.h>
#include <float.h>
#include <math.h>

static double add_up(const double *partial, int64_t n)
{
    if (n <= 1) return n == 0 ? 0.0 : partial[0];
    return add_up(partial, n / 2) + add_up(partial + n / 2, n - n / 2);
}

double dt__norm_of_sums(const double *partial, int64_t n) { return sqrt(add_up(partial, n)); }

double dt__factor_of_norm(double limit, double norm)
{
    if (!(limit > 0.0) || !isfinite(norm)) return 1.0;
    return fmax(fmin(1.0, limit / (norm + 1e-6)), DBL_MIN); /* never 0 */
}

static int64_t chunks_of(const dt__param *p)
{
    return p->x->grad == NULL ? 0 : dt__ceil_div(p->x->grad->count, DT__CHUNK);
}

static dt_status norm_of(dt_ctx *ctx, const dt__param *params, int64_t n, double *norm)
{
    int64_t chunks = 0;
    for (int64_t i = 0; i < n; i++) chunks += chunks_of(&params[i]);
    double *partial = dt__alloc_array(ctx, chunks, sizeof *partial);
    if (partial == NULL) return DT_ERR_NOMEM;
    double *next = partial;
    dt__team *const threads = dt__threads_enter(ctx);
    for (int64_t i = 0; i < n; i++) {
        const dt_tensor *g = params[i].x->grad;
        if (g == NULL) continue;
        dt__kernels_of(ctx, g->dtype)->sum_squares(g->count, dt__values(g), next);
        next += chunks_of(&params[i]);
    }
    dt__threads_leave(threads);
    *norm = dt__norm_of_sums(partial, chunks);
    dt__release(ctx, partial);
    return DT_OK;
}

dt_status dt_clip_factor(dt_module *m, dt_tape *t, double limit, double *norm, double *factor)
{
    DT__NEED3(dt_module_ctx(m), m, t, factor);
    *factor = 1.0;
    if (t->status != DT_OK) return t->status;
    if (isnan(limit)) return dt_tape_fail(t, DT_ERR_ARG, "clip_grad_norm: the limit is NaN");
    const dt__param *params;
    int64_t n;
    double found = 0.0;
    dt_status s = dt__module_params(m, &params, &n);
    if (s == DT_OK) s = norm_of(t->ctx, params, n, &found);
    if (s != DT_OK) return dt__tape_adopt(t, s);
    if (norm != NULL) *norm = found;
    *factor = dt__factor_of_norm(limit, found);
    return DT_OK;
}

dt_status dt_clip_grad_norm(dt_module *m, dt_tape *t, double limit, double *norm)
{
    DT__NEED2(dt_module_ctx(m), m, t);
    double factor;
    const dt__param *params;
    int64_t n;
    DT__TRY(dt_clip_factor(m, t, limit, norm, &factor));
    if (factor == 1.0) return DT_OK;
    const dt_status s = dt__module_params(m, &params, &n);
    if (s != DT_OK) return dt__tape_adopt(t, s);
    for (int64_t i = 0; i < n; i++) {
        if (params[i].x->grad != NULL) dt_mul_(t, params[i].x->grad, NULL, factor);
    }
    return t->status;
}
