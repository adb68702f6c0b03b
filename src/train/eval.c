/* A classifier over a dataset, in order, without gradients.
 *     accuracy = share of rows whose first largest output is the label
 *     loss     = mean of log(sum over k of exp(y_k - max)) + max - y_label
 * The outputs are the model's; the metrics are made from them in double, row by row, so that they do
 * not depend on how rows are batched. */
#include "core/tensor.h"
#include "core/clock.h"

#include <detent/train.h>
#include <math.h>
#include <string.h>

dt_evaluation dt_evaluation_defaults(void) { return (dt_evaluation){ .batch_size = 256 }; }

typedef struct evaluation {
    dt_ctx *ctx;
    dt_module *m;
    const dt_dataset *d;
    dt_loader *loader;
    dt_tape *t;
    dt_tensor *outputs; /* NULL: not made yet */
    int64_t done;
    int64_t right;
    double loss, seconds;
} evaluation;

static dt_status check_outputs(const evaluation *e, const dt_tensor *y, int64_t rows)
{
    if (y->dtype != DT_F32 || y->rank != 2 || y->dims[0] != rows) {
        char text[160];
        dt_describe(y, text, sizeof text);
        return dt_fail(e->ctx, DT_ERR_SHAPE,
                       "evaluate: the model gives %s for %lld examples; f32 [%lld, classes] wanted",
                       text, (long long)rows, (long long)rows);
    }
    if (y->dims[1] >= dt_dataset_classes(e->d)) return DT_OK;
    return dt_fail(e->ctx, DT_ERR_SHAPE,
                   "evaluate: the model has %lld outputs, but the labels have %lld classes",
                   (long long)y->dims[1], (long long)dt_dataset_classes(e->d));
}

static void count_row(evaluation *e, const float *y, int64_t classes, int32_t label)
{
    int64_t best = 0;
    for (int64_t k = 1; k < classes; k++) {
        if (y[k] > y[best]) best = k;
    }
    double sum = 0;
    for (int64_t k = 0; k < classes; k++) sum += exp((double)y[k] - (double)y[best]);
    e->right += best == label;
    e->loss += log(sum) + (double)y[best] - (double)y[label];
}

static dt_status take_outputs(evaluation *e, const dt_tensor *y, const dt_tensor *labels)
{
    const int64_t rows = labels->count;
    DT__TRY(check_outputs(e, y, rows));
    const int64_t classes = y->dims[1];
    const float *from = dt_data(y);
    const int32_t *label = dt_data(labels);
    if (e->outputs == NULL) {
        const int64_t dims[] = { dt_dataset_count(e->d), classes };
        DT__TRY(dt_tensor_create(e->ctx, DT_F32, 2, dims, &e->outputs));
    }
    float *to = dt_data_mut(e->outputs);
    if (from == NULL || label == NULL || to == NULL) return dt_error_status(e->ctx);
    memcpy(to + e->done * classes, from, (size_t)(rows * classes) * sizeof *to);
    for (int64_t i = 0; i < rows; i++) count_row(e, from + i * classes, classes, label[i]);
    e->done += rows;
    return DT_OK;
}

static dt_status run(evaluation *e)
{
    dt_no_grad(e->t, true);
    while (e->done < dt_dataset_count(e->d)) {
        dt_tensor *x, *labels;
        dt_tape_reset(e->t);
        DT__TRY(dt_loader_next(e->loader, &x, &labels));
        const double before = dt__seconds();
        dt_tensor *y = dt_forward(e->t, e->m, x);
        e->seconds += dt__seconds() - before;
        if (y == NULL) return dt_tape_status(e->t);
        DT__TRY(take_outputs(e, y, labels));
    }
    return DT_OK;
}

dt_status dt_evaluate(dt_module *m, const dt_dataset *d, const dt_evaluation *options,
                      dt_metrics *metrics, dt_tensor **outputs)
{
    const dt_evaluation o = options == NULL ? dt_evaluation_defaults() : *options;
    const dt_loader_options batches = { .batch_size = o.batch_size };
    evaluation e = { .ctx = dt_module_ctx(m), .m = m, .d = d };
    if (outputs != NULL) *outputs = NULL;
    *metrics = (dt_metrics){ 0 };
    if (dt_dataset_count(d) == 0) {
        return dt_fail(e.ctx, DT_ERR_ARG, "evaluate: the dataset is empty");
    }
    if (dt_dataset_target(d) != DT_TARGET_CLASS) {
        return dt_fail(e.ctx, DT_ERR_ARG, "evaluate: a dataset with labels wanted");
    }
    const bool was_training = dt_is_training(m);
    dt_status status = dt_loader_create(d, &batches, &e.loader);
    if (status == DT_OK) status = dt_tape_create(e.ctx, &e.t);
    dt_train(m, false);
    if (status == DT_OK) status = run(&e);
    dt_train(m, was_training);
    if (status == DT_OK) {
        const double n = (double)e.done;
        *metrics = (dt_metrics){ e.done, (double)e.right / n, e.loss / n, e.seconds,
                                 n / fmax(e.seconds, 1e-9) };
    }
    dt_tape_free(e.t);
    dt_loader_free(e.loader);
    if (status == DT_OK && outputs != NULL) *outputs = e.outputs;
    else dt_tensor_free(e.outputs);
    return status;
}
