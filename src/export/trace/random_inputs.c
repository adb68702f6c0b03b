/* Random inputs for a model, and the difference of its outputs from those without quantization of
 * activations: largest |y' - y|, and its ratio to the largest |y|, on one batch; y' is computed
 * with unquantized inputs of layers, and for a prepared model with master weights. */
#include "export/trace/random_inputs.h"

#include "core/tensor.h"
#include "export/trace/trace.h"
#include "nn/lists/graph.h"
#include "nn/module.h"
#include "qat/prepare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void fill(dt_tensor *x, int64_t below, dt__stream *s)
{
    for (int64_t i = 0; i < x->count; i++) {
        if (x->dtype == DT_I32) {
            ((int32_t *)dt_data_mut(x))[i] = (int32_t)dt__random_below(s, (uint64_t)below);
        } else if (below > 0) {
            ((float *)dt_data_mut(x))[i] = (float)dt__random_below(s, (uint64_t)below);
        } else {
            double sum = -2;
            for (int k = 0; k < 4; k++) sum += dt__random_unit(s);
            ((float *)dt_data_mut(x))[i] = (float)(sum * 1.7320508075688772);
        }
    }
}

dt_status dt__random_inputs(dt_module *m, const dt_model_info *info, dt_trace_input *in, int *n,
                            dt_tensor **x)
{
    dt__stream s = dt__stream_of(0, DT__FOR_USER);
    DT__TRY(dt__trace_inputs_of(m, info, in, n));
    for (int i = 0; i < *n; i++) {
        in[i].dims[0] = DT__RANDOM_BATCH;
        if (in[i].tokens) {
            const int64_t most = in[i].context > 0 ? in[i].context : DT__RANDOM_LENGTH;
            in[i].dims[1] = dt__min_i64(DT__RANDOM_LENGTH, most);
        }
        DT__TRY(dt_tensor_create(m->ctx, in[i].dtype, in[i].rank, in[i].dims, &x[i]));
        fill(x[i], in[i].below, &s);
    }
    return DT_OK;
}

dt_status dt__outputs_of(dt_module *m, dt_tensor *const *x, int n_in, dt_tape **tape, dt_tensor **y)
{
    DT__TRY(dt_tape_create(m->ctx, tape));
    dt_no_grad(*tape, true);
    const bool training = dt_is_training(m);
    dt_train(m, false);
    const int n = dt__module_outputs(m);
    dt_forward_n(*tape, m, x, n_in, y, n);
    for (int i = 0; i < n; i++) y[i] = dt_contiguous(*tape, y[i]);
    dt_train(m, training);
    return dt_tape_status(*tape);
}

void dt__add_difference(const float *other, const float *own, int64_t n, dt_export_difference *d,
                        double *largest)
{
    for (int64_t i = 0; i < n; i++) {
        const bool equal = memcmp(&other[i], &own[i], sizeof own[i]) == 0;
        const double apart = fabs((double)other[i] - (double)own[i]);
        d->equal += equal;
        if (!equal && other[i] != own[i] && !(apart <= d->absolute)) d->absolute = apart;
        if (!isfinite(own[i])) d->absolute = HUGE_VAL;
        *largest = fmax(*largest, fabs((double)own[i]));
    }
    d->relative = *largest > 0 && *largest < HUGE_VAL ? d->absolute / *largest : d->absolute;
}

/* Enables or disables quantization; *n: number of quantized layers. */
static dt_status set_codes(dt_module *m, bool on, int64_t *n)
{
    *n = dt_is_prepared(m);
    if (dt_is_prepared(m)) DT__TRY(dt_enable(m, on));
    DT__EACH_MODULE(layer, m) {
        dt__input_hook *hook = dt__input_hook_of(layer);
        if (hook == NULL) continue;
        hook->enabled = on;
        ++*n;
    }
    return DT_OK;
}

static dt_status compare(const dt_export_call *e, dt_export_difference *d, int64_t *n)
{
    dt_trace_input in[DT_MAX_IN];
    dt_tensor *x[DT_MAX_IN] = { NULL }, *own[DT_MAX_OUT] = { NULL }, *other[DT_MAX_OUT] = { NULL };
    dt_tape *tape[2] = { NULL };
    int n_in = 0;
    double largest = 0;
    dt_status s = dt__random_inputs(e->m, e->info, in, &n_in, x);
    if (s == DT_OK) s = dt__outputs_of(e->m, x, n_in, &tape[0], own);
    if (s == DT_OK) s = set_codes(e->m, false, n);
    if (s == DT_OK) s = dt__outputs_of(e->m, x, n_in, &tape[1], other);
    int64_t back;
    const dt_status restored = set_codes(e->m, true, &back);
    for (int i = 0; s == DT_OK && i < dt__module_outputs(e->m); i++) {
        dt__add_difference(dt_data(other[i]), dt_data(own[i]), own[i]->count, d, &largest);
    }
    for (int i = 0; i < 2; i++) dt_tape_free(tape[i]);
    for (int i = 0; i < n_in; i++) dt_tensor_free(x[i]);
    return s != DT_OK ? s : restored;
}

dt_status dt__note_floats(const dt_export_call *e, const char *what)
{
    char line[300];
    dt_export_difference d = { .values = 0 };
    int64_t n = 0;
    if (e->options->note == NULL) return DT_OK;
    const dt_status s = compare(e, &d, &n);
    if (s == DT_ERR_NOMEM) return s;
    e->ctx->status = DT_OK; /* the file does not depend on this measurement */
    if (s == DT_OK && n == 0) return DT_OK;
    const size_t used = (size_t)snprintf(line, sizeof line, "%s: ", what);
    if (s != DT_OK) {
        snprintf(line + used, sizeof line - used, "how far outputs move was not measured");
    } else {
        snprintf(line + used, sizeof line - used, DT_DIFFERENCE_TEXT, d.absolute, d.relative);
    }
    e->options->note(e->options->user, line);
    return DT_OK;
}
