/* confusion.json of a run: the confusion matrix of the model at its end. */
#include "core/tensor.h"
#include "train/run.h"

#define MOST_CLASSES 256

static void put_names(dt__chars *t, const dt_dataset *d, int64_t classes)
{
    dt__put_text(t, ",\n \"classes\": [");
    for (int64_t k = 0; k < classes; k++) {
        const char *name = dt_dataset_class_name(d, k);
        if (k > 0) dt__put_text(t, ", ");
        if (name != NULL) dt__put_quoted(t, name);
        else dt__put_integer(t, k);
    }
    dt__put_text(t, "]");
}

static void put_matrix(dt__chars *t, const int64_t *count, int64_t classes)
{
    dt__put_text(t, ",\n \"matrix\": [");
    for (int64_t i = 0; i < classes; i++) {
        dt__put_text(t, i > 0 ? ",\n  [" : "\n  [");
        for (int64_t k = 0; k < classes; k++) {
            if (k > 0) dt__put_text(t, ", ");
            dt__put_integer(t, count[i * classes + k]);
        }
        dt__put_text(t, "]");
    }
    dt__put_text(t, "\n ]\n}\n");
}

dt_status dt__run_write_confusion(dt__run *r, const dt_tensor *outputs)
{
    const dt_dataset *d = r->evaluated;
    if (!r->o->run.report || dt_dataset_target(d) != DT_TARGET_CLASS ||
        outputs->dims[1] > MOST_CLASSES) {
        return DT_OK;
    }
    dt_tensor *matrix;
    DT__TRY(dt_confusion(d, outputs, &matrix));
    dt__chars t = { .ctx = r->ctx };
    dt__put_text(&t, "{\"evaluated_on\": ");
    dt__put_quoted(&t, r->summary->evaluated_on);
    put_names(&t, d, matrix->dims[0]);
    put_matrix(&t, dt_data(matrix), matrix->dims[0]);
    dt_status status = t.failed ? DT_ERR_NOMEM : DT_OK;
    if (status == DT_OK) status = dt__run_write(r, "confusion.json", t.bytes, t.used);
    dt__release(r->ctx, t.bytes);
    dt_tensor_free(matrix);
    return status;
}
