/* Reads an ONNX graph and checks all that can be checked before it runs. */
#include "core/block_list.h"
#include "core/text/json.h"
#include "io/onnx/interpret/interpret_graph.h"

#include <stdio.h>
#include <string.h>

#define OPSET 21
#define INT2_OPSET 25
#define DEFAULT_BYTES DT__AT_MOST(UINT64_C(8) << 30)
#define DEFAULT_WORK 1e13

/* ---- initializers ---------------------------------------------------------------------------- */

static dt_status decode_initializers(dt__verify *v)
{
    for (size_t i = 0; i < v->graph->n_initializer; i++) {
        const int64_t k = dt__verify_find(v, v->graph->initializer[i]->name);
        if (k == DT__VERIFY_ABSENT)
            return dt_fail(v->ctx, DT_ERR_FORMAT, "%s: a tensor has no name", v->path);
        dt__verify_slot *s = &v->slot[k];
        dt_status status = dt__verify_decode(v->ctx, v->graph->initializer[i],
                                             v->limits.bytes - v->bytes, &s->value);
        if (status != DT_OK && status != DT_ERR_NOMEM) {
            char text[DT__MESSAGE_SIZE / 2];
            snprintf(text, sizeof text, "%s", dt_error(v->ctx));
            status = dt_fail(v->ctx, status, "%s: %s", v->path, text);
        }
        DT__TRY(status);
        v->bytes += s->bytes = (size_t)s->value.count * dt__verify_size(s->value.type);
    }
    return DT_OK;
}

static const dt__verify_operator *in_table(const dt__verify_operator *table, const char *name)
{
    while (table->name != NULL && strcmp(table->name, name) != 0) table++;
    return table->name == NULL ? NULL : table;
}

const dt__verify_operator *dt__verify_operator_of(const char *name)
{
    static const dt__verify_operator *const tables[] = {
        dt__verify_elementwise, dt__verify_casts,   dt__verify_reductions, dt__verify_shapes,
        dt__verify_selections,  dt__verify_gathers, dt__verify_products,   dt__verify_convolutions,
        dt__verify_pools,       dt__verify_norms,   dt__verify_quantizers, dt__verify_scans,
    };
    const dt__verify_operator *op = NULL;
    for (int i = 0; op == NULL && i < DT__COUNT_OF(tables); i++) op = in_table(tables[i], name);
    return op;
}

static const dt__verify_operator *operator_of(const DtOnnx__Node *node)
{
    if (strcmp(node->domain, "com.microsoft") == 0) {
        return in_table(dt__verify_microsoft, node->op_type);
    }
    const bool standard = *node->domain == 0 || strcmp(node->domain, "ai.onnx") == 0;
    return standard ? dt__verify_operator_of(node->op_type) : NULL;
}

static dt_status check_node(const dt__verify_call *c)
{
    const dt__verify_operator *op = c->op;
    const size_t n_in = c->node->n_input, n_out = c->node->n_output;
    if (n_in < (size_t)op->least_in || (op->most_in > 0 && n_in > (size_t)op->most_in)) {
        return dt__verify_refuse(c, "%zu inputs; the operator has %d...%d", n_in, op->least_in,
                                 op->most_in);
    }
    if (n_out == 0 || (op->most_out > 0 && n_out > (size_t)op->most_out)) {
        return dt__verify_refuse(c, "%zu outputs; the operator has 1...%d", n_out, op->most_out);
    }
    if (*c->node->output[0] == 0) return dt__verify_refuse(c, "its first output has no name");
    for (size_t i = 0; i < c->node->n_attribute; i++) {
        const char *name = c->node->attribute[i]->name;
        const size_t length = strlen(name);
        const char *at = op->attributes == NULL || length == 0 ? NULL : op->attributes;
        while (at != NULL && (strncmp(at, name, length) != 0 || at[length] != ' ')) {
            at = strchr(at, ' ') + 1;
            if (*at == 0) at = NULL;
        }
        char shown[DT__SHOWN];
        if (at == NULL) {
            return dt__verify_refuse(c, "the attribute '%s' is not known", dt__shown(name, shown));
        }
    }
    return DT_OK;
}

static dt_status link_inputs(const dt__verify_call *c, dt__verify_node *s, int64_t index)
{
    dt__verify *v = c->v;
    for (size_t k = 0; k < s->node->n_input; k++) {
        const char *name = s->node->input[k];
        const int64_t i = s->in[k] = dt__verify_find(v, name);
        char shown[DT__SHOWN];
        if (i == DT__VERIFY_ABSENT && *name == 0) {
            if (k >= (size_t)s->op->least_in) continue;
            return dt__verify_refuse(c, "input %zu is missing", k);
        }
        if (i == DT__VERIFY_ABSENT || v->slot[i].maker >= index) {
            return dt__verify_refuse(c, "nothing before it makes its input '%s'",
                                     dt__shown(name, shown));
        }
        if (v->slot[i].last < index) v->slot[i].last = index;
    }
    return DT_OK;
}

/* ---- bodies ---------------------------------------------------------------------------------- */

static dt_status link(dt__verify *v);

/* Values of the outer graph that a body reads are never freed, as no node of the outer graph names
 * them as inputs. */
static dt_status link_outer(dt__verify *body, int64_t index)
{
    dt__verify *v = body->around;
    for (int64_t i = 0; i < body->n_slots; i++) {
        if (!body->slot[i].outer) continue;
        const int64_t k = dt__verify_find(v, body->slot[i].name);
        char shown[DT__SHOWN];
        if (k == DT__VERIFY_ABSENT || v->slot[k].maker >= index) {
            return dt_fail(v->ctx, DT_ERR_FORMAT,
                           "%s: nothing before node %lld makes '%s', which its body reads", v->path,
                           (long long)index, dt__shown(body->slot[i].name, shown));
        }
        v->slot[k].last = INT64_MAX;
    }
    return DT_OK;
}

static dt_status read_body(dt__verify *body, int64_t index, const DtOnnx__Attribute *a)
{
    dt__verify *v = body->around;
    if (v->around != NULL) {
        return dt_fail(v->ctx, DT_ERR_UNSUPPORTED, "%s: a body inside of a body", v->path);
    }
    body->path = dt__copy_string(v->ctx, v->path);
    if (body->path == NULL) return DT_ERR_NOMEM;
    DtOnnx__Graph *graph;
    DT__TRY(dt__onnx_unpack_graph(&v->file, &a->g, &graph));
    body->graph = graph;
    DT__TRY(dt__verify_list_slots(body));
    DT__TRY(link_outer(body, index));
    DT__TRY(decode_initializers(body));
    return link(body);
}

static dt_status open_body(dt__verify *v, int64_t index, const DtOnnx__Attribute *a,
                           dt__verify **out)
{
    dt__verify *body = dt__alloc_zero(v->ctx, sizeof *body);
    if (body == NULL) return DT_ERR_NOMEM;
    body->ctx = v->ctx;
    body->file.ctx = v->ctx;
    body->around = v;
    body->limits = v->limits;
    *out = body;
    return read_body(body, index, a);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static dt_status link_node(dt__verify *v, int64_t index)
{
    dt__verify_node *s = &v->node[index];
    const DtOnnx__Node *node = s->node = v->graph->node[index];
    s->op = operator_of(node);
    const dt__verify_call c = { .v = v, .node = node, .op = s->op };
    if (s->op == NULL) {
        char kind[DT__SHOWN], domain[DT__SHOWN];
        return dt_fail(v->ctx, DT_ERR_UNSUPPORTED,
                       "%s: node %lld is a '%s' of %s, which detent's exports do not have and "
                       "which is not run; detent import makes a model of other files",
                       v->path, (long long)index, dt__shown(node->op_type, kind),
                       *node->domain == 0 ? "ai.onnx" : dt__shown(node->domain, domain));
    }
    DT__TRY(check_node(&c));
    s->in = dt__block_list_add(v->ctx, &v->blocks, (node->n_input + 1) * sizeof *s->in);
    s->out = dt__block_list_add(v->ctx, &v->blocks, (node->n_output + 1) * sizeof *s->out);
    if (s->in == NULL || s->out == NULL) return DT_ERR_NOMEM;
    DT__TRY(link_inputs(&c, s, index));
    for (size_t k = 0; k < node->n_output; k++) s->out[k] = dt__verify_find(v, node->output[k]);
    const DtOnnx__Attribute *body = dt__onnx_attribute_of(node, "body");
    return body != NULL ? open_body(v, index, body, &s->body) : DT_OK;
}

static dt_status link(dt__verify *v)
{
    const DtOnnx__Graph *g = v->graph;
    size_t most_in = 1, most_out = 1;
    v->node = dt__block_list_add(v->ctx, &v->blocks, g->n_node * sizeof *v->node);
    if (v->node == NULL) return DT_ERR_NOMEM;
    for (size_t i = 0; i < g->n_node; i++) {
        DT__TRY(link_node(v, (int64_t)i));
        if (g->node[i]->n_input > most_in) most_in = g->node[i]->n_input;
        if (g->node[i]->n_output > most_out) most_out = g->node[i]->n_output;
    }
    v->in = dt__block_list_add(v->ctx, &v->blocks, most_in * sizeof(dt__verify_value *));
    v->out = dt__block_list_add(v->ctx, &v->blocks, most_out * sizeof(dt__verify_value *));
    if (v->in == NULL || v->out == NULL) return DT_ERR_NOMEM;
    for (size_t i = 0; i < g->n_output; i++) {
        const int64_t k = dt__verify_find(v, g->output[i]->name);
        char shown[DT__SHOWN];
        if (k == DT__VERIFY_ABSENT) {
            return dt_fail(v->ctx, DT_ERR_FORMAT, "%s: nothing makes the output '%s'", v->path,
                           dt__shown(g->output[i]->name, shown));
        }
        v->slot[k].last = INT64_MAX;
    }
    return DT_OK;
}

static dt_status check_opset(dt_ctx *ctx, const dt__onnx_file *file)
{
    const DtOnnx__Model *m = file->model;
    for (size_t i = 0; i < m->n_opset_import; i++) {
        const char *domain = m->opset_import[i]->domain;
        const bool plain = *domain == 0 || strcmp(domain, "ai.onnx") == 0;
        const long long version = (long long)m->opset_import[i]->version;
        char shown[DT__SHOWN];
        if (plain ? version == OPSET || version == INT2_OPSET
                  : strcmp(domain, "com.microsoft") == 0 && version == 1) {
            continue;
        }
        return dt_fail(
            ctx, DT_ERR_UNSUPPORTED,
            "%s: has version %lld of the operators of %s (opset_import), and files as detent "
            "exports them are run, with version %d or %d of ai.onnx and 1 of com.microsoft; "
            "detent import makes a model of others",
            file->path, version, plain ? "ai.onnx" : dt__shown(domain, shown), OPSET, INT2_OPSET);
    }
    return DT_OK;
}

static dt_status read_graph(dt__verify *v, const DtOnnx__Graph *graph, const char *path)
{
    v->path = dt__copy_string(v->ctx, path);
    if (v->path == NULL) return DT_ERR_NOMEM;
    v->graph = graph;
    DT__TRY(dt__verify_list_slots(v));
    DT__TRY(decode_initializers(v));
    return link(v);
}

static dt_status read_file(dt__verify *v, const char *path)
{
    DT__TRY(dt__onnx_open(v->ctx, path, &v->file));
    DT__TRY(check_opset(v->ctx, &v->file));
    return read_graph(v, v->file.model->graph, v->file.path);
}

/* graph NULL: the graph of the file. */
static dt_status open(dt_ctx *ctx, const char *path, const DtOnnx__Graph *graph,
                      const dt__verify_limits *limits, dt__verify **out)
{
    *out = NULL;
    dt__verify *v = dt__alloc_zero(ctx, sizeof *v);
    if (v == NULL) return DT_ERR_NOMEM;
    v->ctx = ctx;
    v->file.ctx = ctx;
    if (limits != NULL) v->limits = *limits;
    if (v->limits.bytes == 0) v->limits.bytes = DEFAULT_BYTES;
    if (!(v->limits.work > 0)) v->limits.work = DEFAULT_WORK;
    const dt_status s = graph != NULL ? read_graph(v, graph, path) : read_file(v, path);
    if (s == DT_OK) *out = v;
    else dt__verify_close(v);
    return s;
}

dt_status dt__verify_open(dt_ctx *ctx, const char *path, const dt__verify_limits *limits,
                          dt__verify **out)
{
    return open(ctx, path, NULL, limits, out);
}

dt_status dt__verify_open_graph(dt_ctx *ctx, const char *path, const DtOnnx__Graph *graph,
                                const dt__verify_limits *limits, dt__verify **out)
{
    return open(ctx, path, graph, limits, out);
}

void dt__verify_close(dt__verify *v)
{
    if (v == NULL) return;
    for (int64_t i = 0; v->node != NULL && i < (int64_t)v->graph->n_node; i++) {
        dt__verify_close(v->node[i].body);
    }
    for (int64_t i = 0; i < v->n_slots; i++) {
        if (!v->slot[i].outer) dt__release(v->ctx, v->slot[i].value.data);
    }
    dt__block_list_free(v->ctx, &v->scratch);
    dt__block_list_free(v->ctx, &v->blocks);
    dt__onnx_close(&v->file);
    DT__RELEASE(v->ctx, v->path, v);
}
