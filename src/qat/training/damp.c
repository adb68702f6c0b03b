/* Damping: weights that oscillate between two codes are pulled to the nearer one.
 *
 *     L = lambda sum (clip(w) - w^)^2,     dw = 2 lambda (w - w^) where w is within the levels
 *
 * w^ counts as a constant, and scales get no gradient.   [Nagel et al. 2022, Overcoming
 * Oscillations in Quantization-Aware Training, equation 5]
 *
 * Where a layer computes the weight (a folded norm, an adapter), w is the computed weight, and the
 * layer's parameters get the gradient. */
#include "autograd/tape.h"
#include "nn/module.h"
#include "qat/derived_quant.h"
#include "qat/folded_range.h"
#include "qat/training/gap.h"

typedef struct damping {
    const dt__gap *g;
    float lambda, *d;
} damping;

static void damp_share(const void *args, const dt__share *share)
{
    const damping of = *(const damping *)args;
    const dt__gap *g = of.g;
    for (int64_t row = share->first; row < share->past; row++) {
        for (int64_t k = 0; k < g->columns; k++) {
            const int64_t i = row * g->columns + k;
            const float u = dt__gap_at(g, row, k);
            of.d[i] = u == 0 ? 0 : 2 * of.lambda * (g->w[i] - g->value[i]);
        }
    }
}

/* *out = dw, in the shape of x; NULL: x is disabled. */
static dt_status gradient(dt_tape *t, dt_tensor *x, double lambda, dt_tensor **out)
{
    dt__gap g;
    *out = NULL;
    DT__TRY(dt__gap_open(t, x, NULL, &g));
    if (g.rows == 0) return DT_OK;
    float *rows = dt__is_mapped(&g.map) ? dt__alloc_array(x->ctx, x->count, sizeof *rows) : NULL;
    dt_status s = dt__is_mapped(&g.map) && rows == NULL
                      ? DT_ERR_NOMEM
                      : dt__tensor_create_raw(x->ctx, DT_F32, x->rank, x->dims, out);
    if (s == DT_OK) {
        float *d = dt__values_mut(*out);
        const damping of = { &g, (float)lambda, rows != NULL ? rows : d };
        dt__team *const threads = dt__threads_enter(x->ctx);
        dt__parallel(g.rows, g.columns, damp_share, &of);
        dt__threads_leave(threads);
        if (rows != NULL) dt__rows_scatter(&g.map, rows, d);
    }
    dt__release(x->ctx, rows);
    dt__gap_close(&g);
    return s;
}

static dt_status damp_param(dt_tape *t, dt_tensor *x, double lambda)
{
    dt_tensor *d;
    DT__TRY(gradient(t, x, lambda, &d));
    return d == NULL ? DT_OK : dt__accumulate(t, x, d);
}

static dt_status damp_derived(dt_tape *t, const dt_module *layer, const dt__fq *like, double lambda)
{
    dt_tensor *d, *w = dt__derived_weight(t, layer, dt__entry_find(layer, "weight")->x);
    const dt__fq fq = dt__range_folded(t, layer, like);
    dt_tensor *x = dt__fake_quant_as(t, w, &fq);
    DT__TRY(dt_tape_status(t));
    DT__TRY(gradient(t, x, lambda, &d));
    if (d == NULL || !dt_requires_grad(w)) {
        dt_tensor_free(d);
        return DT_OK;
    }
    const dt_status s = dt_backward(t, w, d);
    dt_tensor_free(d);
    return s;
}

dt_status dt_damp(dt_module *m, dt_tape *t, double lambda)
{
    DT__NEED2(dt_module_ctx(m), m, t);
    if (!(lambda >= 0 && lambda <= 1e30)) {
        return dt_fail(m->ctx, DT_ERR_ARG, "damp: lambda is %g; it must be at least 0", lambda);
    }
    DT__EACH_MODULE(layer, m) {
        const dt__fq *derived = dt__derived_quant(layer);
        const dt__entry *w = dt__entry_find(layer, "weight");
        dt_tape_reset(t);
        if (derived != NULL) {
            DT__TRY(damp_derived(t, layer, derived, lambda));
        } else if (w != NULL && dt_is_fake_quant(w->x) && dt_requires_grad(w->x) &&
                   dt__entry_is_first(m, w)) {
            DT__TRY(damp_param(t, w->x, lambda));
        }
    }
    dt_tape_reset(t);
    return DT_OK;
}
