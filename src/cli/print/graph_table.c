/* `inspect --graph`: a model's trace as a table or in Graphviz's language DOT. */
#include "cli/print/inspect_tables.h"

#include "cli/cli.h"
#include "cli/print/text.h"

#include <stdio.h>
#include <string.h>

typedef struct graph {
    const dt_trace *t;
    dt_trace_plan plan; /* for one example, and one token */
    cli_table text;
} graph;

/* Writes "[B, T, 64]". */
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

/* Writes "int8 token x int4 group 32": how operands are multiplied or read; "" if all are
 * floats. */
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

/* Writes "0, 3", the numbers of the calls whose results are read; inputs by name. */
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

static void put_row(graph *g, int64_t i, int64_t *sum)
{
    char shape[160], form[120], from[120];
    const dt_trace_call *c = dt_trace_call_at(g->t, i);
    const int64_t products = dt_trace_multiply_adds(g->t, c, 1, 1);
    const size_t at = c->out[0] < 0 ? SIZE_MAX : g->plan.offset[c->out[0]];
    form_text(c, form);
    from_text(g, c, from);
    cli_table_format(&g->text, "%lld", (long long)i);
    cli_table_put(&g->text, c->op->name);
    cli_table_put(&g->text, from);
    cli_table_put(&g->text, shape_text(result_of(g, c), shape));
    cli_table_put(&g->text, form);
    cli_table_format(&g->text, "%lld", (long long)products);
    if (at == SIZE_MAX) cli_table_put(&g->text, "");
    else cli_table_format(&g->text, "%zu", at);
    cli_table_put(&g->text, c->module[0] != 0 ? c->module : "the model");
    *sum += products;
}

static void print_table(graph *g)
{
    static const char *const heads[] = { "call", "op",        "from",   "shape",
                                         "form", "mult-adds", "memory", "module" };
    int64_t sum = 0;
    g->text.form = "lllllool";
    for (int i = 0; i < 8; i++) cli_table_put(&g->text, heads[i]);
    for (int64_t i = 0; i < dt_trace_calls(g->t); i++) put_row(g, i, &sum);
    cli_table_print(&g->text);
    cli_say("%lld call%s, %lld multiply-add%s, %zu bytes of memory for results%s",
            (long long)dt_trace_calls(g->t), CLI_S(dt_trace_calls(g->t)), (long long)sum,
            CLI_S(sum), g->plan.bytes,
            dt_trace_has_length(g->t) ? ", of one token" : ", of one example");
    cli_say("memory: where the result begins; B is the batch, T the number of tokens");
}

/* Writes a name from a file as a label: escapes quotes, backslashes and control characters. */
static void print_label(const char *name)
{
    char out[DT_TEXT_JSON];
    for (size_t n = strlen(name), took; n > 0; name += took, n -= took) {
        took = dt_text_json(name, n, out);
        if (out[0] == '\\' && out[1] == 'u') putchar('\\');
        fputs(out, stdout);
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
