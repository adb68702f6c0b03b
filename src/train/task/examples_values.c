/* Examples of regression: targets and outputs of up to 400 examples, evenly spaced; of quantiles
 * the median. */
#include "core/tensor.h"
#include "data/dataset.h"
#include "train/task/examples.h"

#include <math.h>

#define POINTS 400
#define OUTPUTS 6 /* outputs per example that are shown */

static dt_status put_points(const dt__examples *e, int64_t outputs)
{
    dt_tensor *x, *target;
    const int64_t shown = dt__min_i64(POINTS, e->n);
    bool first = true;
    for (int64_t p = 0; p < shown; p++) {
        const int64_t i = p * e->n / shown;
        DT__TRY(dt__examples_at(e, i, &x, &target));
        const float *wanted = dt_data(target), *y = e->y + i * e->each;
        const int64_t levels = dt__max_i64(1, e->d->quantiles.n);
        for (int64_t k = 0; k < outputs; k++) {
            const double value = (double)y[k * levels + levels / 2];
            if (!isfinite(value)) continue;
            dt__put_comma(e->t, &first);
            dt__put_text(e->t, "[");
            DT__PUT_ALL(e->t, k, ",", (double)wanted[k], ",", value);
            dt__put_text(e->t, "]");
        }
    }
    return DT_OK;
}

dt_status dt__examples_of_values(const dt__examples *e)
{
    const int64_t outputs = dt__min_i64(dt_dataset_outputs(e->d), OUTPUTS);
    dt__put_text(e->t, "\"outputs\": [");
    for (int64_t k = 0; k < outputs; k++) {
        if (k > 0) dt__put_text(e->t, ", ");
        dt__put_class(e, k);
    }
    dt__put_text(e->t, "],\n \"points\": [");
    DT__TRY(put_points(e, outputs));
    dt__put_text(e->t, "]");
    return DT_OK;
}
