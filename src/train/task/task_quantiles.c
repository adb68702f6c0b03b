/* Targets that are numbers, of which the model gives quantiles (loss quantile): for each target k
 * its levels q_0 < q_1 < ... side by side, y[k, i].
 *     loss, pinball = mean over values and levels of max(q e, (q - 1) e), e = target - y, which the
 *                     quantile q of the target minimizes [Koenker and Bassett 1978, equation 2.1]
 *     coverage      = share of values in [y of the lowest level, y of the highest]; of one level:
 *                     at most its y
 *     crossings     = share of values of which a y is larger than that of the next level, or NaN */
#include "core/tensor.h"
#include "train/task/task.h"

#include <detent/experimental/ops.h>

enum { COST, COVERED, CROSSED };

static dt_tensor *loss(const dt__pass *p)
{
    dt_tensor *level = p->weight, *y = dt__answer(p);
    if (y == NULL || y->rank != 2 || p->target->rank != 2) return NULL;
    const int64_t n = y->dims[0], targets = p->target->dims[1], levels = level->dims[0];
    y = dt_reshape(p->t, y, 3, (const int64_t[]){ n, targets, levels });
    dt_tensor *target = dt_reshape(p->t, p->target, 3, (const int64_t[]){ n, targets, 1 });
    dt_tensor *e = dt_sub(p->t, target, y);
    dt_tensor *under = dt_mul(p->t, e, level);
    dt_tensor *sum = dt_sum(p->t, dt_maximum(p->t, under, dt_sub(p->t, under, e)), NULL);
    return dt_mul(p->t, sum, dt_number(p->t, sum, 1 / (double)levels));
}

static void count(dt__tally *s, const float *y, const void *target)
{
    const float *wanted = target;
    const int n = s->levels->n;
    for (int64_t k = 0; k < s->places; k++, y += n) {
        const double t = (double)wanted[k];
        bool crosses = false;
        for (int i = 0; i < n; i++) {
            const double e = t - (double)y[i], q = s->levels->v[i];
            s->sum[COST] += (e > 0 ? q * e : (q - 1) * e) / n;
            crosses |= i > 0 && !(y[i - 1] <= y[i]);
        }
        s->sum[COVERED] += (n == 1 || t >= (double)y[0]) && t <= (double)y[n - 1];
        s->sum[CROSSED] += crosses;
    }
}

static double pinball(const dt__tally *s) { return dt__mean_sum(s, COST); }

static double coverage(const dt__tally *s) { return dt__mean_sum(s, COVERED); }

static double crossings(const dt__tally *s) { return dt__mean_sum(s, CROSSED); }

#define PERCENT .unit = "%", .scale = 100, .decimals = 2

const dt__task dt__task_quantiles = {
    .measure = { { { "pinball", "pinball", .scale = 1, .decimals = 4 }, pinball, 0 },
                 { { "coverage", "coverage", PERCENT, .larger_is_better = true }, coverage, 0 },
                 { { "crossings", "crossings", PERCENT }, crossings, 0 },
                 { { "loss", "loss", .scale = 1, .decimals = 6 }, pinball, 0 } },
    .loss = loss,
    .run = dt__run_outputs,
    .add = dt__add_outputs,
    .count = count,
};
