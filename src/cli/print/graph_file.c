#include "cli/print/inspect_tables.h"
#include "cli/cli.h"
#include "cli/print/text.h"

static void print_values(const char *what, const dt_graph_value *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        cli_text t = { .used = 0 };
        cli_text_add(&t, "%s, %s %s", v[i].name, v[i].type, v[i].shape);
        cli_entry(stdout, what, 12, t.text);
    }
}

static void print_operators(const dt_graph_info *info)
{
    static const char *const heads[] = { "operator", "count", "read" };
    cli_table t = { .form = "lrl" };
    for (int i = 0; i < 3; i++) cli_table_put(&t, heads[i]);
    for (int64_t i = 0; i < info->n_operators; i++) {
        cli_table_put(&t, info->operator_[i].name);
        cli_table_format(&t, "%lld", (long long)info->operator_[i].count);
        cli_table_put(&t, info->operator_[i].known ? "yes" : "not known");
    }
    cli_table_print(&t);
}

static void print_text(const dt_graph_info *info)
{
    cli_text t = { .used = 0 };
    cli_text_add(&t, "%s, version %lld", info->format, (long long)info->version);
    cli_entry(stdout, "format", 12, t.text);
    if (*info->producer != 0) cli_entry(stdout, "producer", 12, info->producer);
    print_values("input", info->input, info->n_inputs);
    print_values("output", info->output, info->n_outputs);
    print_operators(info);
    cli_say("%lld node%s, %lld parameter%s", (long long)info->nodes, CLI_S(info->nodes),
            (long long)info->parameters, CLI_S(info->parameters));
    if (info->n_refusals == 0) cli_say("nothing in it is refused");
    else cli_say("refused:");
    for (int64_t i = 0; i < info->n_refusals; i++) cli_say("  %s", info->refusal[i]);
}

static void put_field(const char *before, const char *text)
{
    fputs(before, stdout);
    cli_json_string(text);
}

static void put_values(const char *name, const dt_graph_value *v, int64_t n)
{
    printf(",\n  \"%s\": [", name);
    for (int64_t i = 0; i < n; i++) {
        put_field(i == 0 ? "\n    {\"name\": " : ",\n    {\"name\": ", v[i].name);
        put_field(", \"type\": ", v[i].type);
        put_field(", \"shape\": ", v[i].shape);
        fputs("}", stdout);
    }
    fputs("]", stdout);
}

static void print_json(const dt_graph_info *info)
{
    put_field("{\n  \"format\": ", info->format);
    printf(",\n  \"version\": %lld", (long long)info->version);
    put_field(",\n  \"producer\": ", info->producer);
    put_values("inputs", info->input, info->n_inputs);
    put_values("outputs", info->output, info->n_outputs);
    fputs(",\n  \"operators\": [", stdout);
    for (int64_t i = 0; i < info->n_operators; i++) {
        const dt_graph_operator *o = &info->operator_[i];
        put_field(i == 0 ? "\n    {\"name\": " : ",\n    {\"name\": ", o->name);
        printf(", \"count\": %lld, \"known\": %s}", (long long)o->count,
               o->known ? "true" : "false");
    }
    printf("],\n  \"nodes\": %lld, \"parameters\": %lld,\n  \"refusals\": [",
           (long long)info->nodes, (long long)info->parameters);
    for (int64_t i = 0; i < info->n_refusals; i++) {
        put_field(i == 0 ? "\n    " : ",\n    ", info->refusal[i]);
    }
    fputs("]\n}\n", stdout);
}

void cli_print_graph_file(const dt_graph_info *info, bool json)
{
    if (json) print_json(info);
    else print_text(info);
}
