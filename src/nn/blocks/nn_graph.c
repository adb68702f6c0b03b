/* Graph: runs its nodes in order. A value is dropped after its last reader. A chain of nodes, each
 * the only reader of the one before, runs as one fused op if the types allow it; an addition may be
 * fused as a residual. The result has the same bits. */
#include "nn/convolution/batch_norm_layers.h"
#include "nn/convolution/conv_layers.h"
#include "nn/fold.h"
#include "nn/layers/op_layer.h"
#include "nn/lists/graph.h"
#include "nn/lists/layer_cases.h"

#include <string.h>

#define FIRST DT__GRAPH_FIRST
#define AFTER_ALL INT64_MAX /* last reader of an output */
#define MOST_LINKS 2        /* modules that one op computes, at most */

typedef struct node {
    dt__graph_node is;
    bool follows; /* it reads the previous node and is the only reader of it */
} node;

typedef struct graph {
    int n_in, n_out;
    int64_t n, room;
    node *nodes;
    int64_t *last; /* per value: the last node that reads it, or AFTER_ALL */
    int64_t out[DT_MAX_OUT];
    int n_shapes;
    dt_shape shapes[DT_MAX_SHAPES]; /* for a whole network: shapes of the inputs */
    int64_t numbers[DT_MAX_OUT];    /* for a whole network: elements of an example, per output */
    char *names;                    /* names of inputs and outputs, one after the other */
    const char *in_name[DT_MAX_SHAPES], *out_name[DT_MAX_OUT];
} graph;

/* ---- running -------------------------------------------------------------------------------- */

/* One pass. */
typedef struct pass {
    dt_tape *t;
    const graph *g;
    dt_tensor **value;
} pass;

/* The nodes from i on that one call of dt__forward_links computes. */
typedef struct links {
    dt_link link[MOST_LINKS];
    int64_t node[MOST_LINKS]; /* the node whose result follows link k */
    int n;
} links;

static const node *follower(const graph *g, int64_t i)
{
    return i + 1 < g->n && g->nodes[i + 1].follows ? &g->nodes[i + 1] : NULL;
}

/* Whether node n adds another operand, of the same shape, to the result of the previous node. */
static bool is_residual(const node *n)
{
    return n != NULL && n->is.m->type == &dt__nn_add && n->is.n_in == 2 && n->is.same_shapes &&
           n->is.m->hooks == NULL;
}

static links collect(const pass *p, int64_t i)
{
    const graph *g = p->g;
    links l = { .n = 1, .link = { { .m = g->nodes[i].is.m } }, .node = { i } };
    const node *next = follower(g, i);
    if (p->t->on_forward == NULL && is_residual(next)) {
        const int64_t own = FIRST + l.node[0];
        const int64_t *in = next->is.in;
        l.link[0].residual = p->value[in[0] == own ? in[1] : in[0]];
        l.node[0] = ++i;
        next = follower(g, i);
    }
    if (next == NULL || next->is.n_in > 1) return l;
    l.link[l.n].m = next->is.m;
    l.node[l.n++] = i + 1;
    return l;
}

/* Whether the same tensor is also a value that is needed after node i. */
static bool is_shared(const pass *p, int64_t value, int64_t i)
{
    const graph *g = p->g;
    for (int64_t v = 0; v <= FIRST + i; v++) {
        if (v != value && p->value[v] == p->value[value] && g->last[v] > i) return true;
    }
    return false;
}

/* Drops the values whose last readers are nodes first ... i. */
static void drop_read(const pass *p, int64_t first, int64_t i)
{
    const graph *g = p->g;
    for (int64_t k = first; k <= i; k++) {
        const dt__graph_node *n = &g->nodes[k].is;
        for (int j = 0; j < n->n_in; j++) {
            const int64_t v = n->in[j];
            if (v < FIRST || g->last[v] > i || p->value[v] == NULL || is_shared(p, v, i)) continue;
            dt__drop_step(p->t, p->value[v], p->value[FIRST + i]);
            p->value[v] = NULL;
        }
    }
}

/* Runs node i and the nodes fused with it; returns the last of these. */
static int64_t run_node(const pass *p, int64_t i)
{
    const graph *g = p->g;
    const dt__graph_node *n = &g->nodes[i].is;
    dt_tensor *in[DT_MAX_IN];
    for (int j = 0; j < n->n_in; j++) in[j] = p->value[n->in[j]];
    if (n->n_in > 1) {
        dt_forward_n(p->t, n->m, in, n->n_in, &p->value[FIRST + i], 1);
        return i;
    }
    int64_t taken;
    const links l = collect(p, i);
    dt_tensor *y = dt__forward_links(p->t, l.link, l.n, in[0], &taken);
    const int64_t end = l.node[taken - 1];
    p->value[FIRST + end] = y;
    return end;
}

static void run_all(const pass *p)
{
    for (int64_t i = 0, end; i < p->g->n && p->t->status == DT_OK; i = end + 1) {
        end = run_node(p, i);
        if (p->t->status == DT_OK) drop_read(p, i, end);
    }
}

/* ---- packed inputs and outputs -------------------------------------------------------------- */

static int64_t numbers_of(const dt_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++) n *= s->dims[i];
    return n;
}

/* Slices x [N, elements of all inputs] into the inputs. */
void dt__graph_unpack(dt_tape *t, const dt_module *m, dt_tensor *x, dt_tensor **in)
{
    const graph *g = m->state;
    int64_t all = 0, at = 0;
    for (int i = 0; i < g->n_in; i++) all += numbers_of(&g->shapes[i]);
    if (x->rank != 2 || x->dims[1] != all) {
        char text[160];
        dt_describe(x, text, sizeof text);
        dt_tape_fail(t, DT_ERR_SHAPE, "graph: x is %s; its %d inputs, packed, are [N, %lld]", text,
                     g->n_in, (long long)all);
        return;
    }
    for (int i = 0; i < g->n_in; i++) {
        const dt_shape *s = &g->shapes[i];
        const dt_slice_options cut = { .dims = { 1, { 1 } },
                                       .starts = { 1, { at } },
                                       .stops = { 1, { at + numbers_of(s) } } };
        int64_t dims[DT_MAX_RANK] = { x->dims[0] };
        memcpy(dims + 1, s->dims, (size_t)s->rank * sizeof *dims);
        in[i] = dt_reshape(t, dt_slice(t, x, &cut), 1 + s->rank, dims);
        at = cut.stops.v[0];
    }
}

/* Joins the outputs into one tensor [N, elements of all outputs]. */
dt_tensor *dt__graph_pack(dt_tape *t, const dt_module *m, dt_tensor *const *out)
{
    const graph *g = m->state;
    dt_tensor *y[DT_MAX_OUT];
    for (int i = 0; i < g->n_out; i++) {
        y[i] = out[i];
        if (y[i] != NULL && y[i]->rank != 2) y[i] = dt_flatten(t, y[i], 1, -1);
    }
    return dt_concat(t, y, g->n_out, 1);
}

/* ---- a pass --------------------------------------------------------------------------------- */

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const graph *g = dt_module_state(m);
    const bool packed_in = n_in == 1 && g->n_in == g->n_shapes;
    const bool packed_out = n_out == 1 && g->n_shapes > 0;
    if ((n_in != g->n_in && !packed_in) || (n_out != g->n_out && !packed_out)) {
        dt_tape_fail(t, DT_ERR_ARG, "graph: %d inputs and %d outputs; it has %d and %d", n_in,
                     n_out, g->n_in, g->n_out);
        return;
    }
    const pass p = { t, g, dt__alloc_zero(m->ctx, (size_t)(FIRST + g->n) * sizeof *p.value) };
    if (p.value == NULL) {
        dt__tape_adopt(t, DT_ERR_NOMEM);
        return;
    }
    if (n_in == g->n_in) memcpy(p.value, in, (size_t)n_in * sizeof in[0]);
    else dt__graph_unpack(t, m, in[0], p.value);
    run_all(&p);
    dt_tensor *y[DT_MAX_OUT];
    for (int i = 0; i < g->n_out; i++) y[i] = p.value[g->out[i]];
    memcpy(out, y, (size_t)n_out * sizeof *out);
    if (n_out != g->n_out && t->status == DT_OK) out[0] = dt__graph_pack(t, m, y);
    dt__release(m->ctx, p.value);
}

/* ---- building ------------------------------------------------------------------------------- */

static void free_state(dt_module *m)
{
    graph *g = m->state;
    DT__RELEASE(m->ctx, g->nodes, g->last, g->names);
}

const dt_module_type dt__nn_graph = {
    .name = "graph",
    .forward = forward,
    .free_state = free_state,
};

const dt_module_type dt__graph_block = {
    .name = "block",
    .forward = forward,
    .free_state = free_state,
    .block = true,
};

dt_status dt__graph_create(dt_ctx *ctx, const dt_module_type *type, dt_module **out)
{
    return dt_module_create(ctx, type, sizeof(graph), out);
}

dt_status dt__graph_append(dt_module *m, const dt__graph_node *n)
{
    graph *g = dt_module_state(m);
    DT__TRY(DT__RESERVE(m->ctx, g->nodes, g->n, g->room));
    g->nodes[g->n++] = (node){ .is = *n };
    return DT_OK;
}

/* Whether a batch norm can be folded into the layer before it: a convolution or linear layer that
 * no other layer reads. */
static void set_norm(const graph *g, const node *n, const int64_t *readers)
{
    const int64_t v = n->is.in[0];
    if (!dt__is_batch_norm(n->is.m) || v < FIRST || readers[v] != 1) return;
    dt_module *layer = g->nodes[v - FIRST].is.m;
    if (dt__takes_norm(layer)) dt__set_norm(layer, n->is.m);
}

dt_status dt__graph_finish(dt_module *m, int n_in, const int64_t *out, int n_out)
{
    graph *g = dt_module_state(m);
    const int64_t values = FIRST + g->n;
    int64_t *readers = dt__alloc_zero(m->ctx, (size_t)values * sizeof *readers);
    g->last = dt__alloc_zero(m->ctx, (size_t)values * sizeof *g->last);
    if (readers == NULL || g->last == NULL) {
        dt__release(m->ctx, readers);
        return DT_ERR_NOMEM;
    }
    for (int64_t i = 0; i < g->n; i++) {
        const dt__graph_node *n = &g->nodes[i].is;
        for (int j = 0; j < n->n_in; j++) {
            readers[n->in[j]]++;
            g->last[n->in[j]] = i;
        }
    }
    g->n_in = n_in;
    g->n_out = n_out;
    for (int i = 0; i < n_out; i++) {
        g->out[i] = out[i];
        readers[out[i]]++;
        g->last[out[i]] = AFTER_ALL;
    }
    for (int64_t i = 0; i < g->n; i++) {
        node *n = &g->nodes[i];
        for (int j = 0; j < n->is.n_in && i > 0; j++) {
            n->follows |= n->is.in[j] == FIRST + i - 1 && readers[n->is.in[j]] == 1;
        }
        set_norm(g, n, readers);
    }
    dt__release(m->ctx, readers);
    return DT_OK;
}

static const char *put_name(char **at, const char *name)
{
    const size_t n = strlen(name) + 1;
    char *const copy = *at;
    memcpy(copy, name, n);
    *at += n;
    return copy;
}

dt_status dt__graph_set_sides(dt_module *m, const dt__graph_sides *sides)
{
    graph *g = dt_module_state(m);
    const int n_in = g->n_in < DT_MAX_SHAPES ? g->n_in : DT_MAX_SHAPES;
    size_t bytes = 1;
    for (int i = 0; i < n_in; i++) bytes += strlen(sides->in_name[i]) + 1;
    for (int i = 0; i < g->n_out; i++) bytes += strlen(sides->out_name[i]) + 1;
    char *at = g->names = dt__alloc(m->ctx, bytes);
    if (at == NULL) return DT_ERR_NOMEM;
    for (int i = 0; i < n_in; i++) g->in_name[i] = put_name(&at, sides->in_name[i]);
    for (int i = 0; i < g->n_out; i++) {
        g->out_name[i] = put_name(&at, sides->out_name[i]);
        g->numbers[i] = numbers_of(&sides->out[i]);
    }
    g->n_shapes = n_in;
    memcpy(g->shapes, sides->in, (size_t)n_in * sizeof *g->shapes);
    return DT_OK;
}

bool dt__graph_names(const dt_module *m, int *n_in, const char *const **in, const char *const **out)
{
    const graph *g = m->type == &dt__nn_graph ? m->state : NULL;
    if (g == NULL || g->n_shapes == 0) return false;
    *n_in = g->n_in;
    *in = g->in_name;
    *out = g->out_name;
    return true;
}

int dt__graph_inputs(const dt_module *m, const dt_shape **shapes)
{
    if (m->type != &dt__nn_graph) return 0;
    const graph *g = m->state;
    *shapes = g->shapes;
    return g->n_shapes;
}

const int64_t *dt__graph_outputs(const dt_module *m)
{
    const graph *g = m->type == &dt__nn_graph ? m->state : NULL;
    return g != NULL && g->n_shapes > 0 ? g->numbers : NULL;
}

dt_module *dt__graph_end(const dt_module *m, int i, bool (*wanted)(dt_module *))
{
    if (m->type != &dt__nn_graph) return NULL;
    const graph *g = m->state;
    for (int64_t value = g->out[i]; value >= FIRST;) {
        const dt__graph_node *n = &g->nodes[value - FIRST].is;
        if (wanted(n->m)) return n->m;
        value = n->in[0];
    }
    return NULL;
}

int dt__module_outputs(const dt_module *m)
{
    return m->type == &dt__nn_graph ? ((const graph *)m->state)->n_out : 1;
}

typedef struct planned {
    const char *name;
    dt_status (*create)(dt_ctx *ctx, dt_module **out);
    int n_in;
    int64_t in[2];
} planned;

DT__MAKE(make_linear, dt_linear_create(ctx, 9, 9, true, out))
DT__MAKE(make_tanh, dt_activation_create(ctx, "tanh", out))

static dt_status add_nodes(dt_module *m, const planned *plan, int n)
{
    for (int i = 0; i < n; i++) {
        dt_module *part = NULL;
        const dt_status made = plan[i].create(dt_module_ctx(m), &part);
        DT__TRY(dt__add_made(m, plan[i].name, made, part, &part));
        const dt__graph_node next = { part, plan[i].n_in, { plan[i].in[0], plan[i].in[1] }, true };
        DT__TRY(dt__graph_append(m, &next));
    }
    return dt__graph_finish(m, 1, &(int64_t){ FIRST + n - 1 }, 1);
}

/* A residual block: linear, tanh, linear, plus its input, tanh. */
static dt_status make(dt_ctx *ctx, dt_module **out)
{
    static const planned plan[] = {
        { "up", make_linear, 1, { 0 } },           { "bend", make_tanh, 1, { FIRST } },
        { "down", make_linear, 1, { FIRST + 1 } }, { "sum", dt_add_create, 2, { 0, FIRST + 2 } },
        { "after", make_tanh, 1, { FIRST + 3 } },
    };
    dt_module *m;
    *out = NULL;
    DT__TRY(dt__graph_create(ctx, &dt__nn_graph, &m));
    return dt__layer_done(add_nodes(m, plan, DT__COUNT_OF(plan)), m, out);
}

static dt_tensor *plain(dt_tape *t, dt_module *m, dt_tensor *const *in)
{
    dt_tensor *y = dt_linear(t, in[0], dt_param(m, "up.weight"), dt_param(m, "up.bias"));
    y = dt_linear(t, dt_tanh(t, y), dt_param(m, "down.weight"), dt_param(m, "down.bias"));
    return dt_tanh(t, dt_add(t, in[0], y));
}

#define STATE "up.weight up.bias down.weight down.bias"

static const dt__layer_case cases[] = {
    { "a residual block", make, .in = { { { 4, 9 } } }, .state = STATE, .plain = plain },
    { "two inputs", make, .in = { { { 4, 9 } }, { { 4, 9 } } }, .state = STATE, .fails = DT_ERR_ARG,
      .says = "graph: 2 inputs" },
};
DT__LAYER_CASES(graph, cases)
