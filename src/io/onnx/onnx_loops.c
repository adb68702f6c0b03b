/* Unrolls loops with a constant number of iterations (turns), as tf2onnx writes recurrent layers of
 * Keras. Names of the body's values get the number of the turn. That no condition ends the loop
 * early is checked after the graph is read, when the conditions are known:
 *     turn t: states[t], condition[t], results[t] = body(t, condition[t-1], states[t-1])
 * (https://github.com/onnx/onnx, docs/Operators.md, Loop) */
#include "core/block_list.h"
#include "core/text/json.h"
#include "io/onnx/onnx.h"
#include "io/onnx/onnx_steps.h"

#include <string.h>

#define MOST_TURNS 1024
#define MOST_ENDS 64     /* largest number of inputs or outputs of a loop */
#define MOST_SIZE 131072 /* nodes, with their inputs and outputs, of all turns */
#define OPSET 13         /* Unsqueeze has its axes as an input */

typedef struct loop {
    dt__onnx *g;
    const dt__onnx_node *n;
    DtOnnx__Graph *body;
    int64_t place, turns, results;
    DtOnnx__Graph *to;
} loop;

/* ---- which loops ----------------------------------------------------------------------------- */

bool dt__onnx_is_loop(const dt__onnx_node *n)
{
    return strcmp(n->op_type, "Loop") == 0 && *n->domain == 0;
}

/* A constant of one integer in the file; 0: not such a constant. */
static int64_t turns_of(const dt__onnx *g, const char *name)
{
    for (size_t i = 0; i < g->graph->n_initializer; i++) {
        const dt__onnx_tensor *t = g->graph->initializer[i];
        int64_t turns = 0;
        if (strcmp(t->name, name) != 0 || t->data_type != DT__ONNX_I64) continue;
        if (t->n_int64_data == 1) return t->int64_data[0];
        if (t->raw_data.len == sizeof turns) memcpy(&turns, t->raw_data.data, sizeof turns);
        return turns;
    }
    return 0;
}

static const ProtobufCBinaryData *body_of(const dt__onnx_node *n)
{
    const bool one = n->n_attribute == 1 && strcmp(n->attribute[0]->name, "body") == 0;
    return one ? &n->attribute[0]->g : NULL;
}

/* The number of a body's nodes, inputs and outputs; above the limit if a node has a graph of its
 * own. */
static int64_t size_of(const DtOnnx__Graph *body)
{
    size_t size = 0;
    for (size_t i = 0; i < body->n_node; i++) {
        const dt__onnx_node *n = body->node[i];
        size += 1 + n->n_input + n->n_output;
        for (size_t k = 0; k < n->n_attribute; k++) {
            if (n->attribute[k]->g.len > 0) return MOST_SIZE + 1;
        }
    }
    return (int64_t)size;
}

/* Reads a loop; l->body NULL: it cannot be unrolled. */
static dt_status read_loop(dt__onnx *g, size_t place, loop *l)
{
    const dt__onnx_node *n = g->graph->node[place];
    *l = (loop){ .g = g, .n = n, .place = (int64_t)place };
    if (!dt__onnx_is_loop(n) || body_of(n) == NULL || n->n_input < 2 || *n->input[1] == 0) {
        return DT_OK;
    }
    dt__onnx_file own = *g->file;
    own.blocks = g->blocks; /* the body must live as long as g */
    const dt_status s = dt__onnx_unpack_graph(&own, body_of(n), &l->body);
    g->blocks = own.blocks;
    DT__TRY(s);
    DtOnnx__Graph *body = l->body;
    l->body = NULL;
    l->turns = turns_of(g, n->input[0]);
    l->results = (int64_t)body->n_output - (int64_t)n->n_input + 1;
    const bool fits = body->n_input == n->n_input && l->results >= 0 && n->n_input <= MOST_ENDS &&
                      n->n_output + 1 == body->n_output && n->n_output <= MOST_ENDS;
    const bool counted = l->turns >= 1 && l->turns <= MOST_TURNS && g->file->opset >= OPSET;
    if (fits && counted && size_of(body) <= MOST_SIZE / l->turns) l->body = body;
    return DT_OK;
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool is_made(const DtOnnx__Graph *body, const char *name)
{
    for (size_t i = 0; i < body->n_node; i++) {
        for (size_t k = 0; k < body->node[i]->n_output; k++) {
            if (strcmp(body->node[i]->output[k], name) == 0) return true;
        }
    }
    return false;
}

/* The name in a turn of a body's value; for a state, of the previous turn's value. NULL: NOMEM. */
static const char *name_in(const loop *l, const char *name, int64_t turn)
{
    size_t i = 0;
    while (*name != 0 && turn >= 0) {
        for (i = 0; i < l->body->n_input && strcmp(l->body->input[i]->name, name) != 0;) i++;
        if (i == l->body->n_input) break;
        if (i == 0)
            return dt__block_list_text(l->g->ctx, l->g->arena, "turn %lld", (long long)turn);
        if (turn == 0) return l->n->input[i];
        name = l->body->output[i - 1]->name;
        turn--;
    }
    if (*name == 0 || !is_made(l->body, name)) return name;
    return dt__block_list_text(l->g->ctx, l->g->arena, "%s in turn %lld of node %lld", name,
                               (long long)turn, (long long)l->place);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static dt_status add(loop *l, const char *op, const char *const *in, size_t n, const char *out)
{
    DtOnnx__Node **to = &l->to->node[l->to->n_node++];
    return dt__onnx_step_node(l->g, l->n, &(dt__onnx_step){ op, in, n, out }, to);
}

static dt_status add_node(loop *l, const dt__onnx_node *n, int64_t turn)
{
    dt__onnx *g = l->g;
    DtOnnx__Node *to = dt__onnx_memory(g, 1, sizeof *to);
    if (to == NULL) return DT_ERR_NOMEM;
    *to = *n;
    to->input = dt__onnx_memory(g, (int64_t)n->n_input, sizeof *to->input);
    to->output = dt__onnx_memory(g, (int64_t)n->n_output, sizeof *to->output);
    if (to->input == NULL || to->output == NULL) return DT_ERR_NOMEM;
    for (size_t i = 0; i < n->n_input; i++) {
        to->input[i] = dt__onnx_text(name_in(l, n->input[i], turn));
        if (to->input[i] == NULL) return DT_ERR_NOMEM;
    }
    for (size_t i = 0; i < n->n_output; i++) {
        to->output[i] = dt__onnx_text(name_in(l, n->output[i], turn));
        if (to->output[i] == NULL) return DT_ERR_NOMEM;
    }
    l->to->node[l->to->n_node++] = to;
    return DT_OK;
}

/* Stacks a result along a new dimension. */
static dt_status add_result(loop *l, size_t k)
{
    const char **part = dt__onnx_memory(l->g, l->turns, sizeof *part);
    const char *name = l->body->output[k + 1]->name;
    if (part == NULL) return DT_ERR_NOMEM;
    for (int64_t t = 0; t < l->turns; t++) {
        const char *in[2] = { name_in(l, name, t), "turn 0" };
        part[t] = dt__block_list_text(l->g->ctx, l->g->arena, "%s of turn %lld", l->n->output[k],
                                      (long long)t);
        if (in[0] == NULL || part[t] == NULL) return DT_ERR_NOMEM;
        DT__TRY(add(l, "Unsqueeze", in, 2, part[t]));
    }
    DT__TRY(add(l, "Concat", part, (size_t)l->turns, l->n->output[k]));
    return dt__onnx_step_axis(l->g, l->to->node[l->to->n_node - 1], 0);
}

static void say_turns(const loop *l)
{
    char shown[DT__SHOWN];
    if (l->turns == 1) return;
    dt__say(l->g->ctx,
            "the %lld turns of the loop '%s' become layers: each turn gets a copy of its own of "
            "every weight, and training changes them apart",
            (long long)l->turns, dt__shown(l->n->name, shown));
}

static dt_status unroll(loop *l)
{
    dt__onnx *g = l->g;
    const size_t states = l->n->n_input - 2;
    say_turns(l);
    for (size_t i = 0; i < l->body->n_initializer; i++) {
        l->to->initializer[l->to->n_initializer++] = l->body->initializer[i];
    }
    for (int64_t t = 0; t < l->turns; t++) {
        dt__onnx_condition *c = &g->condition[g->n_conditions++];
        *c = (dt__onnx_condition){ l->n, name_in(l, l->body->input[1]->name, t) };
        if (c->name == NULL) return DT_ERR_NOMEM;
        for (size_t i = 0; i < l->body->n_node; i++) DT__TRY(add_node(l, l->body->node[i], t));
    }
    for (size_t k = 0; k < l->n->n_output; k++) {
        if (*l->n->output[k] == 0) continue;
        const char *last = name_in(l, l->body->output[k + 1]->name, l->turns - 1);
        if (last == NULL) return DT_ERR_NOMEM;
        if (k < states) DT__TRY(add(l, "Identity", &last, 1, l->n->output[k]));
        else DT__TRY(add_result(l, k));
    }
    return DT_OK;
}

/* Adds constants with the numbers of turns, for the counters of all loops; "turn 0" also serves as
 * a list of axes. */
static dt_status add_counters(dt__onnx *g, DtOnnx__Graph *to, int64_t turns)
{
    dt__onnx_tensor *t = dt__onnx_memory(g, turns, sizeof *t);
    int64_t *value = dt__onnx_memory(g, turns, sizeof *value);
    if (t == NULL || value == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < turns; i++) {
        dt_onnx__tensor__init(&t[i]);
        t[i].name = dt__onnx_text(dt__block_list_text(g->ctx, g->arena, "turn %lld", (long long)i));
        if (t[i].name == NULL) return DT_ERR_NOMEM;
        t[i].data_type = DT__ONNX_I64;
        value[i] = i;
        t[i].int64_data = &value[i];
        t[i].n_int64_data = 1;
        to->initializer[to->n_initializer++] = &t[i];
    }
    return DT_OK;
}

/* ---- the graph ------------------------------------------------------------------------------- */

dt_status dt__onnx_unroll(dt__onnx *g)
{
    const DtOnnx__Graph *from = g->graph;
    int64_t nodes = (int64_t)from->n_node, constants = (int64_t)from->n_initializer;
    int64_t turns = 0, most = 0, loops = 0;
    for (size_t i = 0; i < from->n_node; i++) loops += dt__onnx_is_loop(from->node[i]);
    if (loops == 0) return DT_OK;
    loop *l = dt__onnx_memory(g, nodes, sizeof *l);
    DtOnnx__Graph *to = dt__onnx_memory(g, 1, sizeof *to);
    if (l == NULL || to == NULL) return DT_ERR_NOMEM;
    for (size_t i = 0; i < from->n_node; i++) {
        DT__TRY(read_loop(g, i, &l[i]));
        if (l[i].body == NULL) continue;
        const int64_t outputs = (int64_t)from->node[i]->n_output;
        nodes += l[i].turns * ((int64_t)l[i].body->n_node + l[i].results) + outputs;
        constants += (int64_t)l[i].body->n_initializer;
        turns += l[i].turns;
        most = dt__max_i64(most, l[i].turns);
        l[i].to = to;
    }
    if (nodes > MOST_SIZE + (int64_t)from->n_node) {
        return dt_fail(g->ctx, DT_ERR_UNSUPPORTED, "%s: its loops have more than %d nodes",
                       g->file->path, MOST_SIZE);
    }
    *to = *from;
    to->node = dt__onnx_memory(g, nodes, sizeof *to->node);
    to->initializer = dt__onnx_memory(g, constants + most, sizeof *to->initializer);
    g->condition = dt__onnx_memory(g, turns, sizeof *g->condition);
    if (to->node == NULL || to->initializer == NULL || g->condition == NULL) return DT_ERR_NOMEM;
    to->n_node = 0;
    if (from->n_initializer > 0) {
        memcpy(to->initializer, from->initializer, from->n_initializer * sizeof *to->initializer);
    }
    DT__TRY(add_counters(g, to, most));
    for (size_t i = 0; i < from->n_node; i++) {
        if (l[i].body != NULL) DT__TRY(unroll(&l[i]));
        else to->node[to->n_node++] = from->node[i];
    }
    g->graph = to;
    return DT_OK;
}
