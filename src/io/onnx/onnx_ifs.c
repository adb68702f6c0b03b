/* Replaces each If whose condition is constant, given the input sizes, by the nodes of the taken
 * branch: PyTorch writes such nodes for squeeze(), and for code that depends on shapes. Reading the
 * graph without the branches finds the conditions. Names of values are unique over all graphs of a
 * file (https://github.com/onnx/onnx, docs/IR.md). */
#include "core/block_list.h"
#include "core/text/json.h"
#include "io/onnx/onnx.h"
#include "io/onnx/onnx_steps.h"

#include <string.h>

#define MOST_DEPTH 16 /* of nested branches */

bool dt__onnx_is_if(const dt__onnx_node *n)
{
    return strcmp(n->op_type, "If") == 0 && *n->domain == 0;
}

/* ---- conditions ------------------------------------------------------------------------------ */

static dt_status pass_over(void *user, const char *fault)
{
    (void)user;
    (void)fault;
    return DT_OK;
}

/* The condition of each node: 1 or 0; -1: unknown, or not an If. Faults are ignored here; the final
 * reading of the graph reports them. */
static dt_status find_conditions(void *user, dt__onnx *g)
{
    int8_t *taken = user;
    const DtOnnx__Graph *graph = g->graph;
    g->note = pass_over;
    const dt_status s = dt__onnx_walk(g);
    if (s != DT_OK && s != DT_ERR_UNSUPPORTED) return s;
    for (size_t i = 0; i < graph->n_node && g->value != NULL; i++) {
        const dt__onnx_node *n = graph->node[i];
        taken[i] = -1;
        if (!dt__onnx_is_if(n) || n->n_input != 1) continue;
        const dt__onnx_value *v = dt__onnx_find(g, n->input[0]);
        if (v == NULL || v->kind != DT__ONNX_CONSTANT || v->count != 1) continue;
        const dt__onnx_number number = dt__onnx_number_at(v, 0);
        if (!number.batch) taken[i] = number.value != 0;
    }
    return DT_OK;
}

static dt_status conditions_of(dt__onnx *g, int8_t **out)
{
    void *arena = NULL;
    const dt_logger log = g->ctx->log;
    int8_t *taken = *out = dt__onnx_memory(g, (int64_t)g->graph->n_node, sizeof *taken);
    if (taken == NULL) return DT_ERR_NOMEM;
    memset(taken, -1, g->graph->n_node);
    g->ctx->log = NULL;
    const dt_status s = dt__onnx_try(g, &arena, find_conditions, taken);
    g->ctx->log = log;
    dt__block_list_free(g->ctx, &arena);
    /* other errors occur again in the final reading of the graph, which reports them */
    return s == DT_ERR_NOMEM ? s : DT_OK;
}

/* ---- branches -------------------------------------------------------------------------------- */

static dt_status branch_of(dt__onnx *g, const dt__onnx_node *n, bool taken, DtOnnx__Graph **out)
{
    const char *name = taken ? "then_branch" : "else_branch";
    char shown[DT__SHOWN];
    *out = NULL;
    const DtOnnx__Attribute *a = dt__onnx_attribute_of(n, name);
    if (a != NULL) {
        dt__onnx_file own = *g->file;
        own.blocks = g->blocks; /* the branch must live as long as g */
        const dt_status s = dt__onnx_unpack_graph(&own, &a->g, out);
        g->blocks = own.blocks;
        DT__TRY(s);
    }
    if (*out != NULL && (*out)->n_output == n->n_output) return DT_OK;
    return dt_fail(g->ctx, DT_ERR_FORMAT, "%s: If '%s': %s %s", g->file->path,
                   dt__shown(n->name, shown), name,
                   *out == NULL ? "is missing" : "has another number of outputs");
}

/* Adds the nodes and constants of a branch; results of the If become aliases of its outputs. */
static dt_status put_branch(dt__onnx *g, const dt__onnx_node *n, const DtOnnx__Graph *branch,
                            DtOnnx__Graph *to)
{
    for (size_t i = 0; i < branch->n_initializer; i++) {
        to->initializer[to->n_initializer++] = branch->initializer[i];
    }
    for (size_t i = 0; i < branch->n_node; i++) to->node[to->n_node++] = branch->node[i];
    for (size_t k = 0; k < n->n_output; k++) {
        const char *from = branch->output[k]->name;
        if (*n->output[k] == 0) continue;
        const dt__onnx_step step = { "Identity", &from, 1, n->output[k] };
        DT__TRY(dt__onnx_step_node(g, n, &step, &to->node[to->n_node++]));
    }
    return DT_OK;
}

/* Replaces one level of branches; *any: a condition was known. */
static dt_status take_branches(dt__onnx *g, const int8_t *taken, bool *any)
{
    const DtOnnx__Graph *from = g->graph;
    size_t nodes = from->n_node, constants = from->n_initializer;
    DtOnnx__Graph *to = dt__onnx_memory(g, 1, sizeof *to);
    DtOnnx__Graph **branch = dt__onnx_memory(g, (int64_t)from->n_node, sizeof(DtOnnx__Graph *));
    if (to == NULL || branch == NULL) return DT_ERR_NOMEM;
    *any = false;
    for (size_t i = 0; i < from->n_node; i++) {
        if (taken[i] < 0) continue;
        DT__TRY(branch_of(g, from->node[i], taken[i] == 1, &branch[i]));
        nodes += branch[i]->n_node + from->node[i]->n_output;
        constants += branch[i]->n_initializer;
        *any = true;
    }
    *to = *from;
    to->node = dt__onnx_memory(g, (int64_t)nodes, sizeof *to->node);
    to->initializer = dt__onnx_memory(g, (int64_t)constants + 1, sizeof *to->initializer);
    if (to->node == NULL || to->initializer == NULL) return DT_ERR_NOMEM;
    to->n_node = 0;
    if (from->n_initializer > 0) {
        memcpy(to->initializer, from->initializer, from->n_initializer * sizeof *to->initializer);
    }
    for (size_t i = 0; i < from->n_node; i++) {
        if (branch[i] != NULL) DT__TRY(put_branch(g, from->node[i], branch[i], to));
        else to->node[to->n_node++] = from->node[i];
    }
    g->graph = to;
    return DT_OK;
}

dt_status dt__onnx_choose(dt__onnx *g)
{
    for (int depth = 0; depth < MOST_DEPTH; depth++) {
        int8_t *taken;
        bool any = false;
        for (size_t i = 0; i < g->graph->n_node; i++) any |= dt__onnx_is_if(g->graph->node[i]);
        if (!any) return DT_OK;
        DT__TRY(conditions_of(g, &taken));
        DT__TRY(take_branches(g, taken, &any));
        if (!any) return DT_OK;
    }
    return DT_OK;
}
