/* Reads the nodes of a graph in order. */
#include "core/text/row_named.h"
#include "core/comparisons.h"
#include "core/text/json.h"
#include "io/onnx/onnx.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- operators ------------------------------------------------------------------------------- */

#define DT__ONNX(name, compute, fold, ...) { #name, compute, fold },
#define DT__ONNX_COMPUTED(name, compute, ...) { #name, compute, NULL },
#define DT__ONNX_CONSTANT(name, fold, ...) { #name, NULL, fold },
static const dt__onnx_operator operators[] = {
#include "io/onnx/onnx_operators.inc"
};

const dt__onnx_operator *dt__onnx_operator_of(const char *name)
{
    return DT__ROW_NAMED(operators, name);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void note(dt__onnx *g, const char *text)
{
    if (g->note != NULL && g->noted == DT_OK) g->noted = g->note(g->user, text);
}

/* Records that the node is wrong. The final message has the first faults and the number of all. */
static void fault(dt__onnx *g, const dt__onnx_node *n, const char *text)
{
    char name[DT__SHOWN], type[DT__SHOWN], whole[DT__ONNX_FAULTS];
    const char *shown = *n->name != 0 ? n->name : n->n_output > 0 ? n->output[0] : "";
    snprintf(whole, sizeof whole, "%s '%s': %.320s", dt__shown(n->op_type, type),
             dt__shown(shown, name), text);
    note(g, whole);
    g->n_faults++;
    const size_t room = sizeof g->faults - g->faults_used;
    const int length =
        snprintf(g->faults + g->faults_used, room, "%s%s", g->faults_used == 0 ? "" : "; ", whole);
    if (length >= 0 && (size_t)length < room) g->faults_used += (size_t)length;
    else g->faults[g->faults_used] = 0;
}

/* If reading continues after faults, records the context's error about the file, and returns OK. */
static dt_status pass_over(dt__onnx *g, dt_status s)
{
    if (g->note == NULL || (s != DT_ERR_UNSUPPORTED && s != DT_ERR_FORMAT)) return s;
    g->n_faults++;
    note(g, dt_error(g->ctx));
    return DT_OK;
}

static dt_status report(dt__onnx *g)
{
    if (g->noted != DT_OK) return g->noted;
    if (g->n_faults == 0) return DT_OK;
    return dt_fail(g->ctx, DT_ERR_UNSUPPORTED, "%s: %lld node%s cannot be read: %s", g->file->path,
                   (long long)g->n_faults, g->n_faults == 1 ? "" : "s", g->faults);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void name_values(dt__onnx *g)
{
    const DtOnnx__Graph *graph = g->graph;
    const dt__onnx_value blank = { .maker = -1, .plain = -1 };
    int64_t n = 0;
    for (size_t i = 0; i < graph->n_initializer; i++) {
        g->value[n] = blank;
        g->value[n++].name = graph->initializer[i]->name;
    }
    for (size_t i = 0; i < graph->n_input; i++) {
        if (dt__onnx_is_initializer(graph, graph->input[i]->name)) continue;
        g->value[n] = blank;
        g->value[n++].name = graph->input[i]->name;
    }
    for (size_t i = 0; i < graph->n_node; i++) {
        for (size_t k = 0; k < graph->node[i]->n_output; k++) {
            if (*graph->node[i]->output[k] == 0) continue;
            g->value[n] = blank;
            g->value[n].maker = (int64_t)i;
            g->value[n++].name = graph->node[i]->output[k];
        }
    }
    g->n_values = n;
    qsort(g->value, (size_t)n, sizeof *g->value, dt__by_text);
}

static dt_status list_values(dt__onnx *g)
{
    const DtOnnx__Graph *graph = g->graph;
    char shown[DT__SHOWN];
    int64_t most = (int64_t)(graph->n_initializer + graph->n_input);
    for (size_t i = 0; i < graph->n_node; i++) most += (int64_t)graph->node[i]->n_output;
    g->value = dt__onnx_memory(g, most, sizeof *g->value);
    if (g->value == NULL) return DT_ERR_NOMEM;
    name_values(g);
    for (int64_t i = 1; i < g->n_values; i++) {
        if (strcmp(g->value[i - 1].name, g->value[i].name) != 0) continue;
        return dt_fail(g->ctx, DT_ERR_FORMAT, "%s: two values have the name '%s'", g->file->path,
                       dt__shown(g->value[i].name, shown));
    }
    for (size_t i = 0; i < graph->n_node; i++) {
        for (size_t k = 0; k < graph->node[i]->n_input; k++) {
            dt__onnx_value *v = dt__onnx_find(g, graph->node[i]->input[k]);
            if (v != NULL) v->uses++;
        }
    }
    for (size_t i = 0; i < graph->n_output; i++) {
        dt__onnx_value *v = dt__onnx_find(g, graph->output[i]->name);
        if (v != NULL) v->uses++;
    }
    return DT_OK;
}

static dt_status read_initializers(dt__onnx *g)
{
    for (size_t i = 0; i < g->graph->n_initializer; i++) {
        const dt__onnx_tensor *t = g->graph->initializer[i];
        dt__onnx_value *v = dt__onnx_find(g, t->name);
        DT__TRY(pass_over(g, dt__onnx_decode(g, t, v)));
        if (v->kind == DT__ONNX_UNSET) v->kind = DT__ONNX_WRONG;
    }
    return DT_OK;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static dt_status input_error(dt__onnx *g, const DtOnnx__ValueInfo *in, const char *text)
{
    char shown[DT__SHOWN];
    return dt_fail(g->ctx, DT_ERR_UNSUPPORTED, "%s: the input '%s' %s", g->file->path,
                   dt__shown(in->name, shown), text);
}

/* For an input [H, W, C] of the file: makes the layer's shape [C, H, W], and gives v the file's
 * order of dimensions. */
static void put_channels_first(dt__onnx_layer *l, dt__onnx_value *v)
{
    const int64_t *from = l->shape.dims;
    l->shape = (dt_shape){ .rank = 3, .dims = { from[2], from[0], from[1] } };
    v->plain = -1;
    v->axis[1] = 2;
    v->axis[2] = 3;
    v->axis[3] = 1;
}

static bool is_whole(const DtOnnx__TensorType *t)
{
    return t->elem_type == DT__ONNX_I32 || t->elem_type == DT__ONNX_I64;
}

/* Checks the element type of an input; its layer computes in float. */
static dt_status check_type(dt__onnx *g, const DtOnnx__ValueInfo *in, const DtOnnx__TensorType *t)
{
    char shown[DT__SHOWN];
    const size_t own = t == NULL || t->shape == NULL ? 0 : t->shape->n_dim;
    if (g->options->no_batch && (own < 1 || own >= DT_MAX_RANK)) {
        return input_error(g, in, "must be a tensor of 1 to 7 dimensions, without a batch");
    }
    if (!g->options->no_batch && (own < 2 || own > DT_MAX_RANK)) {
        return input_error(g, in, "must be a tensor of a batch and 1 to 7 more dimensions");
    }
    if (t->elem_type == DT__ONNX_F16 || t->elem_type == DT__ONNX_BF16) {
        return input_error(g, in,
                           "has floats of 16 bits, in which every result would be rounded; "
                           "export the model in float32");
    }
    if (t->elem_type != DT__ONNX_FLOAT && t->elem_type != DT__ONNX_DOUBLE && !is_whole(t)) {
        return input_error(g, in, "must have floats, int32 or int64");
    }
    if (t->elem_type == DT__ONNX_DOUBLE) {
        dt__say(g->ctx, "%s: the input '%s' has doubles; the model computes in float",
                g->file->path, dt__shown(in->name, shown));
    }
    return DT_OK;
}

/* The batch dimension of an input: the first, or the second of [time, batch, width] if that is the
 * only symbol. */
static size_t batch_of(const dt__onnx *g, const DtOnnx__Shape *from)
{
    const bool sequence = from->n_dim == 3 && !g->options->no_batch &&
                          from->dim[0]->dim_value > 1 && from->dim[1]->dim_value == 0 &&
                          from->dim[2]->dim_value > 0;
    return sequence ? 1 : 0;
}

/* The shape of one example: dimension `at` is the batch, if there is one; the others must be
 * numbers. */
static dt_status read_shape(dt__onnx *g, const DtOnnx__ValueInfo *in, const DtOnnx__Shape *from,
                            size_t at, dt_shape *out)
{
    for (size_t i = 0; i < from->n_dim; i++) {
        const int64_t extent = from->dim[i]->dim_value;
        if (!g->options->no_batch && i == at) continue;
        if (extent < 1 || extent > INT32_MAX) {
            return input_error(g, in,
                               "must have numbers as dimensions, besides the batch; --shape "
                               "'NAME:1x3x224x224' gives them");
        }
        out->dims[out->rank++] = extent;
    }
    /* -1, as Paddle writes, also means any number */
    const int64_t batch = g->options->no_batch ? 0 : dt__max_i64(from->dim[at]->dim_value, 0);
    if (batch > INT32_MAX || (batch > 0 && g->batch > 0 && batch != g->batch)) {
        return input_error(g, in, "has another batch size than the input before it");
    }
    if (batch > 0) g->batch = batch;
    return DT_OK;
}

static dt_status read_input(dt__onnx *g, const DtOnnx__ValueInfo *in)
{
    const DtOnnx__TensorType *t = in->type == NULL ? NULL : in->type->tensor_type;
    DT__TRY(check_type(g, in, t));
    dt__onnx_layer *l = dt__onnx_memory(g, 1, sizeof *l);
    if (l == NULL) return DT_ERR_NOMEM;
    const size_t at = batch_of(g, t->shape);
    DT__TRY(read_shape(g, in, t->shape, at, &l->shape));
    l->name = dt__onnx_clean(g, in->name);
    if (l->name == NULL) return DT_ERR_NOMEM;
    DT__TRY(DT__RESERVE(g->ctx, g->layer, g->n_layers, g->room_layers));
    l->index = g->n_layers;
    g->layer[g->n_layers++] = l;
    dt__onnx_value *v = dt__onnx_find(g, in->name);
    v->kind = DT__ONNX_COMPUTED;
    v->layer = v->plain = l->index;
    v->rank = l->shape.rank + 1;
    v->whole = is_whole(t);
    dt__onnx_put_batch_at(v, (int)at);
    if (at > 0) {
        dt__say(g->ctx,
                "%s: the input '%s' has the batch as dimension %zu; the model's has it first",
                g->file->path, l->name, at);
    }
    if ((g->options->channels_last || g->file->channels_last) && v->rank == 4) {
        put_channels_first(l, v);
    }
    return DT_OK;
}

static dt_status read_inputs(dt__onnx *g)
{
    for (size_t i = 0; i < g->graph->n_input; i++) {
        const DtOnnx__ValueInfo *in = g->graph->input[i];
        if (dt__onnx_is_initializer(g->graph, in->name)) continue;
        dt__onnx_value *v = dt__onnx_find(g, in->name);
        DT__TRY(pass_over(g, read_input(g, in)));
        if (v->kind == DT__ONNX_UNSET) v->kind = DT__ONNX_WRONG;
    }
    if (g->n_faults > 0) return DT_OK; /* the cause was reported */
    if (g->n_layers >= 1 && g->n_layers <= DT_MAX_SHAPES) return DT_OK;
    return dt_fail(g->ctx, DT_ERR_UNSUPPORTED, "%s: %lld inputs; 1 to %d are read", g->file->path,
                   (long long)g->n_layers, DT_MAX_SHAPES);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool is_standard(const dt__onnx_node *n)
{
    return *n->domain == 0 || strcmp(n->domain, "ai.onnx") == 0;
}

static dt_status check_node(dt__onnx *g)
{
    char text[DT__MESSAGE_SIZE];
    const dt_status s = dt__onnx_check_node(g);
    if (s != DT_ERR_UNSUPPORTED) return s;
    snprintf(text, sizeof text, "%s", dt_error(g->ctx));
    fault(g, g->node, text);
    return DT_OK;
}

/* Checks all nodes first, for operators that are unknown or that the table refuses. */
static dt_status check_operators(dt__onnx *g)
{
    g->refused = dt__onnx_memory(g, (int64_t)g->graph->n_node, sizeof *g->refused);
    if (g->refused == NULL) return DT_ERR_NOMEM;
    for (size_t i = 0; i < g->graph->n_node; i++) {
        const dt__onnx_node *n = g->graph->node[i];
        const int64_t before = g->n_faults;
        g->node = n;
        if (!is_standard(n)) fault(g, n, "an operator outside of the standard");
        else if (dt__onnx_is_loop(n)) {
            fault(g, n,
                  "its number of turns must be a constant of the file, from 1 to 1024, "
                  "and its body without loops");
        } else if (dt__onnx_is_if(n)) {
            fault(g, n, "its condition must be known from the sizes of the inputs");
        } else if (dt__onnx_operator_of(n->op_type) == NULL) {
            fault(g, n,
                  dt__onnx_is_expanded(n) ? "it is known behind a DynamicQuantizeLinear, with a "
                                            "Cast to float and a Mul by both scales behind it"
                                          : "the operator is not known");
        } else if (*n->overload != 0) fault(g, n, "an overload of a function");
        else DT__TRY(check_node(g));
        g->refused[i] = g->n_faults > before;
    }
    return g->note == NULL ? report(g) : g->noted;
}

/* Whether all inputs can be used; *constant: all are constant. Missing results of a faulty node are
 * not reported again. */
static bool check_inputs(dt__onnx *g, int64_t i, bool *constant)
{
    const dt__onnx_node *n = g->node;
    const dt__onnx_version *o = dt__onnx_version_of(n->op_type, g->file->opset);
    char text[200], shown[DT__SHOWN];
    *constant = true;
    for (size_t k = 0; k < n->n_input; k++) {
        const char *name = n->input[k];
        const dt__onnx_value *v = *name == 0 ? NULL : dt__onnx_find(g, name);
        if (v != NULL && v->kind == DT__ONNX_WRONG) return false;
        if (v != NULL && v->kind != DT__ONNX_UNSET) {
            *constant &= v->kind == DT__ONNX_CONSTANT;
            continue;
        }
        if (*name == 0 && (int)k >= o->least_in) continue;
        const char *why = *name == 0      ? "is absent"
                          : v == NULL     ? "is nowhere made"
                          : v->maker >= i ? "is made by a later node; nodes must be sorted, "
                                            "and no cycle can be"
                                          : "is a result that is not read";
        snprintf(text, sizeof text, "its input %zu '%s' %s", k, dt__shown(name, shown), why);
        fault(g, n, text);
        return false;
    }
    return true;
}

static bool has_result(dt__onnx *g)
{
    bool has = false;
    for (size_t k = 0; k < g->node->n_output; k++) has |= dt__onnx_out(g, (int)k) != NULL;
    return has;
}

static dt_status read_node(dt__onnx *g, int64_t i)
{
    bool constant;
    char text[DT__MESSAGE_SIZE];
    g->node = g->graph->node[i];
    const dt__onnx_operator *o = dt__onnx_operator_of(g->node->op_type);
    dt_status s = DT_ERR_UNSUPPORTED;
    if (!g->refused[i] && check_inputs(g, i, &constant)) {
        bool made = false;
        const bool product = o->fold == dt__onnx_fold_product;
        if (constant && (o->fold == NULL || product) && o->compute != NULL) {
            DT__TRY(dt__onnx_compute_spread(g, &made));
        }
        constant &= !made;
        g->front = g->options->no_batch && !constant;
        dt__onnx_reader *read = constant ? o->fold : o->compute;
        if (!has_result(g)) {
            return DT_OK; /* unnamed: no node can read it */
        }
        if (read == NULL) {
            s = dt__onnx_refuse(
                g, constant ? "all its inputs are constants; expected one that is computed"
                            : "it is not read of a computed value, of constants alone");
        } else if (dt__onnx_out(g, 0) == NULL && read != dt__onnx_rnn && read != dt__onnx_gru &&
                   read != dt__onnx_lstm) {
            s = dt__onnx_refuse(g, "its first result has no name");
        } else {
            s = dt__onnx_round_inputs(g);
            if (s == DT_OK) s = read(g);
            if (s == DT_OK) dt__onnx_keep_codes(g);
            if (s == DT_OK && constant) dt__onnx_keep_spread(g);
        }
        if (s == DT_ERR_NOMEM) return s;
        snprintf(text, sizeof text, "%s", dt_error(g->ctx));
        if (s != DT_OK) fault(g, g->node, text);
    }
    for (size_t k = 0; k < g->node->n_output && s != DT_OK; k++) {
        dt__onnx_value *out = dt__onnx_out(g, (int)k);
        if (out != NULL) out->kind = DT__ONNX_WRONG;
    }
    return DT_OK;
}

/* An unrolled loop whose condition is not always true is a fault. */
static void check_conditions(dt__onnx *g)
{
    for (int64_t i = 0; i < g->n_conditions; i++) {
        const dt__onnx_value *v = dt__onnx_find(g, g->condition[i].name);
        if (v == NULL || v->kind == DT__ONNX_WRONG) continue;
        const bool known = v->kind == DT__ONNX_CONSTANT && v->count == 1;
        if (known && dt__onnx_number_at(v, 0).value != 0) continue;
        fault(g, g->condition[i].loop,
              known ? "it ends before its last turn" : "what ends it is computed from the inputs");
        return;
    }
}

/* Plans progress: the work of reading a node is the number of its constants' elements. Results of
 * constant nodes are assumed to have as many elements. */
static dt_status plan_nodes(dt__onnx *g, double **work)
{
    const DtOnnx__Graph *graph = g->graph;
    double *numbers = dt__onnx_memory(g, g->n_values + 1, sizeof *numbers), all = 0;
    *work = dt__onnx_memory(g, (int64_t)graph->n_node + 1, sizeof **work);
    if (numbers == NULL || *work == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < g->n_values; i++) {
        const dt__onnx_value *v = &g->value[i];
        numbers[i] = v->kind == DT__ONNX_CONSTANT ? (double)v->count : -1;
    }
    for (size_t i = 0; i < graph->n_node; i++) {
        const dt__onnx_node *n = graph->node[i];
        bool constant = true;
        for (size_t k = 0; k < n->n_input; k++) {
            const dt__onnx_value *v = dt__onnx_find(g, n->input[k]);
            if (v == NULL) continue;
            constant = constant && numbers[v - g->value] >= 0;
            (*work)[i] += fmax(numbers[v - g->value], 0);
        }
        for (size_t k = 0; k < n->n_output; k++) {
            const dt__onnx_value *v = dt__onnx_find(g, n->output[k]);
            if (v != NULL && constant) numbers[v - g->value] = (*work)[i];
        }
        all += (*work)[i];
    }
    dt__plan_work(g->ctx, DT__NODES, all);
    return DT_OK;
}

dt_status dt__onnx_walk(dt__onnx *g)
{
    double *work;
    DT__TRY(dt__onnx_unroll(g));
    DT__TRY(dt__onnx_expand_codes(g));
    DT__TRY(check_operators(g));
    if (g->graph->n_quantization_annotation > 0) {
        dt__say(g->ctx, "%s: notes on quantization are left out; they change no value",
                g->file->path);
    }
    DT__TRY(list_values(g));
    DT__TRY(read_initializers(g));
    DT__TRY(read_inputs(g));
    DT__TRY(plan_nodes(g, &work));
    for (size_t i = 0; i < g->graph->n_node; i++) {
        DT__TRY(read_node(g, (int64_t)i));
        if (work[i] > 0) dt__did_work(g->ctx, DT__NODES, work[i]);
    }
    check_conditions(g);
    return report(g);
}
