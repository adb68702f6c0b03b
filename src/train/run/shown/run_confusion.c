/* confusion.json of a run: the confusion matrix of the final model; with several outputs one for
 * each that has labels. */
#include "core/text/json.h"
#include "core/tensor.h"
#include "train/task/examples.h"
#include "train/run/run_outputs.h"

#include <string.h>

#define MOST_CLASSES 256

static void put_names(dt__chars *t, const dt_dataset *d, int64_t classes)
{
    dt__put_text(t, ",\n \"classes\": [");
    for (int64_t k = 0; k < classes; k++) {
        const char *name = dt_dataset_class_name(d, k);
        if (k > 0) dt__put_text(t, ", ");
        if (name != NULL) dt__put_visible(t, name, strlen(name));
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
    dt__put_text(t, "\n ]");
}

/* Appends the matrix of an output, if its targets are labels; *n counts the matrices. */
static dt_status put_output(dt__chars *t, const dt__run_output *o, int *n)
{
    dt_tensor *matrix;
    const bool labels = dt_dataset_target(&o->d) == DT_TARGET_CLASS;
    if (!labels || o->y->dims[1] > MOST_CLASSES) return DT_OK;
    DT__TRY(dt_confusion(&o->d, o->y, &matrix));
    if (o->name != NULL) {
        dt__put_text(t, *n == 0 ? ",\n \"outputs\": [{\"output\": " : ",\n  {\"output\": ");
        dt__put_quoted(t, o->name);
    }
    put_names(t, &o->d, matrix->dims[0]);
    put_matrix(t, dt_data(matrix), matrix->dims[0]);
    dt__put_text(t, o->name != NULL ? "}" : "");
    dt_tensor_free(matrix);
    ++*n;
    return DT_OK;
}

static dt_status put_outputs(dt__run *r, dt__chars *t, dt_tensor *y, int *n)
{
    bool several = true;
    for (int i = 0; several; i++) {
        dt__run_output o;
        dt_status status = dt__run_output_open(r, i, y, &o);
        several = status == DT_OK && o.y != NULL;
        if (several) status = put_output(t, &o, n);
        dt__run_output_close(&o);
        DT__TRY(status);
    }
    return DT_OK;
}

dt_status dt__run_write_confusion(dt__run *r, dt_tensor *outputs)
{
    int n = 0;
    dt__chars t = { .ctx = r->ctx };
    if (!r->o->run.report || !dt__run_writes(r)) return DT_OK;
    dt__put_text(&t, "{\"evaluated_on\": ");
    dt__put_quoted(&t, r->summary->evaluated_on);
    dt_status status = put_outputs(r, &t, outputs, &n);
    if (dt_dataset_target(r->data.evaluated) == DT_TARGET_SEVERAL) dt__put_text(&t, "\n ]");
    dt__put_text(&t, "\n}\n");
    if (status == DT_OK && t.failed) status = DT_ERR_NOMEM;
    if (status == DT_OK && n > 0) status = dt__run_write(r, "confusion.json", t.bytes, t.used);
    dt__release(r->ctx, t.bytes);
    return status;
}
