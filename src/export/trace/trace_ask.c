/* Makes a trace, and returns information about it. */
#include "export/trace/trace.h"

#include "nn/families/family.h"
#include "nn/layers/embedding.h"
#include "nn/lists/graph.h"

#include <stdio.h>
#include <string.h>

/* ---- making ---------------------------------------------------------------------------------- */

static dt_status check_options(dt_module *m, const dt_trace_options *o)
{
    if (o == NULL || o->input == NULL || o->n_inputs < 1 || o->n_inputs > DT_MAX_IN ||
        o->n_outputs < 0 || o->n_outputs > DT_MAX_OUT) {
        return dt_fail(m->ctx, DT_ERR_ARG, "trace: a model has 1...%d inputs and 1...%d outputs",
                       DT_MAX_IN, DT_MAX_OUT);
    }
    for (int i = 0; i < o->n_inputs; i++) {
        const dt_trace_input *in = &o->input[i];
        const bool fits = in->rank >= (in->tokens ? 2 : 1) && in->rank <= DT_MAX_RANK &&
                          in->dims[0] == 1 &&
                          (in->dtype == DT_F32 || (in->dtype == DT_I32 && in->below > 0));
        if (fits) continue;
        return dt_fail(m->ctx, DT_ERR_ARG,
                       "trace: input %d must be one example, dims[0] = 1, of f32, or of i32 with "
                       "`below` above 0; tokens are [1, length]",
                       i);
    }
    return DT_OK;
}

/* The sizes of two passes to compare, which fit the model's context. */
static void sizes_of(int64_t context, int which, dt__trace_size *a, dt__trace_size *b)
{
    const bool roomy = context == 0 || context >= 5;
    *a = *b = (dt__trace_size){ 1, roomy ? 2 : 1 };
    if (which == 0) b->batch = 3;
    else b->length = roomy ? 5 : context;
}

static int64_t context_of(const dt_trace_options *o)
{
    int64_t context = 0;
    for (int i = 0; i < o->n_inputs; i++) {
        if (o->input[i].tokens) context = o->input[i].context;
    }
    return context;
}

static dt_status record(dt_module *m, const dt_trace_options *o, dt_trace **out)
{
    dt__trace_size size, other;
    sizes_of(context_of(o), 0, &size, &other);
    return dt__trace_record(m, o, &size, out);
}

static dt_status join(dt_module *m, const dt_trace_options *o, int which, dt_trace *t)
{
    dt__trace_size size, other_size;
    dt_trace *other;
    sizes_of(t->context, which, &size, &other_size);
    if (size.batch == other_size.batch && size.length == other_size.length) return DT_OK;
    DT__TRY(dt__trace_record(m, o, &other_size, &other));
    const dt_status s = dt__trace_join(t, other, &size, &other_size, which);
    dt_trace_free(other);
    return s;
}

dt_status dt_trace_create(dt_module *m, const dt_trace_options *options, dt_trace **out)
{
    DT__NEED(dt_module_ctx(m), out);
    dt_trace *t;
    *out = NULL;
    if (m == NULL) return DT_ERR_ARG;
    DT__TRY(check_options(m, options));
    DT__TRY(record(m, options, &t));
    dt_status s = join(m, options, 0, t);
    if (s == DT_OK && t->tokens) s = join(m, options, 1, t);
    if (s == DT_OK) s = dt__trace_prune(t);
    if (s == DT_OK) *out = t;
    else dt_trace_free(t);
    return s;
}

dt_status dt__trace_inputs_of(dt_module *m, const dt_model_info *info, dt_trace_input *in, int *n)
{
    const dt_shape *shapes = NULL;
    dt_example x, y;
    const int64_t rows = dt__embedding_rows(m);
    *n = dt__graph_inputs(m, &shapes);
    for (int i = 0; i < *n; i++) {
        in[i] = (dt_trace_input){
            .dtype = DT_F32, .rank = 1 + shapes[i].rank, .dims = { 1 }, .below = rows
        };
        for (int k = 0; k < shapes[i].rank; k++) in[i].dims[1 + k] = shapes[i].dims[k];
    }
    if (*n > 0) return DT_OK;
    if (info == NULL || info->family == NULL || info->family->shapes == NULL) {
        return dt_fail(m->ctx, DT_ERR_ARG,
                       "trace: the shapes of this model's inputs are not "
                       "known; dt_trace_create takes them");
    }
    DT__TRY(info->family->shapes(m->ctx, info->options, &x, &y));
    *n = 1;
    in[0] = (dt_trace_input){ .dtype = DT_F32, .rank = 1 + x.rank, .dims = { 1 } };
    for (int k = 0; k < x.rank; k++) in[0].dims[1 + k] = x.dims[k];
    if (x.rank > 0) return DT_OK;
    in[0] = (dt_trace_input){ .name = "tokens",
                              .dtype = DT_I32,
                              .rank = 2,
                              .dims = { 1, 1 },
                              .tokens = true,
                              .below = x.dims[0],
                              .context = x.dims[1] };
    return DT_OK;
}

dt_status dt__trace_for(dt_module *m, const dt_model_info *info, const dt_exporter *e,
                        bool shapes_only, dt_trace **out)
{
    dt_trace_input in[DT_MAX_IN];
    dt_trace_options o = { .input = in, .shapes_only = shapes_only };
    if (e != NULL) o.becomes = e->becomes;
    *out = NULL;
    if (m == NULL) return DT_ERR_ARG;
    DT__TRY(dt__trace_inputs_of(m, info, in, &o.n_inputs));
    o.n_outputs = dt__module_outputs(m);
    return dt_trace_create(m, &o, out);
}

dt_status dt_trace_model(dt_module *m, const dt_model_info *info, bool shapes_only, dt_trace **out)
{
    DT__NEED(dt_module_ctx(m), out);
    return dt__trace_for(m, info, NULL, shapes_only, out);
}

/* ---- parts ----------------------------------------------------------------------------------- */

int64_t dt_trace_calls(const dt_trace *t) { return t == NULL ? 0 : t->n_calls; }
int64_t dt_trace_values(const dt_trace *t) { return t == NULL ? 0 : t->n_values; }
bool dt_trace_has_length(const dt_trace *t) { return t == NULL ? false : t->tokens; }
int64_t dt_trace_context(const dt_trace *t) { return t == NULL ? 0 : t->context; }

const dt_trace_call *dt_trace_call_at(const dt_trace *t, int64_t i)
{
    if (t == NULL) return NULL;
    return i >= 0 && i < t->n_calls ? &t->call[i] : NULL;
}

const dt_trace_value *dt_trace_value_at(const dt_trace *t, int64_t i)
{
    if (t == NULL) return NULL;
    return i >= 0 && i < t->n_values ? &t->value[i] : NULL;
}

int dt_trace_inputs(const dt_trace *t, const int64_t **values)
{
    if (t == NULL) return 0;
    if (values == NULL) return 0;
    *values = t->in;
    return t->n_in;
}

int dt_trace_outputs(const dt_trace *t, const int64_t **values)
{
    if (t == NULL) return 0;
    if (values == NULL) return 0;
    *values = t->out;
    return t->n_out;
}

/* ---- extents --------------------------------------------------------------------------------- */

int64_t dt_extent_at(dt_extent e, int64_t batch, int64_t length)
{
    return dt__times_i64(dt__times_i64(e.size, e.batch != 0 ? batch : 1),
                         e.length != 0 ? length : 1);
}

int64_t dt_trace_count(const dt_trace_value *v, int64_t batch, int64_t length)
{
    if (v == NULL) return 0;
    int64_t n = 1;
    for (int i = 0; i < v->rank; i++) {
        n = dt__times_i64(n, dt_extent_at(v->extent[i], batch, length));
    }
    return n;
}

static int64_t int_at(const void *options, size_t offset)
{
    int64_t v;
    memcpy(&v, (const char *)options + offset, sizeof v);
    return v;
}

dt_extent dt_trace_option(const dt_trace_call *c, size_t offset)
{
    const size_t size = c == NULL || c->options == NULL ? 0 : c->op->options_size;
    if (size < sizeof(int64_t) || offset > size - sizeof(int64_t)) return (dt_extent){ 0 };
    dt_extent e = { int_at(c->options, offset), 0, 0 };
    const int64_t base = e.size;
    if (c->other[1] != NULL && int_at(c->other[1], offset) != base) {
        e.length = 1;
        e.size /= c->length;
    }
    if (c->other[0] != NULL && int_at(c->other[0], offset) != base) e.batch = 1;
    return e;
}

/* ---- what ops cost, and where their results may lie ------------------------------------------ */

typedef struct query {
    const dt_trace *t;
    const dt_trace_call *c;
    int64_t batch, length;
} query;

static const dt_trace_value *operand(const query *q, int i)
{
    return &q->t->value[q->c->in[i].value];
}

static int64_t count(const query *q, int64_t value)
{
    return dt_trace_count(&q->t->value[value], q->batch, q->length);
}

static int64_t extent(const query *q, int i, int d)
{
    const dt_trace_value *v = operand(q, i);
    return dt_extent_at(v->extent[d < 0 ? v->rank + d : d], q->batch, q->length);
}

static int64_t of_linear(const query *q)
{
    return dt__times_i64(count(q, q->c->out[0]), extent(q, 0, -1));
}

/* Number of elements of a filter; 0: the op has none. */
static int64_t of_filter(const query *q)
{
    const int64_t filters = extent(q, 1, 0);
    return filters == 0 ? 0 : count(q, q->c->in[1].value) / filters;
}

/* One filter application per element of the result (transposed: of the input). */
static int64_t of_conv(const query *q)
{
    return dt__times_i64(count(q, q->c->out[0]), of_filter(q));
}

static int64_t of_transposed(const query *q)
{
    return dt__times_i64(count(q, q->c->in[0].value), of_filter(q));
}

/* q k^T and its product with v; masked elements are counted. */
static int64_t of_attention(const query *q)
{
    return dt__times_i64(2, dt__times_i64(count(q, q->c->in[0].value), extent(q, 1, 1)));
}

static const struct {
    const char *op;
    int64_t (*products)(const query *q);
} products[] = {
    { "linear", of_linear },
    { "grouped_linear", of_linear },
    { "matmul", of_linear },
    { "conv1d", of_conv },
    { "conv2d", of_conv },
    { "conv_transpose1d", of_transposed },
    { "conv_transpose2d", of_transposed },
    { "attention", of_attention },
    { "device_linear", of_linear },
    { "device_conv2d", of_conv },
    { "device_conv_transpose2d", of_transposed },
};

int64_t dt_trace_multiply_adds(const dt_trace *t, const dt_trace_call *c, int64_t batch,
                               int64_t length)
{
    if (t == NULL) return 0;
    if (c == NULL) return 0;
    const query q = { t, c, batch, length };
    for (int i = 0; i < DT__COUNT_OF(products); i++) {
        if (strcmp(products[i].op, c->op->name) == 0) return products[i].products(&q);
    }
    return 0;
}

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names != NULL && strcmp(*names, name) != 0) names++;
    return *names != NULL;
}

bool dt_trace_is_view(const dt_trace_call *c)
{
    if (c == NULL) return false;
    static const char *const names[] = { "reshape", "flatten", NULL };
    return is_one_of(c->op->name, names);
}

bool dt_trace_is_in_place(const dt_trace *t, const dt_trace_call *c, int i)
{
    if (c == NULL) return false;
    static const char *const names[] = { "add",          "sub",          "mul",        "div",
                                         "neg",          "exp",          "log",        "sqrt",
                                         "square",       "tanh",         "sigmoid",    "silu",
                                         "relu",         "leaky_relu",   "relu6",      "elu",
                                         "hardsigmoid",  "hardswish",    "gelu",       "clamp",
                                         "maximum",      "greater",      "swiglu",     "prelu",
                                         "softmax",      "log_softmax",  "layer_norm", "rms_norm",
                                         "batch_norm1d", "batch_norm2d", "group_norm", NULL };
    if (!is_one_of(c->op->name, names) || c->in[i].value < 0 || c->out[0] < 0) return false;
    const dt_trace_value *x = &t->value[c->in[i].value], *y = &t->value[c->out[0]];
    if (c->in[i].quant != NULL || x->rank != y->rank || x->dtype != y->dtype) return false;
    return memcmp(x->extent, y->extent, (size_t)x->rank * sizeof x->extent[0]) == 0;
}

/* ---- options of a call ----------------------------------------------------------------------- */

static const void *field(const dt_trace_call *c, const char *name, dt_key_type *type)
{
    const dt_key *k = c->op->keys;
    while (strcmp(k->name, name) != 0) k++;
    *type = k->type;
    return (const char *)c->options + k->offset;
}

int64_t dt__trace_integer(const dt_trace_call *c, const char *name)
{
    dt_key_type type;
    const void *at = field(c, name, &type);
    if (type == DT_KEY_BOOL) return *(const bool *)at;
    if (type == DT_KEY_CHOICE) return *(const int *)at;
    return *(const int64_t *)at;
}

double dt__trace_number(const dt_trace_call *c, const char *name)
{
    dt_key_type type;
    return *(const double *)field(c, name, &type);
}

const dt_ints *dt__trace_list(const dt_trace_call *c, const char *name)
{
    dt_key_type type;
    return field(c, name, &type);
}

const void *dt__row_at(const void *const *lists, int n, size_t size, int i)
{
    for (int k = 0; k < n; k++) {
        for (const char *e = lists[k]; *(const char *const *)(const void *)e != NULL; e += size) {
            if (i-- == 0) return e;
        }
    }
    return NULL;
}

const void *dt__row_of_op(const void *const *lists, int n, size_t size, const char *op)
{
    const void *e = dt__row_at(lists, n, size, 0);
    for (int i = 0; e != NULL && strcmp(*(const char *const *)e, op) != 0;) {
        e = dt__row_at(lists, n, size, ++i);
    }
    return e;
}

bool dt__trace_takes_weight(const dt_trace *t, const dt_trace_call *c, int weight, char *why,
                            size_t size)
{
    const dt_trace_value *w = dt_trace_value_at(t, c->in[weight].value);
    if (w->kind == DT_VALUE_PARAMETER || w->kind == DT_VALUE_CONSTANT) return true;
    snprintf(why, size, "its weight is computed from an input");
    return false;
}

bool dt__trace_takes_values(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    (void)t;
    for (int i = 1; i < c->n_out; i++) {
        if (c->out[i] < 0) continue;
        snprintf(why, size, "the positions of maxima are read");
        return false;
    }
    return true;
}

bool dt__trace_takes_floats(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    for (int i = 0; i < c->n_in; i++) {
        if (c->in[i].value < 0) continue;
        const dt_dtype dtype = dt_trace_value_at(t, c->in[i].value)->dtype;
        if (dtype == DT_F32) continue;
        snprintf(why, size, "operand %d is %s, not f32", i, dt_dtype_name(dtype));
        return false;
    }
    return true;
}
