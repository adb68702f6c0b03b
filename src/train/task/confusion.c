/* The confusion matrix: counts of examples by their class and the predicted class. */
#include "core/tensor.h"
#include "data/dataset.h"
#include "train/task/task.h"

#include <string.h>

static dt_status check(const dt_dataset *d, const dt_tensor *y)
{
    char text[160];
    if (dt_dataset_target(d) != DT_TARGET_CLASS) {
        return dt_fail(y->ctx, DT_ERR_ARG, "confusion: the targets are not labels of examples");
    }
    if (y->dtype == DT_F32 && y->rank == 2 && y->dims[0] == dt_dataset_count(d) &&
        y->dims[1] >= dt_dataset_classes(d)) {
        return DT_OK;
    }
    dt_describe(y, text, sizeof text);
    return dt_fail(y->ctx, DT_ERR_SHAPE,
                   "confusion: outputs %s: expected f32[%lld, classes] of %lld classes or more",
                   text, (long long)dt_dataset_count(d), (long long)dt_dataset_classes(d));
}

dt_status dt_confusion(const dt_dataset *d, const dt_tensor *outputs, dt_tensor **out)
{
    DT__NEED(dt_ctx_of(outputs), d);
    DT__NEED2(dt_ctx_of(outputs), outputs, out);
    *out = NULL;
    DT__TRY(check(d, outputs));
    const int64_t n = outputs->dims[0], classes = outputs->dims[1];
    dt_tensor *matrix, *values;
    DT__TRY(dt_tensor_contiguous(outputs, &values));
    const dt_status s =
        dt_tensor_create(outputs->ctx, DT_I64, 2, (const int64_t[]){ classes, classes }, &matrix);
    if (s != DT_OK) return dt_tensor_free(values), s;
    const float *y = dt_data(values);
    int64_t *count = dt_data_mut(matrix);
    memset(count, 0, (size_t)matrix->count * sizeof *count);
    for (int64_t i = 0; i < n; i++) {
        const int64_t found = dt__decided_class(&d->thresholds, y + i * classes, classes, 1);
        count[dt_dataset_label(d, i) * classes + found]++;
    }
    dt_tensor_free(values);
    *out = matrix;
    return DT_OK;
}
