/* Splits packed outputs: each output of a network with its own dataset and numbers, for files about
 * it. */
#include "train/run/run_outputs.h"

#include "core/tensor.h"

#include <string.h>

/* Columns first ... first + n - 1 of y, whose rows have `each` numbers. */
static dt_status columns_of(const dt_tensor *y, int64_t each, int64_t first, int64_t n,
                            dt_tensor **out)
{
    const int64_t rows = y->count / each, dims[] = { rows, n };
    DT__TRY(dt_tensor_create(y->ctx, DT_F32, 2, dims, out));
    const float *from = dt_data(y);
    float *to = dt_data_mut(*out);
    if (from == NULL || to == NULL) return dt_error_status(y->ctx);
    for (int64_t i = 0; i < rows; i++) {
        memcpy(to + i * n, from + i * each + first, (size_t)n * sizeof *to);
    }
    return DT_OK;
}

dt_status dt__run_output_open(dt__run *r, int i, dt_tensor *y, dt__run_output *out)
{
    const dt__joined *j = r->data.evaluated->joined;
    const dt_model_options *m = &r->o->model;
    dt_model_sides sides;
    *out = (dt__run_output){ .y = NULL };
    if (dt_dataset_target(r->data.evaluated) != DT_TARGET_SEVERAL) {
        if (i > 0) return DT_OK;
        out->d = *r->data.evaluated;
        out->y = y;
        return DT_OK;
    }
    if (i >= j->n_outputs || m->family == NULL || m->family->sides == NULL) return DT_OK;
    DT__TRY(m->family->sides(r->ctx, m->options, &sides));
    int64_t first = 0, each = 0;
    for (int k = 0; k < j->n_outputs; k++) {
        if (k < i) first += sides.out[k].dims[0];
        each += sides.out[k].dims[0];
    }
    out->name = j->output[i].name;
    out->d = dt__joined_view(r->data.evaluated, &j->output[i]);
    return columns_of(y, each, first, sides.out[i].dims[0], &out->y);
}

void dt__run_output_close(dt__run_output *o)
{
    if (o->name != NULL) dt_tensor_free(o->y);
}
