/* dt_onnx_verify: compares a model's results with those that another program computed. */
#include "core/text/json.h"
#include "io/onnx/onnx.h"
#include "core/system/atomic_file.h"

#include <detent/io.h>
#include <detent/ops.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct verification {
    dt_ctx *ctx;
    dt_module *m;
    const DtOnnx__Graph *graph;
    const dt_file *values;
    bool channels_last, no_batch;
    dt_tensor *in[DT_MAX_IN];
    int n_in;
} verification;

static dt_status want(const verification *v, const char *name, const char *what, dt_tensor **out)
{
    char shown[DT__SHOWN];
    if (dt_file_find(v->values, name) == NULL) {
        return dt_fail(v->ctx, DT_ERR_FORMAT,
                       "the file of values has no tensor '%s', %s of the "
                       "model",
                       dt__shown(name, shown), what);
    }
    return dt_file_load(v->values, name, DT_F32, out);
}

/* [N, H, W, C] of the file as [N, C, H, W], which the model reads. */
static dt_status put_channels_first(const verification *v, dt_tensor **x)
{
    dt_tensor *y;
    const int64_t *from = (*x)->dims, rows = from[1] * from[2];
    const int64_t dims[] = { from[0], from[3], from[1], from[2] };
    DT__TRY(dt_tensor_create(v->ctx, DT_F32, 4, dims, &y));
    const float *a = dt_data(*x);
    float *b = dt_data_mut(y);
    for (int64_t n = 0; n < dims[0]; n++) {
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t c = 0; c < dims[1]; c++) {
                b[(n * dims[1] + c) * rows + i] = a[(n * rows + i) * dims[1] + c];
            }
        }
    }
    dt_tensor_free(*x);
    *x = y;
    return DT_OK;
}

/* An example of the file as a batch of one. */
static dt_status put_batch(const verification *v, dt_tensor **x)
{
    dt_tensor *y, *from = *x;
    int64_t dims[DT_MAX_RANK] = { 1 };
    if (from->rank >= DT_MAX_RANK) {
        return dt_fail(v->ctx, DT_ERR_SHAPE, "a tensor of %d dimensions", from->rank);
    }
    for (int i = 0; i < from->rank; i++) dims[i + 1] = from->dims[i];
    DT__TRY(dt_tensor_create(v->ctx, DT_F32, from->rank + 1, dims, &y));
    memcpy(dt_data_mut(y), dt_data(from), (size_t)dt_count(y) * sizeof(float));
    dt_tensor_free(from);
    *x = y;
    return DT_OK;
}

static dt_status load_inputs(verification *v)
{
    for (size_t i = 0; i < v->graph->n_input && v->n_in < DT_MAX_IN; i++) {
        const char *name = v->graph->input[i]->name;
        if (dt__onnx_is_initializer(v->graph, name)) continue;
        DT__TRY(want(v, name, "an input", &v->in[v->n_in]));
        v->n_in++;
        if (v->channels_last && v->in[v->n_in - 1]->rank == 4) {
            DT__TRY(put_channels_first(v, &v->in[v->n_in - 1]));
        }
        if (v->no_batch) DT__TRY(put_batch(v, &v->in[v->n_in - 1]));
    }
    return DT_OK;
}

static dt_status compare(const verification *v, const char *name, const dt_tensor *y,
                         dt_onnx_difference *d)
{
    dt_tensor *wanted = NULL;
    double largest = 0;
    char text[160], own[160];
    DT__TRY(want(v, name, "an output", &wanted));
    const dt_status s = v->no_batch ? put_batch(v, &wanted) : DT_OK;
    if (s != DT_OK) {
        dt_tensor_free(wanted);
        return s;
    }
    *d = (dt_onnx_difference){ .relative = 0 };
    dt__shown(name, d->output);
    if (dt_count(wanted) != dt_count(y) || wanted->rank != y->rank ||
        memcmp(wanted->dims, y->dims, (size_t)y->rank * sizeof y->dims[0]) != 0) {
        dt__dims_text(wanted->rank, wanted->dims, text, sizeof text);
        dt__dims_text(y->rank, y->dims, own, sizeof own);
        dt_tensor_free(wanted);
        return dt_fail(v->ctx, DT_ERR_SHAPE, "the output '%s' is %s, but %s in the file of values",
                       d->output, own, text);
    }
    const float *a = dt_data(y), *b = dt_data(wanted);
    for (int64_t i = 0; i < dt_count(y); i++) {
        const double apart = fabs((double)a[i] - (double)b[i]);
        if (!(apart <= d->absolute)) d->absolute = apart; /* a NaN stays */
        largest = fmax(largest, fabs((double)b[i]));
    }
    d->relative = largest > 0 ? d->absolute / largest : d->absolute;
    dt_tensor_free(wanted);
    return DT_OK;
}

static dt_status run(verification *v, dt_tape *t, dt_onnx_difference *out)
{
    dt_tensor *y[DT_MAX_OUT] = { NULL };
    const int n_out = (int)v->graph->n_output;
    DT__TRY(load_inputs(v));
    dt_no_grad(t, true);
    DT__TRY(dt_forward_n(t, v->m, v->in, v->n_in, y, n_out));
    for (int i = 0; i < n_out; i++) y[i] = dt_contiguous(t, y[i]);
    DT__TRY(dt_tape_status(t));
    for (int i = 0; i < n_out; i++) DT__TRY(compare(v, v->graph->output[i]->name, y[i], &out[i]));
    return DT_OK;
}

static dt_status verify(verification *v, const char *path, dt_onnx_difference *out)
{
    dt_file *file;
    dt_tape *t = NULL;
    DT__TRY(dt_file_open(v->ctx, path, &file));
    v->values = file;
    const bool training = dt_is_training(v->m);
    dt_train(v->m, false);
    dt_status s = dt_tape_create(v->ctx, &t);
    if (s == DT_OK) s = run(v, t, out);
    if (s == DT_ERR_SHAPE || s == DT_ERR_DTYPE) {
        char text[DT__MESSAGE_SIZE / 2];
        snprintf(text, sizeof text, "%s", dt_error(v->ctx));
        s = dt_fail(v->ctx, DT_ERR_FORMAT, "%s: it does not fit the model: %s", dt__path_tail(path),
                    text);
    }
    dt_train(v->m, training);
    dt_tape_free(t);
    for (int i = 0; i < v->n_in; i++) dt_tensor_free(v->in[i]);
    dt_file_close(file);
    return s;
}

dt_status dt_onnx_verify(dt_module *m, const char *onnx, const char *values,
                         const dt_onnx_options *options, dt_onnx_differences *out)
{
    DT__NEED(dt_module_ctx(m), m);
    DT__NEED(dt_module_ctx(m), out);
    dt__onnx_file file;
    out->n = 0;
    dt_status s = dt__onnx_open(dt_module_ctx(m), onnx, &file);
    if (s == DT_OK && file.model->graph->n_output > DT_MAX_OUT) {
        s = dt_fail(file.ctx, DT_ERR_UNSUPPORTED, "%s: more than %d outputs", file.path,
                    DT_MAX_OUT);
    }
    if (s == DT_OK) {
        verification v = { .ctx = file.ctx,
                           .m = m,
                           .graph = file.model->graph,
                           .channels_last = options != NULL && options->channels_last,
                           .no_batch = options != NULL && options->no_batch };
        s = verify(&v, values, out->output);
        if (s == DT_OK) out->n = (int)file.model->graph->n_output;
    }
    dt__onnx_close(&file);
    return s;
}
