/* Targets that are bits (multi-label classification); outputs are logits, one a label.
 *     loss              = binary cross entropy, the mean over all bits; training may minimize the
 *                         focal loss (below)
 *     macro_f1          = mean over labels of 2 |P and T| / (|P| + |T|): P the examples whose logit
 *                         is above 0 (probability above 1/2) or its threshold, T those with the
 *                         label. A label without either does not count
 *     average_precision = mean over labels that occur of the area under the curve of precision over
 *                         recall (train/task/ranking.h) */
#include "train/task/task.h"

#include <detent/experimental/ops.h>
#include <math.h>

enum { COST };

/* The focal loss, summed: with s = x of ones, -x of zeros, and w the factor of ones (else 1),
 *     w (1 - p)^gamma (-log p),  p = sigmoid(s);  -log(1 - p) = L = (s + |s|) / 2 + log(1 +
 *     exp(-|s|)), -log p = L - s */
static dt_tensor *focal(const dt__pass *p, dt_tensor *x)
{
    dt_tape *t = p->t;
    dt_tensor *one = dt_number(t, x, 1), *half = dt_number(t, x, 0.5);
    dt_tensor *sign = dt_sub(t, dt_add(t, p->target, p->target), one);
    dt_tensor *s = dt_mul(t, x, sign), *size = dt_abs(t, s);
    dt_tensor *tail = dt_log(t, dt_add(t, one, dt_exp(t, dt_neg(t, size))));
    dt_tensor *other = dt_add(t, dt_mul(t, half, dt_add(t, s, size)), tail);
    dt_tensor *gamma = dt_number(t, x, -p->objective.focal_gamma);
    dt_tensor *e = dt_mul(t, dt_exp(t, dt_mul(t, other, gamma)), dt_sub(t, other, s));
    if (p->weight != NULL) {
        e = dt_mul(t, e, dt_add(t, one, dt_mul(t, p->target, dt_sub(t, p->weight, one))));
    }
    return dt_sum(t, e, NULL);
}

static dt_tensor *loss(const dt__pass *p)
{
    dt_tensor *y = dt__answer(p);
    if (p->objective.kind == DT__LOSS_FOCAL) return focal(p, y);
    return dt_bce_with_logits(p->t, y, p->target, p->weight, DT_REDUCE_SUM);
}

static void count(dt__tally *s, const float *y, const void *target)
{
    const float *bits = target;
    for (int64_t i = 0; i < s->places; i++) {
        const double x = (double)y[i];
        const bool decides = s->thresholds != NULL && s->thresholds->n == s->places;
        const bool wanted = bits[i] == 1, found = x > (decides ? s->thresholds->v[i] : 0);
        s->sum[COST] += log1p(exp(-fabs(x))) + (x > 0 ? x : 0) - (wanted ? x : 0);
        s->region[DT__WANTED][i] += wanted;
        s->region[DT__FOUND][i] += found;
        s->region[DT__BOTH][i] += wanted && found;
        s->scored[s->n_scored++] = (dt__scored){ x, (int32_t)i, wanted };
    }
}

static double mean_loss(const dt__tally *s)
{
    return s->sum[COST] / ((double)s->examples * (double)s->places);
}

static double average_precision(const dt__tally *s)
{
    double sum = 0, n = 0;
    dt__rank(s->scored, s->n_scored);
    for (int64_t i = 0; i < s->places; i++) {
        if (s->region[DT__WANTED][i] == 0) continue;
        sum += dt__average_precision(s->scored + i * s->examples, s->examples);
        n++;
    }
    return sum / n;
}

#define PERCENT .unit = "%", .scale = 100, .decimals = 2, .larger_is_better = true

const dt__task dt__task_bits = {
    .measure = { { { "macro_f1", "macro f1", PERCENT }, dt__mean_overlap, 0 },
                 { { "average_precision", "ap", PERCENT }, average_precision, 0 },
                 { { "loss", "loss", .scale = 1, .decimals = 4 }, mean_loss, 0 } },
    .counts_places = true,
    .scores = true,
    .loss = loss,
    .run = dt__run_outputs,
    .add = dt__add_outputs,
    .count = count,
};
