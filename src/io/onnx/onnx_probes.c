/* Compares values inside of a graph with those that another program computed. A layer's result is
 * read as the input of a later layer. */
#include "core/block_list.h"
#include "core/tensor.h"
#include "core/text/json.h"
#include "io/onnx/onnx.h"
#include "io/safetensors/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool fits(const dt_tensor *wanted, const dt_tensor *y, const int *axis)
{
    bool same = wanted->rank == y->rank;
    for (int i = 0; same && i < y->rank; i++) same = wanted->dims[i] == y->dims[axis[i]];
    return same;
}

/* Compares elements in the order of `wanted`; `at` are the current indices. */
static void measure(const dt_tensor *wanted, const dt_tensor *y, const int *axis,
                    dt_onnx_difference *d)
{
    const float *a = dt_data(y), *b = dt_data(wanted);
    int64_t stride[DT_MAX_RANK], at[DT_MAX_RANK] = { 0 }, from = 0;
    double largest = 0;
    dt__contiguous_strides(y->rank, y->dims, stride);
    d->absolute = d->relative = 0;
    for (int64_t n = 0; n < dt_count(wanted); n++) {
        const double apart = a[from] == b[n] ? 0 : fabs((double)a[from] - (double)b[n]);
        /* also true for NaN, which then remains */
        if (!(apart <= d->absolute)) d->absolute = apart;
        if (isfinite(b[n])) largest = fmax(largest, fabs((double)b[n]));
        for (int i = y->rank - 1; i >= 0; i--) {
            from += stride[axis[i]];
            if (++at[i] < wanted->dims[i]) break;
            from -= stride[axis[i]] * wanted->dims[i];
            at[i] = 0;
        }
    }
    d->relative = largest > 0 ? d->absolute / largest : d->absolute;
}

dt_status dt__onnx_put_batch(dt_tensor **x)
{
    dt_tensor *y, *from = *x;
    int64_t dims[DT_MAX_RANK] = { 1 };
    if (from->rank >= DT_MAX_RANK) {
        return dt_fail(from->ctx, DT_ERR_SHAPE, "a tensor of %d dimensions", from->rank);
    }
    for (int i = 0; i < from->rank; i++) dims[i + 1] = from->dims[i];
    DT__TRY(dt_tensor_create(from->ctx, DT_F32, from->rank + 1, dims, &y));
    memcpy(dt_data_mut(y), dt_data(from), (size_t)dt_count(y) * sizeof(float));
    dt_tensor_free(from);
    *x = y;
    return DT_OK;
}

dt_status dt__onnx_compare(const dt_file *file, const dt_file_entry *expected, const dt_tensor *y,
                           const int *axis, bool no_batch, dt_onnx_difference *d)
{
    dt_tensor *wanted = NULL;
    char text[160], own[160];
    DT__TRY(dt__entry_load(file, expected, DT_F32, &wanted));
    if (no_batch) {
        const dt_status s = dt__onnx_put_batch(&wanted);
        if (s != DT_OK) {
            dt_tensor_free(wanted);
            return s;
        }
    }
    if (fits(wanted, y, axis)) {
        measure(wanted, y, axis, d);
        dt_tensor_free(wanted);
        return DT_OK;
    }
    dt__dims_text(wanted->rank, wanted->dims, text, sizeof text);
    dt__dims_text(y->rank, y->dims, own, sizeof own);
    dt_tensor_free(wanted);
    return dt_fail(file->ctx, DT_ERR_FORMAT, "%s: '%s' is %s there, but %s in the model",
                   file->path, d->output, text, own);
}

/* A live layer that has this layer's result as an input, and which input; NULL: none. */
static const dt__onnx_layer *reader_of(const dt__onnx *g, int64_t layer, int *input)
{
    for (int64_t i = layer + 1; i < g->n_layers; i++) {
        const dt__onnx_layer *l = g->layer[i];
        for (int k = 0; l->live && l->type != NULL && k < l->n_from; k++) {
            *input = k;
            if (l->from[k] == layer) return l;
        }
    }
    return NULL;
}

static bool is_output(const dt__onnx *g, const char *name)
{
    for (size_t i = 0; i < g->graph->n_output; i++) {
        if (strcmp(g->graph->output[i]->name, name) == 0) return true;
    }
    return false;
}

static dt_status add(dt__onnx_probes *p, dt__onnx *g, const dt__onnx_node *n, const char *name)
{
    const dt__onnx_value *v = dt__onnx_find(g, name);
    const dt_file_entry *e = dt_file_find(p->expected, name);
    int input = 0;
    if (e == NULL || v == NULL || v->kind != DT__ONNX_COMPUTED || is_output(g, name) ||
        dt__onnx_is_merged(v)) {
        return DT_OK;
    }
    const dt__onnx_layer *reader = reader_of(g, v->layer, &input);
    const dt__onnx_layer *l = g->layer[v->layer];
    if (reader == NULL || l->type == NULL || !l->live) return DT_OK;
    DT__TRY(DT__RESERVE(p->ctx, p->at, p->n, p->room));
    dt__onnx_probe *to = &p->at[p->n];
    *to = (dt__onnx_probe){
        .all = p, .expected = e, .reader = reader->name, .input = input, .rank = v->rank
    };
    memcpy(to->axis, v->axis, sizeof to->axis);
    dt__shown(name, to->difference.output);
    dt__shown(l->name, to->difference.layer);
    snprintf(to->difference.operator_, sizeof to->difference.operator_, "%s", n->op_type);
    to->difference.absolute = to->difference.relative = NAN; /* until it is compared */
    p->n++;
    return DT_OK;
}

static dt_status find(void *user, dt__onnx *g)
{
    dt__onnx_layer *output[DT_MAX_OUT];
    DT__TRY(dt__onnx_layers(g, output));
    for (size_t i = 0; i < g->graph->n_node; i++) {
        const dt__onnx_node *n = g->graph->node[i];
        for (size_t k = 0; k < n->n_output; k++) DT__TRY(add(user, g, n, n->output[k]));
    }
    return DT_OK;
}

dt_status dt__onnx_probes_find(const dt__onnx_file *f, const dt_onnx_options *options,
                               dt__onnx_probes *p)
{
    const dt_logger log = p->ctx->log;
    p->ctx->log = NULL; /* the import already gave these messages */
    const dt_status s = dt__onnx_with(f, options, &p->arena, find, p);
    p->ctx->log = log;
    return s;
}

static dt_tensor *see(void *user, dt_tape *t, dt_module *m, dt_tensor *x)
{
    dt__onnx_probe *p = user;
    (void)m;
    if (p->calls++ != p->input || p->all->status != DT_OK) return x;
    const dt_tensor *y = dt_contiguous(t, x);
    if (y == NULL) return NULL;
    if (y->rank != p->rank) return x;
    p->all->status = dt__onnx_compare(p->all->expected, p->expected, y, p->axis, p->all->no_batch,
                                      &p->difference);
    return x;
}

dt_status dt__onnx_probes_begin(dt__onnx_probes *p, dt_module *m)
{
    for (int64_t i = 0; i < p->n; i++) {
        dt_module *reader = dt_module_at(m, p->at[i].reader);
        if (reader == NULL) return dt_error_status(p->ctx);
        DT__TRY(dt_hook_add(reader, DT_SITE_INPUT, see, &p->at[i], NULL, &p->at[i].hook));
        p->at[i].m = reader;
    }
    return DT_OK;
}

void dt__onnx_probes_end(dt__onnx_probes *p)
{
    for (int64_t i = 0; i < p->n; i++) {
        if (p->at[i].m != NULL) dt_unhook(p->at[i].m, p->at[i].hook);
    }
    dt__release(p->ctx, p->at);
    dt__block_list_free(p->ctx, &p->arena);
}
