/* Gradient estimators of weights: what backward uses as the derivative of rounding. With u = (w -
 * w^) / s, where s is the distance to the next level and u = 0 beyond the last level, and the
 * strength d or k:
 *
 *     ste     dw = dy                                              [Bengio et al. 2013]
 *     ewgs    dw = dy (1 + d sign(dy) u)                           [Lee, Kim and Ham 2021, eq. 4]
 *     dsq     dw = dy k/2 (1 - tanh^2(k (1/2 - |u|))) / tanh(k/2)  [Gong et al. 2019, eq. 3]
 *     tanh    dw = dy (1 - tanh^2(w))                              [DoReFa: Zhou et al. 2016]
 *
 * dsq is the slope of a staircase of tanh, with mean 1 over a step: a growing k anneals it from
 * identity to rounding. DoReFa quantizes tanh(w); of it only the gradient is used, and codes are
 * those of w, as in files and runtimes. */
#include "autograd/tape.h"
#include "kernels/exp.h"
#include "nn/module.h"
#include "qat/derived_quant.h"
#include "qat/training/gap.h"

#include <math.h>

typedef struct point {
    float w, u, dy, strength;
} point;

static float ste(const point *p) { return p->dy; }

static float ewgs(const point *p)
{
    const float sign = p->dy > 0 ? 1.0F : p->dy < 0 ? -1.0F : 0.0F;
    return p->dy * (1 + p->strength * sign * p->u);
}

static float dsq(const point *p)
{
    const float k = p->strength, h = dt__tanh_f32(k * (0.5F - fabsf(p->u)));
    return p->dy * 0.5F * k * (1 - h * h) / dt__tanh_f32(0.5F * k);
}

static float slope_of_tanh(const point *p)
{
    const float h = dt__tanh_f32(p->w);
    return p->dy * (1 - h * h);
}

const char *const dt__estimator_names[] = { "ste", "ewgs", "dsq", "tanh", NULL };

static const struct {
    float (*gradient)(const point *p);
    double strength; /* default: EWGS's for few bits; DSQ's for a soft start */
    double most;
} estimators[] = {
    [DT_ESTIMATOR_STE] = { ste, 0, 0 },
    [DT_ESTIMATOR_EWGS] = { ewgs, 0.2, 2 },
    [DT_ESTIMATOR_DSQ] = { dsq, 2, 100 },
    [DT_ESTIMATOR_TANH] = { slope_of_tanh, 0, 0 },
};

typedef struct estimating {
    const dt__gap *g;
    int which;
    float strength, *d;
} estimating;

static void estimate_share(const void *args, const dt__share *share)
{
    const estimating of = *(const estimating *)args;
    const dt__gap *g = of.g;
    for (int64_t row = share->first; row < share->past; row++) {
        for (int64_t k = 0; k < g->columns; k++) {
            const int64_t i = row * g->columns + k;
            const point p = { g->w[i], dt__gap_at(g, row, k), of.d[i], of.strength };
            of.d[i] = estimators[of.which].gradient(&p);
        }
    }
}

dt_status dt__estimate(dt_tape *t, dt_tensor *x, dt_tensor *d, dt__codes *used)
{
    dt__gap g;
    const dt__fq *fq = x->ext;
    DT__TRY(dt__gap_open(t, x, used, &g));
    if (g.rows == 0) return DT_OK;
    const bool mapped = dt__is_mapped(&g.map);
    float *rows = mapped ? dt__alloc_array(x->ctx, x->count, sizeof *rows) : dt__values_mut(d);
    if (rows != NULL) {
        if (mapped) dt__rows_gather(&g.map, dt__values(d), rows);
        const estimating of = { &g, fq->estimator, (float)fq->strength, rows };
        dt__team *const threads = dt__threads_enter(x->ctx);
        dt__parallel(g.rows, 8 * g.columns, estimate_share, &of);
        dt__threads_leave(threads);
        if (mapped) dt__rows_scatter(&g.map, rows, dt__values_mut(d));
    }
    if (mapped) dt__release(x->ctx, rows);
    dt__gap_close(&g);
    return rows == NULL ? DT_ERR_NOMEM : DT_OK;
}

double dt_estimator_strength(int estimator)
{
    const bool known = estimator >= 0 && estimator < DT__COUNT_OF(estimators);
    return known ? estimators[estimator].strength : 0;
}

double dt__estimator_most(int estimator) { return estimators[estimator].most; }

dt_status dt_set_estimator(dt_module *m, int estimator, double strength)
{
    DT__NEED(dt_module_ctx(m), m);
    if (estimator < 0 || estimator >= DT__COUNT_OF(estimators)) {
        return dt_fail(m->ctx, DT_ERR_ARG, "set_estimator: %d is not one of the estimators",
                       estimator);
    }
    const double most = estimators[estimator].most;
    if (!(strength >= 0 && strength <= most)) {
        return dt_fail(m->ctx, DT_ERR_ARG, "set_estimator: strength is %g; that of %s is 0 ... %g",
                       strength, dt__estimator_names[estimator], most);
    }
    if (!dt_is_prepared(m)) {
        return dt_fail(m->ctx, DT_ERR_STATE, "set_estimator: the model is not prepared");
    }
    DT__EACH_MODULE(layer, m) {
        dt__fq *fq = dt__layer_quant(layer);
        if (fq == NULL) continue;
        fq->estimator = estimator;
        fq->strength = strength;
    }
    return DT_OK;
}
