/* Results of a run as single numbers, and over several runs
 *     mean = sum x / n        deviation = sqrt(sum (x - mean)^2 / (n - 1)), of the sample */
#include "report/page_spread.h"

#include <detent/experimental/data.h>

#include <math.h>
#include <stdio.h>

dt_spread dt__page_spread_of(const double *value, int64_t n)
{
    dt_spread s = { 0, (double)NAN, (double)NAN };
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(value[i])) continue;
        sum += value[i];
        s.n++;
    }
    if (s.n > 0) s.mean = sum / (double)s.n;
    for (int64_t i = 0; i < n; i++) {
        if (isfinite(value[i])) squares += (value[i] - s.mean) * (value[i] - s.mean);
    }
    if (s.n > 1) s.deviation = sqrt(squares / (double)(s.n - 1));
    return s;
}

static const dt__branch *final_row(const dt__page_run *r)
{
    const dt__branch *row = dt__field(r->summary.root, "converted");
    return dt__children(row) != NULL ? row : dt__field(r->summary.root, "float");
}

double dt__page_result(const dt__page_run *r, const char *metric)
{
    return dt__field_number(final_row(r), metric);
}

int64_t dt__page_bytes(const dt__page_run *r)
{
    return dt__whole(dt__field_number(final_row(r), "bytes"));
}

static const dt__series *validation(const dt__page_run *r, const char *metric, dt__page_phase phase)
{
    char name[DT_MAX_METRIC_NAME];
    snprintf(name, sizeof name, "validation_%s", metric);
    return dt__page_series(r, name, NULL, phase);
}

/* Whether QAT had no update: the result is of a quantized model, but all evaluations of a float
 * one. */
static bool never_quantized(const dt__page_run *r, const char *metric)
{
    const bool converted = dt__children(dt__field(r->summary.root, "converted")) != NULL;
    const dt__series *qat = validation(r, metric, DT__PAGE_QAT);
    const dt__series *before = validation(r, metric, DT__PAGE_FLOAT);
    return converted && (qat == NULL || qat->n == 0) && before != NULL && before->n > 0;
}

double dt__page_validated(const dt__page_run *r, const char *metric)
{
    const dt__branch *training = dt__field(r->summary.root, "training");
    const double best = dt__field_number(training, "best_step");
    const dt__series *s = validation(r, metric, DT__PAGE_QAT);
    if (never_quantized(r, metric)) return (double)NAN;
    if (s == NULL) s = validation(r, metric, DT__PAGE_FLOAT);
    if (s == NULL || s->n == 0) return (double)NAN;
    int64_t i = s->n - 1;
    while (dt__field_number(training, "ends_with_best") > 0 && i > 0 && s->x[i] != best) i--;
    return s->y[i];
}

void dt__put_spread(dt__chars *t, const dt__page_metric *m, dt_spread s)
{
    dt__page_fixed(t, s.mean * m->scale, m->decimals);
    if (s.n > 1) {
        dt__put_text(t, " ± ");
        dt__page_fixed(t, s.deviation * m->scale, m->decimals);
    }
    if (*m->unit != 0) dt__page(t, " %s", m->unit);
}
