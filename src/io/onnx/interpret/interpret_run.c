/* Runs an ONNX graph node by node. A value is freed after the last node that reads it. */
#include "core/text/row_named.h"
#include "core/block_list.h"
#include "core/text/json.h"
#include "io/onnx/interpret/interpret_graph.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- messages, memory ------------------------------------------------------------------------ */

dt_status dt__verify_refuse(const dt__verify_call *c, const char *format, ...)
{
    char name[DT__SHOWN], kind[DT__SHOWN], text[400];
    DT__FORMAT(text, sizeof text, format);
    if (c->v->arena != NULL) return dt_fail(c->v->ctx, DT_ERR_UNSUPPORTED, "%s", text);
    const char *own = c->node->name;
    if (*own == 0 && c->node->n_output > 0) own = c->node->output[0];
    return dt_fail(c->v->ctx, DT_ERR_FORMAT, "%s: node '%s' (%s): %s", c->v->path,
                   dt__shown(own, name), dt__shown(c->node->op_type, kind), text);
}

/* Memory for a value whose type and extents are set. */
static dt_status allocate(dt__verify *v, dt__verify_slot *s)
{
    dt__verify_value *value = &s->value;
    size_t size;
    const bool fits = dt__verify_fits(value->rank, value->dims, &value->count) &&
                      dt__mul_size((uint64_t)value->count, dt__verify_size(value->type), &size) &&
                      size <= v->limits.bytes - v->bytes;
    if (!fits) {
        char shown[DT__SHOWN];
        return dt_fail(v->ctx, DT_ERR_FORMAT, "%s: the value '%s' would take more than %zu bytes",
                       v->path, dt__shown(s->name, shown), v->limits.bytes);
    }
    value->data =
        v->arena != NULL ? dt__block_list_add(v->ctx, v->arena, size) : dt__alloc(v->ctx, size);
    if (value->data == NULL) return DT_ERR_NOMEM;
    v->bytes += s->bytes = size;
    return DT_OK;
}

static void drop(dt__verify *v, dt__verify_slot *s)
{
    dt__release(v->ctx, s->value.data);
    s->value.data = NULL;
    v->bytes -= s->bytes;
    s->bytes = 0;
}

dt_status dt__verify_work(const dt__verify_call *c, double a, double b, double d)
{
    c->v->work += a * b * d;
    return c->v->work <= c->v->limits.work
               ? DT_OK
               : dt__verify_refuse(c, "more than %g steps of work, the most that are run",
                                   c->v->limits.work);
}

void dt__verify_did(const dt__verify_call *c, double steps)
{
    dt__did_part(c->v->ctx, c->v->limits.lite ? DT__INTERPRET_LITE : DT__INTERPRET, steps);
}

dt_ctx *dt__verify_ctx(const dt__verify_call *c) { return c->v->ctx; }

int dt__verify_open_casts(const dt__verify_call *c) { return c->v->limits.open; }

size_t dt__verify_room(const dt__verify_call *c) { return c->v->limits.bytes - c->v->bytes; }

dt_status dt__verify_scratch(dt__verify_call *c, int64_t count, size_t size, void **out)
{
    size_t bytes = 0;
    dt__verify *v = c->v;
    if (count < 0 || !dt__mul_size((uint64_t)count, size, &bytes) ||
        bytes > v->limits.bytes - v->bytes) {
        return dt__verify_refuse(c, "it would take more than %zu bytes", v->limits.bytes);
    }
    *out = dt__block_list_add(v->ctx, &v->scratch, bytes);
    return *out == NULL ? DT_ERR_NOMEM : DT_OK;
}

dt_status dt__verify_make(dt__verify_call *c, int64_t i, dt__verify_type type, int rank,
                          const int64_t *dims, dt__verify_value **out)
{
    dt__verify_value *y = c->out[i];
    if (rank > DT_MAX_RANK) {
        return dt__verify_refuse(c, "a result of %d dimensions; %d are the most", rank,
                                 DT_MAX_RANK);
    }
    dt__verify_slot *s = (dt__verify_slot *)((char *)y - offsetof(dt__verify_slot, value));
    *y = (dt__verify_value){ .type = type, .rank = rank };
    for (int d = 0; d < rank; d++) y->dims[d] = dims[d];
    const int64_t most = c->v->limits.elements;
    if (most > 0 && (!dt__verify_fits(rank, dims, &y->count) || y->count > most)) {
        return dt__verify_refuse(c, "its result has more than %lld elements", (long long)most);
    }
    DT__TRY(allocate(c->v, s));
    *out = y;
    return dt__verify_work(c, (double)y->count, 1, 1);
}

dt_status dt__verify_make_like(dt__verify_call *c, int64_t i, const dt__verify_value *like,
                               dt__verify_value **out)
{
    return dt__verify_make(c, i, like->type, like->rank, like->dims, out);
}

dt_status dt__verify_same(dt__verify_call *c, int rank, const int64_t *dims)
{
    const dt__verify_value *x = c->in[0];
    dt__verify_value *y = c->out[0];
    if (c->v->arena == NULL) {
        DT__TRY(dt__verify_make(c, 0, x->type, rank, dims, &y));
        memcpy(y->data, x->data, (size_t)x->count * dt__verify_size(x->type));
        return DT_OK;
    }
    *y = *x;
    y->rank = rank;
    for (int d = 0; d < rank; d++) y->dims[d] = dims[d];
    return DT_OK;
}

/* ---- inputs and outputs ---------------------------------------------------------------------- */

#define MOST_SYMBOLS 64

/* Extents of the symbols ("batch") of declared shapes. */
typedef struct symbols {
    int n;
    const char *name[MOST_SYMBOLS];
    int64_t extent[MOST_SYMBOLS];
} symbols;

static bool binds(symbols *s, const char *name, int64_t extent)
{
    for (int i = 0; i < s->n; i++) {
        if (strcmp(s->name[i], name) == 0) return s->extent[i] == extent;
    }
    if (s->n == MOST_SYMBOLS) return true;
    s->name[s->n] = name;
    s->extent[s->n++] = extent;
    return true;
}

/* Compares a value with its declaration in the graph. */
static dt_status check_declared(const dt__verify *v, const DtOnnx__ValueInfo *info,
                                const dt__verify_value *x, symbols *s)
{
    char name[DT__SHOWN], text[160];
    dt__shown(info->name, name);
    if (dt__verify_size(x->type) == 0) { /* an input of the file without an element type */
        return dt_fail(v->ctx, DT_ERR_DTYPE, "%s: '%s' is %s", v->path, name,
                       dt__verify_type_name(x->type));
    }
    const DtOnnx__TensorType *declared = info->type == NULL ? NULL : info->type->tensor_type;
    if (declared == NULL) return DT_OK;
    if (declared->elem_type != (int)x->type) {
        return dt_fail(v->ctx, DT_ERR_DTYPE, "%s: '%s' is %s, but declared %s", v->path, name,
                       dt__verify_type_name(x->type),
                       dt__verify_type_name((dt__verify_type)declared->elem_type));
    }
    if (declared->shape == NULL) return DT_OK;
    bool fits = declared->shape->n_dim == (size_t)x->rank;
    for (int d = 0; fits && d < x->rank; d++) {
        const DtOnnx__Dimension *dim = declared->shape->dim[d];
        if (*dim->dim_param != 0) fits = binds(s, dim->dim_param, x->dims[d]);
        else fits = dim->dim_value == 0 || dim->dim_value == x->dims[d];
    }
    if (fits) return DT_OK;
    dt__dims_text(x->rank, x->dims, text, sizeof text);
    return dt_fail(v->ctx, DT_ERR_SHAPE, "%s: '%s' is %s, but its declared shape is another one",
                   v->path, name, text);
}

static const dt__verify_named *given(const dt__verify_named *in, int64_t n, const char *name)
{
    return dt__row_named(in, n, sizeof *in, name);
}

static dt_status set_inputs(dt__verify *v, const dt__verify_named *in, int64_t n_in, symbols *s)
{
    char shown[DT__SHOWN];
    for (int64_t i = 0; i < n_in; i++) {
        const int64_t k = dt__verify_find(v, in[i].name);
        if (k != DT__VERIFY_ABSENT && v->slot[k].input) continue;
        return dt_fail(v->ctx, DT_ERR_SHAPE, "%s: it has no input '%s'", v->path,
                       dt__shown(in[i].name, shown));
    }
    for (int64_t i = 0; i < v->n_inputs; i++) {
        const DtOnnx__ValueInfo *info = v->input[i];
        const dt__verify_named *x = given(in, n_in, info->name);
        dt__verify_slot *to = &v->slot[dt__verify_find(v, info->name)];
        if (x == NULL) {
            return dt_fail(v->ctx, DT_ERR_SHAPE, "%s: its input '%s' is missing", v->path,
                           dt__shown(info->name, shown));
        }
        DT__TRY(check_declared(v, info, &x->value, s));
        to->value = x->value;
        to->value.data = NULL;
        DT__TRY(allocate(v, to));
        if (to->bytes > 0) memcpy(to->value.data, x->value.data, to->bytes);
    }
    return DT_OK;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static dt_status check_types(const dt__verify_call *c)
{
    const dt__verify_operator *op = c->op;
    const dt__verify_value *first = dt__verify_in(c, 0);
    if (first != NULL && (op->types >> first->type & 1) == 0) {
        return dt__verify_refuse(c, "it does not take %s", dt__verify_type_name(first->type));
    }
    const int64_t same = op->same < 0 || op->same > c->n_in ? c->n_in : op->same;
    for (int64_t i = 1; i < same; i++) {
        if (c->in[i] == NULL || first == NULL || c->in[i]->type == first->type) continue;
        return dt__verify_refuse(c, "input %lld is %s, but input 0 %s", (long long)i,
                                 dt__verify_type_name(c->in[i]->type),
                                 dt__verify_type_name(first->type));
    }
    return DT_OK;
}

static dt_status run_call(dt__verify_call *c)
{
    dt_status status = check_types(c);
    if (status == DT_OK) status = c->op->run(c);
    for (int64_t k = 0; status == DT_OK && k < c->n_out; k++) {
        if (c->out[k] == NULL || c->out[k]->data != NULL) continue;
        status = dt__verify_refuse(c, "its output %lld is not made here", (long long)k);
    }
    dt__block_list_free(c->v->ctx, &c->v->scratch);
    return status;
}

static dt_status run_node(dt__verify *v, const dt__verify_node *s)
{
    const int64_t n_in = (int64_t)s->node->n_input, n_out = (int64_t)s->node->n_output;
    for (int64_t k = 0; k < n_in; k++) {
        v->in[k] = s->in[k] == DT__VERIFY_ABSENT ? NULL : &v->slot[s->in[k]].value;
    }
    for (int64_t k = 0; k < n_out; k++) {
        v->out[k] = s->out[k] == DT__VERIFY_ABSENT ? NULL : &v->slot[s->out[k]].value;
    }
    dt__verify_call c = { .v = v,
                          .node = s->node,
                          .op = s->op,
                          .in = v->in,
                          .n_in = n_in,
                          .out = v->out,
                          .n_out = n_out,
                          .body = s->body };
    return run_call(&c);
}

static dt_status run_alone(dt__verify *v, dt__verify_call *c, dt__verify_value *out)
{
    v->slot = dt__block_list_add(v->ctx, &v->blocks, (size_t)c->n_out * sizeof *v->slot);
    v->out = dt__block_list_add(v->ctx, &v->blocks, (size_t)c->n_out * sizeof(dt__verify_value *));
    if (v->slot == NULL || v->out == NULL) return DT_ERR_NOMEM;
    for (int64_t k = 0; k < c->n_out; k++) {
        v->slot[k].name = c->node->output[k];
        if (*c->node->output[k] != 0) v->out[k] = &v->slot[k].value;
    }
    c->out = v->out;
    for (int64_t k = 0; k < c->op->least_in; k++) {
        if (dt__verify_in(c, k) != NULL) continue;
        return dt__verify_refuse(c, "input %lld is missing", (long long)k);
    }
    DT__TRY(run_call(c));
    for (int64_t k = 0; k < c->n_out; k++) out[k] = v->slot[k].value;
    return DT_OK;
}

dt_status dt__verify_alone_run(const dt__verify_alone *alone, const dt__verify_value *const *in,
                               int64_t n_in, dt__verify_value *out)
{
    dt__verify v = { .ctx = alone->ctx,
                     .path = (char *)(uintptr_t)alone->path,
                     .limits = alone->limits,
                     .arena = alone->blocks };
    dt__verify_call c = { .v = &v,
                          .node = alone->node,
                          .op = alone->op,
                          .in = in,
                          .n_in = n_in,
                          .n_out = (int64_t)alone->node->n_output };
    const dt_status status = run_alone(&v, &c, out);
    dt__block_list_free(v.ctx, &v.blocks);
    return status;
}

/* Frees values that no node after `index` reads. */
static void forget(dt__verify *v, const dt__verify_node *s, int64_t index)
{
    for (size_t k = 0; k < s->node->n_input + s->node->n_output; k++) {
        const size_t n_in = s->node->n_input;
        const int64_t i = k < n_in ? s->in[k] : s->out[k - n_in];
        if (i != DT__VERIFY_ABSENT && v->slot[i].last <= index) drop(v, &v->slot[i]);
    }
}

dt_status dt__verify_run(dt__verify *v, const dt__verify_named *in, int64_t n_in)
{
    symbols s = { .n = 0 };
    v->work = 0;
    for (int64_t i = 0; i < v->n_slots; i++) {
        if (!v->slot[i].constant) drop(v, &v->slot[i]);
    }
    DT__TRY(set_inputs(v, in, n_in, &s));
    for (int64_t i = 0; i < (int64_t)v->graph->n_node; i++) {
        const double before = v->work;
        DT__TRY(run_node(v, &v->node[i]));
        forget(v, &v->node[i], i);
        if (v->around == NULL && !v->limits.lite)
            dt__did_work(v->ctx, DT__INTERPRET, v->work - before);
    }
    for (int64_t i = 0; i < dt__verify_outputs(v); i++) {
        DT__TRY(check_declared(v, v->graph->output[i], dt__verify_output(v, i), &s));
    }
    return DT_OK;
}

dt_status dt__verify_run_body(const dt__verify_call *c, const dt__verify_named *in, int64_t n_in)
{
    dt__verify *v = c->v, *body = c->body;
    for (int64_t i = 0; i < body->n_slots; i++) {
        dt__verify_slot *s = &body->slot[i];
        if (s->outer) s->value = v->slot[dt__verify_find(v, s->name)].value;
    }
    body->limits.bytes = v->limits.bytes - v->bytes;
    const dt_status status = dt__verify_run(body, in, n_in);
    v->work += body->work;
    if (status != DT_OK) return status;
    return dt__verify_work(c, 1, 1, 1);
}

double dt__verify_worked(const dt__verify *v) { return v->work; }

int64_t dt__verify_inputs(const dt__verify *v) { return v->n_inputs; }

int64_t dt__verify_outputs(const dt__verify *v) { return (int64_t)v->graph->n_output; }

const char *dt__verify_input_name(const dt__verify *v, int64_t i) { return v->input[i]->name; }

dt__verify_type dt__verify_input_type(const dt__verify *v, int64_t i)
{
    const DtOnnx__Type *type = v->input[i]->type;
    const bool known = type != NULL && type->tensor_type != NULL;
    return known ? (dt__verify_type)type->tensor_type->elem_type : DT__VERIFY_F32;
}

bool dt__verify_input_dims(const dt__verify *v, int64_t i, int64_t batch, dt__verify_value *out)
{
    const DtOnnx__Type *type = v->input[i]->type;
    const DtOnnx__TensorType *tensor = type == NULL ? NULL : type->tensor_type;
    if (tensor == NULL || tensor->shape == NULL || tensor->shape->n_dim > DT_MAX_RANK) return false;
    *out = (dt__verify_value){ .type = dt__verify_input_type(v, i),
                               .rank = (int)tensor->shape->n_dim };
    for (int d = 0; d < out->rank; d++) {
        const DtOnnx__Dimension *dim = tensor->shape->dim[d];
        const bool symbol = *dim->dim_param != 0;
        out->dims[d] = !symbol ? dim->dim_value : strcmp(dim->dim_param, "batch") == 0 ? batch : 0;
    }
    return dt__verify_fits(out->rank, out->dims, &out->count) && out->count == 0;
}

const char *dt__verify_output_name(const dt__verify *v, int64_t i)
{
    return v->graph->output[i]->name;
}

const dt__verify_value *dt__verify_output(const dt__verify *v, int64_t i)
{
    return &v->slot[dt__verify_find(v, v->graph->output[i]->name)].value;
}
