/* Metrics per class (dt_class_scores). */
#include "core/tensor.h"
#include "train/task/task.h"

#include <math.h>

#define BINS 15

enum { LABELLED, PRECISION, RECALL, F1, AREA, COLUMNS };

/* Probabilities of the classes, for one example. */
static void softmax(int64_t classes, const float *y, double *p)
{
    const int64_t best = dt__first_class(y, classes, 1);
    double sum = 0;
    for (int64_t k = 0; k < classes; k++) sum += p[k] = exp((double)y[k] - (double)y[best]);
    for (int64_t k = 0; k < classes; k++) p[k] /= sum;
}

/* The calibration error of probabilities [n, classes]. */
static double calibration_error(const dt_dataset *d, int64_t classes, const double *p)
{
    double right[BINS] = { 0 }, sure[BINS] = { 0 }, sum = 0;
    const int64_t n = dt_dataset_count(d);
    for (int64_t i = 0; i < n; i++, p += classes) {
        int64_t best = 0;
        for (int64_t k = 1; k < classes; k++) best = p[k] > p[best] ? k : best;
        const double place = ceil(p[best] * BINS) - 1; /* NaN: the last bin */
        const int bin = place >= 0 && place < BINS ? (int)place : BINS - 1;
        right[bin] += dt_dataset_label(d, i) == best;
        sure[bin] += p[best];
    }
    for (int b = 0; b < BINS; b++) sum += fabs(right[b] - sure[b]);
    return sum / (double)n;
}

static double area_of(const dt_dataset *d, int64_t classes, int64_t class, const double *p,
                      dt__scored *s)
{
    const int64_t n = dt_dataset_count(d);
    for (int64_t i = 0; i < n; i++) {
        s[i] = (dt__scored){ p[i * classes + class], 0, dt_dataset_label(d, i) == class };
    }
    dt__rank(s, n);
    return dt__average_precision(s, n);
}

/* Rates from a confusion matrix; the areas are set already. */
static void put_rates(int64_t classes, const int64_t *count, double *each, dt_class_scores *out)
{
    double recall = 0, area = 0, n = 0;
    for (int64_t c = 0; c < classes; c++, each += COLUMNS) {
        double labelled = 0, found = 0;
        for (int64_t k = 0; k < classes; k++) {
            labelled += (double)count[c * classes + k];
            found += (double)count[k * classes + c];
        }
        const double both = (double)count[c * classes + c];
        each[LABELLED] = labelled;
        each[PRECISION] = both / found;
        each[RECALL] = both / labelled;
        each[F1] = 2 * both / (labelled + found);
        if (labelled == 0) continue;
        recall += each[RECALL];
        area += each[AREA];
        n++;
    }
    out->balanced_accuracy = recall / n;
    out->average_precision = area / n;
}

dt_status dt_class_scores_of(const dt_dataset *d, const dt_tensor *outputs, dt_class_scores *out)
{
    DT__NEED3(dt_ctx_of(outputs), d, outputs, out);
    dt_tensor *matrix, *values = NULL;
    *out = (dt_class_scores){ .each = NULL };
    DT__TRY(dt_confusion(d, outputs, &matrix));
    dt_ctx *ctx = outputs->ctx;
    const int64_t n = outputs->dims[0], classes = outputs->dims[1];
    double *p = dt__alloc_array(ctx, outputs->count, sizeof *p);
    dt__scored *scored = dt__alloc_array(ctx, n, sizeof *scored);
    dt_status s = p == NULL || scored == NULL ? DT_ERR_NOMEM : DT_OK;
    if (s == DT_OK) s = dt_tensor_contiguous(outputs, &values);
    if (s == DT_OK) {
        s = dt_tensor_create(ctx, DT_F64, 2, (const int64_t[]){ classes, COLUMNS }, &out->each);
    }
    if (s == DT_OK) {
        const float *y = dt_data(values);
        double *each = dt_data_mut(out->each);
        for (int64_t i = 0; i < n; i++) softmax(classes, y + i * classes, p + i * classes);
        for (int64_t c = 0; c < classes; c++) {
            each[c * COLUMNS + AREA] = area_of(d, classes, c, p, scored);
        }
        out->calibration_error = calibration_error(d, classes, p);
        put_rates(classes, dt_data(matrix), each, out);
    }
    DT__RELEASE(ctx, p, scored);
    DT__TENSORS_FREE(values, matrix);
    return s;
}
