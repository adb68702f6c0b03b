/* Average precision, and the area under the ROC curve by the statistic of Mann and Whitney. */
#include "train/task/ranking.h"

#include <math.h>
#include <stdlib.h>

static double key_of(const dt__scored *s) { return isnan(s->score) ? -INFINITY : s->score; }

static int before(const void *left, const void *right)
{
    const dt__scored *a = left, *b = right;
    if (a->column != b->column) return a->column < b->column ? -1 : 1;
    return (key_of(a) < key_of(b)) - (key_of(a) > key_of(b));
}

void dt__rank(dt__scored *s, int64_t n)
{
    if (n > 0) qsort(s, (size_t)n, sizeof *s, before);
}

/* Number of scores equal to the first of n, and how many of them are positive. */
static int64_t step_of(const dt__scored *s, int64_t n, int64_t *positives)
{
    int64_t k = 0;
    for (*positives = 0; k < n && key_of(&s[k]) == key_of(s); k++) *positives += s[k].positive;
    return k;
}

double dt__average_precision(const dt__scored *s, int64_t n)
{
    int64_t found = 0, positives;
    double sum = 0;
    for (int64_t i = 0; i < n;) {
        i += step_of(s + i, n - i, &positives);
        found += positives;
        sum += (double)positives * (double)found / (double)i;
    }
    return sum / (double)found; /* NaN without positives */
}

double dt__area_under_roc(const dt__scored *s, int64_t n)
{
    int64_t above = 0, below = 0, positives; /* positives and negatives counted so far */
    double pairs = 0;
    for (int64_t i = 0; i < n;) {
        const int64_t k = step_of(s + i, n - i, &positives);
        pairs += (double)(k - positives) * ((double)above + 0.5 * (double)positives);
        above += positives;
        below += k - positives;
        i += k;
    }
    return pairs / ((double)above * (double)below);
}
