/* `inspect --graph`: a model's trace as a table or in Graphviz's language DOT. */
#include "graph_table.h"

#include "cli.h"
#include "text.h"

#include <stdio.h>
#include <string.h>

typedef struct graph {
    const dt_trace *t;
    dt_trace_plan plan; /* of one example, and one token */
    int op_width, from_width, shape_width, form_width;
} graph;

/* ---- texts ----------------------------------------------------------------------------------- */

/* "[B, T, 64]" */
static const char *shape_text(const dt_trace_value *v, char text[160])
{
    size_t used = (size_t)snprintf(text, 160, "[");
    for (int i = 0; i < v->rank && used < 120; i++) {
        const dt_extent e = v->extent[i];
        used += (size_t)snprintf(text + used, 160 - used, "%s", i > 0 ? ", " : "");
        if (e.size != 1 || (!e.batch && !e.length)) {
            used += (size_t)snprintf(text + used, 160 - used, "%lld", (long long)e.size);
        }
        used += (size_t)snprintf(text + used, 160 - used, "%s%s", e.batch ? "B" : "",
                                 e.length ? "T" : "");
    }
    snprintf(text + used, 160 - used, "]");
    return text;
}

/* "int8 token x int4 group 32": how operands are multiplied or read; "" of floats alone. */
static void form_text(const dt_trace_call *c, char text[120])
{
    static const char *const granularity[] = { "tensor", "channel", "group", "token", "sample" };
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < c->n_in && used < 80; i++) {
        const dt_quant_spec *q = c->in[i].quant;
        if (q == NULL) continue;
        const char *rows = c->in[i].sample && q->granularity == DT_PER_TOKEN
                               ? "sample"
                               : granularity[q->granularity];
        used += (size_t)snprintf(text + used, 120 - used, "%sint%d %s", used > 0 ? " x " : "",
                                 (int)q->bits, rows);
        if (q->granularity == DT_PER_GROUP) {
            used += (size_t)snprintf(text + used, 120 - used, " %lld", (long long)q->group_size);
        }
        if (!c->in[i].coded) used += (size_t)snprintf(text + used, 120 - used, " as floats");
    }
}

/* "0, 3": the calls whose results are read; inputs by name. */
static void from_text(const graph *g, const dt_trace_call *c, char text[120])
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < c->n_in && used < 90; i++) {
        if (c->in[i].value < 0) continue;
        const dt_trace_value *v = dt_trace_value_at(g->t, c->in[i].value);
        const char *join = used > 0 ? ", " : "";
        if (v->kind == DT_VALUE_RESULT) {
            used += (size_t)snprintf(text + used, 120 - used, "%s%lld", join, (long long)v->call);
        } else if (v->kind == DT_VALUE_INPUT) {
            used += (size_t)snprintf(text + used, 120 - used, "%s%.24s", join, v->name);
        } else if (v->kind == DT_VALUE_POSITIONS) {
            used += (size_t)snprintf(text + used, 120 - used, "%spositions", join);
        }
    }
}

static const dt_trace_value *result_of(const graph *g, const dt_trace_call *c)
{
    for (int i = 0; i < c->n_out; i++) {
        if (c->out[i] >= 0) return dt_trace_value_at(g->t, c->out[i]);
    }
    return NULL;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void widen(int *width, int n, int most)
{
    if (n > *width) *width = n < most ? n : most;
}

static void measure(graph *g)
{
    char text[160];
    g->op_width = g->from_width = 4;
    g->shape_width = g->form_width = 5;
    for (int64_t i = 0; i < dt_trace_calls(g->t); i++) {
        const dt_trace_call *c = dt_trace_call_at(g->t, i);
        widen(&g->op_width, (int)strlen(c->op->name), 20);
        widen(&g->shape_width, (int)strlen(shape_text(result_of(g, c), text)), 30);
        form_text(c, text);
        widen(&g->form_width, (int)strlen(text), 44);
        from_text(g, c, text);
        widen(&g->from_width, (int)strlen(text), 24);
    }
}

static void print_row(const graph *g, int64_t i, int64_t *sum)
{
    char shape[160], form[120], from[120];
    const dt_trace_call *c = dt_trace_call_at(g->t, i);
    const int64_t products = dt_trace_multiply_adds(g->t, c, 1, 1);
    form_text(c, form);
    from_text(g, c, from);
    printf("%5lld  %-*.*s  %-*.*s  %-*s  %-*s %12lld ", (long long)i, g->op_width, g->op_width,
           c->op->name, g->from_width, g->from_width, from, g->shape_width,
           shape_text(result_of(g, c), shape), g->form_width, form, (long long)products);
    const size_t at = c->out[0] < 0 ? SIZE_MAX : g->plan.offset[c->out[0]];
    if (at == SIZE_MAX) printf("%10s  ", "");
    else printf("%10zu  ", at);
    cli_print_name(c->module[0] != 0 ? c->module : "the model", 0);
    putchar('\n');
    *sum += products;
}

static void print_table(graph *g)
{
    int64_t sum = 0;
    measure(g);
    printf("%5s  %-*s  %-*s  %-*s  %-*s %12s %10s  %s\n", "call", g->op_width, "op", g->from_width,
           "from", g->shape_width, "shape", g->form_width, "form", "mult-adds", "memory", "module");
    for (int64_t i = 0; i < dt_trace_calls(g->t); i++) print_row(g, i, &sum);
    printf("%lld calls, %lld multiply-adds, %zu bytes of memory for results%s\n",
           (long long)dt_trace_calls(g->t), (long long)sum, g->plan.bytes,
           dt_trace_has_length(g->t) ? ", of one token" : ", of one example");
    puts("memory: where the result begins; B is the batch, T the number of tokens");
}

/* ---- DOT ------------------------------------------------------------------------------------- */

/* A name from a file within a label: quotes and backslashes are escaped. */
static void print_label(const char *name)
{
    for (; *name != 0; name++) {
        if (*name == '"' || *name == '\\') putchar('\\');
        putchar((unsigned char)*name < 0x20 ? '?' : *name);
    }
}

static void print_node(const graph *g, int64_t i)
{
    char shape[160], form[120];
    const dt_trace_call *c = dt_trace_call_at(g->t, i);
    form_text(c, form);
    printf("  c%lld [label=\"%s %s", (long long)i, c->op->name, shape_text(result_of(g, c), shape));
    if (form[0] != 0) printf("\\n%s", form);
    fputs("\\n", stdout);
    print_label(c->module);
    puts("\"];");
    for (int k = 0; k < c->n_in; k++) {
        if (c->in[k].value < 0) continue;
        const dt_trace_value *v = dt_trace_value_at(g->t, c->in[k].value);
        if (v->kind == DT_VALUE_RESULT) {
            printf("  c%lld -> c%lld;\n", (long long)v->call, (long long)i);
        } else if (v->kind == DT_VALUE_INPUT) {
            printf("  v%lld -> c%lld;\n", (long long)c->in[k].value, (long long)i);
        }
    }
}

static void print_dot(const graph *g)
{
    const int64_t *in;
    char shape[160];
    puts("digraph model {\n  node [shape=box, fontname=\"sans-serif\"];");
    for (int i = 0, n = dt_trace_inputs(g->t, &in); i < n; i++) {
        const dt_trace_value *v = dt_trace_value_at(g->t, in[i]);
        printf("  v%lld [shape=oval, label=\"", (long long)in[i]);
        print_label(v->name);
        printf(" %s\"];\n", shape_text(v, shape));
    }
    for (int64_t i = 0; i < dt_trace_calls(g->t); i++) print_node(g, i);
    puts("}");
}

dt_status cli_print_graph(dt_module *m, const dt_model_info *info, bool dot)
{
    dt_trace *t;
    graph g = { .t = NULL };
    dt_status s = dt_trace_model(m, info, false, &t);
    if (s != DT_OK) return s;
    g.t = t;
    s = dt_trace_plan_create(t, 1, 1, 16, &g.plan);
    if (s == DT_OK) {
        if (dot) print_dot(&g);
        else print_table(&g);
    }
    dt_trace_plan_free(dt_module_ctx(m), &g.plan);
    dt_trace_free(t);
    return s;
}
