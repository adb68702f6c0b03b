/* Examples of anomaly detection: quantiles of the errors of normal and of anomalous examples,
 *     error of an example = mean over its values of (y - x)^2
 * and the share of anomalous ones whose error is above that of 99 % of the normal ones. */
#include "core/tensor.h"
#include "core/comparisons.h"
#include "train/task/examples.h"

#include <math.h>
#include <stdlib.h>

static const double shares[] = { 0, 0.1, 0.5, 0.9, 0.99, 1 };

static double error_of(const dt_tensor *x, const float *y)
{
    const float *v = dt_data(x);
    double sum = 0;
    for (int64_t k = 0; k < x->count; k++) {
        const double d = (double)y[k] - (double)v[k];
        sum += d * d;
    }
    return sum / (double)dt__max_i64(x->count, 1);
}

/* Writes the errors of normal examples from the beginning of `error`, of anomalous ones from its
 * end. */
static dt_status measure(const dt__examples *e, double *error, int64_t count[2])
{
    dt_tensor *x, *target;
    for (int64_t i = 0; i < e->n; i++) {
        DT__TRY(dt__examples_at(e, i, &x, &target));
        const bool anomalous = *(const int32_t *)dt_data(target) != 0;
        const double own = x->count == e->each ? error_of(x, e->y + i * e->each) : NAN;
        if (!isfinite(own)) continue;
        error[anomalous ? e->n - 1 - count[1] : count[0]] = own;
        count[anomalous]++;
    }
    return DT_OK;
}

/* The least of n sorted numbers v[i] for which (i + 1) / n is at least `share`. */
static double quantile(const double *v, int64_t n, double share)
{
    return v[dt__max_i64((int64_t)ceil(share * (double)n) - 1, 0)];
}

static void put_errors(dt__chars *t, const char *label, const double *v, int64_t n)
{
    dt__put_text(t, "{\"label\": ");
    DT__PUT_ALL(t, DT__QUOTED(label), ", \"count\": ", n);
    dt__put_text(t, ", \"quantiles\": [");
    for (int i = 0; i < DT__COUNT_OF(shares) && n > 0; i++) {
        if (i > 0) dt__put_text(t, ", ");
        dt__put_real(t, quantile(v, n, shares[i]));
    }
    dt__put_text(t, "]}");
}

dt_status dt__examples_of_anomaly(const dt__examples *e)
{
    int64_t n[2] = { 0, 0 }, above = 0;
    double *error = dt__alloc_array(e->ctx, e->n, sizeof *error);
    if (error == NULL) return DT_ERR_NOMEM;
    const dt_status status = measure(e, error, n);
    const double *anomalous = error + e->n - n[1];
    qsort(error, (size_t)n[0], sizeof *error, dt__by_double);
    qsort(error + e->n - n[1], (size_t)n[1], sizeof *error, dt__by_double);
    const double limit = n[0] > 0 ? quantile(error, n[0], 0.99) : 0;
    for (int64_t i = 0; i < n[1]; i++) above += anomalous[i] > limit;
    dt__put_text(e->t, "\"errors\": [");
    put_errors(e->t, "normal", error, n[0]);
    dt__put_text(e->t, ",\n  ");
    put_errors(e->t, "anomalous", anomalous, n[1]);
    dt__put_text(e->t, "],\n \"found\": ");
    dt__put_real(e->t, n[1] > 0 ? (double)above / (double)n[1] : 0);
    dt__release(e->ctx, error);
    return status;
}

dt_status dt__put_anomaly_example(const dt__examples *e, int64_t i, const float *y)
{
    dt_tensor *x, *target;
    DT__TRY(dt__examples_at(e, i, &x, &target));
    const double error = x->count == e->each ? error_of(x, y) : (double)NAN;
    dt__put_text(e->t, "{\"index\": ");
    dt__put_integer(e->t, i);
    dt__put_text(e->t, ", \"error\": ");
    if (isfinite(error)) dt__put_real(e->t, error);
    else dt__put_text(e->t, "null");
    dt__put_text(e->t, ", \"input\": ");
    dt__put_shown_input(e, x);
    dt__put_text(e->t, ", \"output\": ");
    if (x->count == e->each) dt__put_shown(e, x, y);
    else dt__put_text(e->t, "null");
    dt__put_text(e->t, "}");
    return DT_OK;
}
