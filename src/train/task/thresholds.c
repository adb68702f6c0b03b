/* Thresholds of two classes, or of bits, that maximize over the examples of a dataset
 *     f1        2 |P and T| / (|P| + |T|), P the examples whose logit is above it, T the labelled
 *     balanced  (|P and T| / |T| + |not P and not T| / |not T|) / 2
 * All cuts between different logits are compared. A threshold is 0 where the cut is there, else a
 * float halfway between the logits around it; of equal values the one nearest to 0, probability
 * 1/2, then the lower counts. */
#include "core/tensor.h"
#include "data/arrays.h"
#include "train/task/thresholds.h"

#include <math.h>

/* Number of scores above a cut, of labelled ones among them; and the same for all scores. */
typedef struct cut {
    int64_t above, hits, n, labelled;
} cut;

static double value_of(const cut *c, int what)
{
    const int64_t others = c->n - c->labelled, right = others - (c->above - c->hits);
    if (what == DT_THRESHOLD_F1) return 2 * (double)c->hits / (double)(c->above + c->labelled);
    return (double)(c->hits * others + right * c->labelled) /
           (2 * (double)c->labelled * (double)others);
}

/* A threshold below the first i of n descending scores, and not below the others. */
static float threshold_at(const dt__scored *s, int64_t n, int64_t i)
{
    if ((i == 0 || s[i - 1].score > 0) && (i == n || s[i].score <= 0)) return 0;
    if (i == 0) return (float)s[0].score;
    if (i == n) return nextafterf((float)s[n - 1].score, -INFINITY);
    const float halfway = (float)(0.5 * s[i - 1].score + 0.5 * s[i].score);
    return (double)halfway < s[i - 1].score ? halfway : (float)s[i].score;
}

static bool is_better(double value, float t, double best, float than)
{
    if (value != best) return value > best;
    return fabsf(t) != fabsf(than) ? fabsf(t) < fabsf(than) : t < than;
}

/* Chooses the threshold of one sorted column; false: all labels are the same, or a score is not
 * finite. */
static bool choose(const dt__scored *s, int64_t n, int what, dt__thresholds *out)
{
    cut c = { .n = n };
    double best = -1, half = 0;
    float at = 0;
    if (!isfinite(s[0].score) || !isfinite(s[n - 1].score)) return false;
    for (int64_t i = 0; i < n; i++) c.labelled += s[i].positive;
    if (c.labelled == 0 || c.labelled == n) return false;
    for (int64_t i = 0; i <= n; i++) {
        c.above = i;
        if (i > 0) c.hits += s[i - 1].positive;
        if (i > 0 && i < n && s[i - 1].score == s[i].score) continue;
        const double value = value_of(&c, what);
        if (i == 0 || s[i - 1].score > 0) half = value;
        const float t = threshold_at(s, n, i);
        if (!isfinite(t) || !is_better(value, t, best, at)) continue;
        best = value;
        at = t;
    }
    out->logit.v[out->logit.n] = (double)at;
    out->with += best;
    out->without += half;
    out->chosen++;
    return true;
}

/* Scores of class 1, or of each bit, [columns][n]. */
static void fill(const dt_dataset *d, const float *y, int64_t columns, dt__scored *s)
{
    const bool classes = d->target == DT_TARGET_CLASS;
    const int64_t n = d->count;
    for (int64_t i = 0; i < n; i++) {
        const float *bits = classes ? NULL : dt__array_target(d, i);
        for (int64_t k = 0; k < columns; k++) {
            const float score = classes ? y[2 * i + 1] - y[2 * i] : y[i * columns + k];
            const bool wanted = classes ? dt_dataset_label(d, i) == 1 : bits[k] == 1;
            s[k * n + i] = (dt__scored){ (double)score, (int32_t)k, wanted };
        }
    }
}

dt_status dt__choose_thresholds(const dt_dataset *d, const dt_tensor *outputs, int what,
                                dt__thresholds *out)
{
    const int64_t n = d->count, columns = d->target == DT_TARGET_CLASS ? 1 : dt_dataset_outputs(d);
    const float *y = dt_data(outputs);
    *out = (dt__thresholds){ .first_same = -1 };
    dt__scored *s = dt__alloc_array(d->ctx, n * columns, sizeof *s);
    if (s == NULL) return DT_ERR_NOMEM;
    fill(d, y, columns, s);
    dt__rank(s, n * columns);
    for (int64_t k = 0; k < columns; k++) {
        out->logit.v[k] = 0;
        if (!choose(s + k * n, n, what, out) && out->first_same < 0) out->first_same = k;
        out->logit.n++;
    }
    if (out->chosen > 0) out->with /= (double)out->chosen;
    if (out->chosen > 0) out->without /= (double)out->chosen;
    dt__release(d->ctx, s);
    return DT_OK;
}

int64_t dt__decided_class(const dt_reals *thresholds, const float *y, int64_t classes, int64_t step)
{
    if (thresholds == NULL || thresholds->n != 1 || classes != 2) {
        return dt__first_class(y, classes, step);
    }
    return (double)(y[step] - y[0]) > thresholds->v[0];
}
