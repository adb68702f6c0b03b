/* dt_onnx_verify: compares a model's results with those that another program computed. */
#include "core/block_list.h"
#include "core/tensor.h"
#include "core/text/json.h"
#include "io/onnx/onnx.h"
#include "io/safetensors/safetensors.h"

#include <detent/experimental/io.h>
#include <detent/experimental/ops.h>

#include <stdio.h>
#include <string.h>

typedef struct verification {
    dt_ctx *ctx;
    dt_module *m;
    const dt__onnx_file *onnx; /* NULL: dimensions are in the model's order */
    const DtOnnx__Graph *graph;
    const dt_onnx_options *options;
    const dt_file *given, *expected;
    dt__onnx_probes probes;
    dt_tensor *in[DT_MAX_IN];
    int n_in;
    int in_axis[DT_MAX_IN][DT_MAX_RANK]; /* order of the inputs' dimensions in the model */
    int out_axis[DT_MAX_OUT][DT_MAX_RANK];
} verification;

static const char *other_of(const char *const name[2])
{
    return name[1] != NULL ? name[1] : name[0];
}

/* The tensor with this name, or (if not NULL) the alternative name; or the file's only tensor, if
 * the model needs only one. */
static dt_status want(const verification *v, const dt_file *file, const char *const name[2],
                      const char *what, bool alone, const dt_file_entry **out)
{
    char shown[DT__SHOWN];
    *out = dt_file_find(file, name[0]);
    if (*out == NULL && name[1] != NULL) *out = dt_file_find(file, name[1]);
    if (*out == NULL && alone && dt_file_count(file) == 1) *out = dt_file_at(file, 0);
    if (*out != NULL) return DT_OK;
    return dt_fail(v->ctx, DT_ERR_FORMAT,
                   "%s: the file of values has no tensor '%s', %s of the "
                   "model",
                   file->path, dt__shown(other_of(name), shown), what);
}

/* The name of a graph input or output in the original file, if it differs; else NULL. */
static const char *other(const verification *v, bool output, size_t i)
{
    const char *const *names = v->onnx == NULL ? NULL
                               : output        ? v->onnx->out_names
                                               : v->onnx->in_names;
    return names == NULL ? NULL : names[i];
}

/* Permutes a tensor of the file to the model's order: dimension i is the model's axis[i]. */
static dt_status arrange(const verification *v, const int *axis, dt_tensor **x)
{
    dt_tensor *y;
    const dt_tensor *from = *x;
    int64_t dims[DT_MAX_RANK], stride[DT_MAX_RANK], at[DT_MAX_RANK] = { 0 }, to = 0;
    bool in_order = true;
    for (int i = 0; i < from->rank; i++) {
        if (axis[i] >= from->rank) return DT_OK; /* the model reports the wrong rank */
        dims[axis[i]] = from->dims[i];
        in_order &= axis[i] == i;
    }
    if (in_order) return DT_OK;
    DT__TRY(dt_tensor_create(v->ctx, DT_F32, from->rank, dims, &y));
    dt__contiguous_strides(y->rank, dims, stride);
    const float *a = dt_data(from);
    float *b = dt_data_mut(y);
    for (int64_t n = 0; n < dt_count(from); n++) {
        b[to] = a[n];
        for (int i = from->rank - 1; i >= 0; i--) {
            to += stride[axis[i]];
            if (++at[i] < from->dims[i]) break;
            to -= stride[axis[i]] * from->dims[i];
            at[i] = 0;
        }
    }
    dt_tensor_free(*x);
    *x = y;
    return DT_OK;
}

static int count_inputs(const DtOnnx__Graph *graph)
{
    int n = 0;
    for (size_t i = 0; i < graph->n_input; i++) {
        n += !dt__onnx_is_initializer(graph, graph->input[i]->name);
    }
    return n;
}

static dt_status load_inputs(verification *v)
{
    const bool alone = count_inputs(v->graph) == 1;
    const dt_file_entry *e;
    for (size_t i = 0; i < v->graph->n_input && v->n_in < DT_MAX_IN; i++) {
        const char *name = v->graph->input[i]->name;
        if (dt__onnx_is_initializer(v->graph, name)) continue;
        const char *const names[2] = { name, other(v, false, i) };
        DT__TRY(want(v, v->given, names, "an input", alone, &e));
        DT__TRY(dt__entry_load(v->given, e, DT_F32, &v->in[v->n_in]));
        dt_tensor **x = &v->in[v->n_in++];
        if (v->options->no_batch) DT__TRY(dt__onnx_put_batch(x));
        DT__TRY(arrange(v, v->in_axis[v->n_in - 1], x));
    }
    return DT_OK;
}

/* Reads the graph again, without messages, for the order of dimensions. */
static dt_status find_places(void *user, dt__onnx *g)
{
    static const int images[] = { 0, 2, 3, 1 };
    verification *v = user;
    const dt_logger log = g->ctx->log;
    int n = 0;
    g->ctx->log = NULL;
    const dt_status s = dt__onnx_walk(g);
    g->ctx->log = log;
    DT__TRY(s);
    for (size_t i = 0; i < g->graph->n_input && n < DT_MAX_IN; i++) {
        const dt__onnx_value *x = dt__onnx_find(g, g->graph->input[i]->name);
        if (dt__onnx_is_initializer(g->graph, x->name)) continue;
        memcpy(v->in_axis[n++], x->axis, sizeof x->axis);
    }
    for (size_t i = 0; i < g->graph->n_output; i++) {
        dt__onnx_value y = { .rank = DT_MAX_RANK };
        const dt__onnx_value *own = dt__onnx_find(g, g->graph->output[i]->name);
        const bool computed = own != NULL && own->kind == DT__ONNX_COMPUTED;
        dt__onnx_put_batch_at(&y, computed ? dt__onnx_batch_at(own) : 0);
        memcpy(v->out_axis[i], y.axis, sizeof y.axis);
        if (computed && g->file->channels_last && own->rank == 4) {
            memcpy(v->out_axis[i], images, sizeof images);
        }
    }
    return DT_OK;
}

static dt_status compare(const verification *v, size_t i, const dt_tensor *y, dt_onnx_difference *d)
{
    const dt_file_entry *e;
    const char *const name[2] = { v->graph->output[i]->name, other(v, true, i) };
    const bool alone = v->graph->n_output == 1 && v->expected != v->given;
    *d = (dt_onnx_difference){ .relative = 0 };
    dt__shown(other_of(name), d->output);
    DT__TRY(want(v, v->expected, name, "an output", alone, &e));
    return dt__onnx_compare(v->expected, e, y, v->out_axis[i], v->options->no_batch, d);
}

static dt_status run(verification *v, dt_tape *t, dt_onnx_difference *out)
{
    dt_tensor *y[DT_MAX_OUT] = { NULL };
    const int n_out = (int)v->graph->n_output;
    DT__TRY(load_inputs(v));
    DT__TRY(dt__onnx_probes_begin(&v->probes, v->m));
    dt_no_grad(t, true);
    DT__TRY(dt_forward_n(t, v->m, v->in, v->n_in, y, n_out));
    for (int i = 0; i < n_out; i++) y[i] = dt_contiguous(t, y[i]);
    DT__TRY(dt_tape_status(t));
    DT__TRY(v->probes.status);
    for (int i = 0; i < n_out; i++) DT__TRY(compare(v, (size_t)i, y[i], &out[i]));
    for (int64_t i = 0; i < v->probes.n; i++) {
        v->options->layer(v->options->user, &v->probes.at[i].difference);
    }
    return DT_OK;
}

static dt_status verify(verification *v, dt_onnx_difference *out)
{
    dt_tape *t = NULL;
    const bool training = dt_is_training(v->m);
    v->probes = (dt__onnx_probes){ .ctx = v->ctx,
                                   .expected = v->expected,
                                   .no_batch = v->options->no_batch };
    void *arena = NULL;
    dt_status s = DT_OK;
    if (v->onnx != NULL) s = dt__onnx_with(v->onnx, v->options, &arena, find_places, v);
    dt__block_list_free(v->ctx, &arena);
    if (s == DT_OK && v->options->layer != NULL) {
        s = dt__onnx_probes_find(v->onnx, v->options, &v->probes);
    }
    dt_train(v->m, false);
    if (s == DT_OK) s = dt_tape_create(v->ctx, &t);
    if (s == DT_OK) s = run(v, t, out);
    if (s == DT_ERR_SHAPE || s == DT_ERR_DTYPE) {
        char text[DT__MESSAGE_SIZE / 2];
        snprintf(text, sizeof text, "%s", dt_error(v->ctx));
        s = dt_fail(v->ctx, DT_ERR_FORMAT, "%s: it does not fit the model: %s", v->given->path,
                    text);
    }
    dt__onnx_probes_end(&v->probes);
    dt_train(v->m, training);
    dt_tape_free(t);
    for (int i = 0; i < v->n_in; i++) dt_tensor_free(v->in[i]);
    return s;
}

static dt_status open_and_verify(verification *v, const char *values, dt_onnx_difference *out)
{
    dt_file *given, *expected = NULL;
    DT__TRY(dt_file_open(v->ctx, values, &given));
    dt_status s = DT_OK;
    if (v->options->expected != NULL) s = dt_file_open(v->ctx, v->options->expected, &expected);
    v->given = given;
    v->expected = expected == NULL ? given : expected;
    if (s == DT_OK) s = verify(v, out);
    dt_file_close(expected);
    dt_file_close(given);
    return s;
}

dt_status dt__onnx_verify(dt_module *m, const dt__onnx_file *file, const char *values,
                          const dt_onnx_options *options, dt_onnx_differences *out)
{
    static const dt_onnx_options none = { .n_names = 0 };
    const DtOnnx__Graph *graph = file->model->graph;
    if (graph->n_output > DT_MAX_OUT) {
        return dt_fail(file->ctx, DT_ERR_UNSUPPORTED, "%s: more than %d outputs", file->path,
                       DT_MAX_OUT);
    }
    verification v = { .ctx = file->ctx,
                       .m = m,
                       .onnx = file,
                       .graph = graph,
                       .options = options == NULL ? &none : options };
    const dt_status s = open_and_verify(&v, values, out->output);
    if (s == DT_OK) out->n = (int)graph->n_output;
    return s;
}

dt_status dt_onnx_verify(dt_module *m, const char *onnx, const char *values,
                         const dt_onnx_options *options, dt_onnx_differences *out)
{
    DT__NEED2(dt_module_ctx(m), m, out);
    dt__onnx_file file;
    out->n = 0;
    dt_status s = dt__onnx_open(dt_module_ctx(m), onnx, &file);
    if (s == DT_OK) s = dt__onnx_verify(m, &file, values, options, out);
    dt__onnx_close(&file);
    return s;
}

dt_status dt_weights_verify(dt_module *m, const char *values, const char *expected,
                            dt_onnx_differences *out)
{
    DT__NEED(dt_module_ctx(m), m);
    DT__NEED2(dt_module_ctx(m), values, out);
    char names[2][2] = { "x", "y" };
    DtOnnx__ValueInfo x = DT_ONNX__VALUE_INFO__INIT, y = DT_ONNX__VALUE_INFO__INIT;
    DtOnnx__ValueInfo *in = &x, *result = &y;
    DtOnnx__Graph graph = DT_ONNX__GRAPH__INIT;
    const dt_onnx_options options = { .expected = expected };
    x.name = names[0];
    y.name = names[1];
    graph.input = &in;
    graph.output = &result;
    graph.n_input = graph.n_output = 1;
    verification v = { .ctx = dt_module_ctx(m), .m = m, .graph = &graph, .options = &options };
    for (int i = 0; i < DT_MAX_RANK; i++) v.in_axis[0][i] = v.out_axis[0][i] = i;
    const dt_status s = open_and_verify(&v, values, out->output);
    out->n = s == DT_OK ? 1 : 0;
    return s;
}
