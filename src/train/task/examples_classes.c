/* Examples of classification: the mistakes of largest loss, worst first. */
#include "core/tensor.h"
#include "train/task/examples.h"

#include <math.h>

#define MISTAKES 18

/* -log softmax(y)[k] */
static double cost_of(const float *y, int64_t classes, int64_t k)
{
    float most = -INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < classes; i++) most = fmaxf(most, y[i]);
    for (int64_t i = 0; i < classes; i++) sum += exp((double)y[i] - (double)most);
    return log(sum) + (double)most - (double)y[k];
}

dt_status dt__put_class_example(const dt__examples *e, int64_t i, const float *y)
{
    dt_tensor *x, *target;
    const int64_t found = dt__first_class(y, e->each, 1);
    const double share = exp(-cost_of(y, e->each, found));
    DT__TRY(dt__examples_at(e, i, &x, &target));
    dt__put_text(e->t, "{\"index\": ");
    DT__PUT_ALL(e->t, i, ", \"label\": ");
    dt__put_class(e, dt_dataset_label(e->d, i));
    dt__put_text(e->t, ", \"found\": ");
    dt__put_class(e, found);
    dt__put_text(e->t, ", \"share\": ");
    if (isfinite(share)) dt__put_real(e->t, share);
    else dt__put_text(e->t, "null");
    dt__put_text(e->t, ", \"picture\": ");
    dt__put_shown_input(e, x);
    dt__put_text(e->t, "}");
    return DT_OK;
}

static dt_status put_mistakes(const dt__examples *e, double *cost)
{
    int64_t mistakes = 0, place[MISTAKES];
    for (int64_t i = 0; i < e->n; i++) {
        const float *y = e->y + i * e->each;
        const int label = dt_dataset_label(e->d, i);
        const bool wrong = dt__first_class(y, e->each, 1) != label;
        mistakes += wrong;
        cost[i] = wrong ? cost_of(y, e->each, label) : -1;
    }
    const int64_t shown = dt__largest(cost, e->n, 0, MISTAKES, place);
    DT__PUT_ALL(e->t, "\"mistakes\": ", mistakes);
    dt__put_text(e->t, ", \"worst\": [");
    for (int64_t i = 0; i < shown; i++) {
        dt__put_text(e->t, i > 0 ? ",\n  " : "\n  ");
        DT__TRY(dt__put_class_example(e, place[i], e->y + place[i] * e->each));
    }
    dt__put_text(e->t, "]");
    return DT_OK;
}

dt_status dt__examples_of_classes(const dt__examples *e)
{
    double *cost = dt__alloc_array(e->ctx, e->n, sizeof *cost);
    if (cost == NULL) return DT_ERR_NOMEM;
    const dt_status s = put_mistakes(e, cost);
    dt__release(e->ctx, cost);
    return s;
}
