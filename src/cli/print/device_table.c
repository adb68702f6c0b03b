/* `inspect --device`: flash and RAM of a model's layers as exported C. */
#include "cli/print/inspect_tables.h"

#include "cli/print/text.h"

#include <detent/experimental/export.h>

#include <stdio.h>

typedef struct table {
    cli_table text;
    int64_t rows, multiply_adds;
    size_t most;
    int clock;      /* in MHz; 0: no core was named */
    char peak[160]; /* the layer with the most RAM */
} table;

static const char *path_of(const dt_cost_row *row)
{
    return row->module[0] != 0 ? row->module : "the model";
}

static void add(table *t, const dt_cost_row *row)
{
    t->rows++;
    t->multiply_adds += row->multiply_adds;
    if (!row->peak) return;
    t->most = row->ram;
    snprintf(t->peak, sizeof t->peak, "%s (%s)", path_of(row), row->op);
}

static void put_row(void *user, const dt_cost_row *row)
{
    table *t = user;
    add(t, row);
    cli_table_put(&t->text, path_of(row));
    cli_table_put(&t->text, row->op);
    cli_table_put(&t->text, cli_dims_of(row->output.rank, row->output.dims).text);
    cli_table_format(&t->text, "%lld", (long long)row->multiply_adds);
    if (t->clock > 0) cli_table_format(&t->text, "%.0f", row->instructions);
    cli_table_format(&t->text, "%zu", row->flash);
    cli_table_format(&t->text, "%zu", row->ram);
    cli_table_put(&t->text, row->peak ? "peak" : "");
}

static void print_text(table *t, const dt_costs *c)
{
    cli_table_print(&t->text);
    cli_say("flash: %zu bytes of constants, and the code", c->flash);
    cli_say("RAM: an arena of %zu bytes, and the stack; %s sets the peak with %zu in use", c->arena,
            t->rows == 0 ? "nothing" : t->peak, t->most);
    if (c->integers) {
        cli_say("with CMSIS-NN an arena of %zu bytes, since it needs buffers of its own",
                c->cmsis_arena);
    }
    cli_say("the caller's: %zu bytes of input, %zu of output; %lld multiply-adds", c->input,
            c->output, (long long)t->multiply_adds);
    if (t->clock > 0) {
        cli_say(
            "Cortex-M4 at %d MHz, an estimate (docs/device.md): %.3g million instructions, %.3g "
            "million cycles, %.3g ms, without wait states of flash",
            t->clock, c->instructions / 1e6, c->cycles / 1e6, c->cycles / t->clock / 1e3);
    }
}

static void print_json_row(void *user, const dt_cost_row *row)
{
    table *t = user;
    fputs(t->rows == 0 ? "{\n  \"layers\": [\n    {\"layer\": " : ",\n    {\"layer\": ", stdout);
    add(t, row);
    cli_json_string(row->module);
    printf(
        ", \"op\": \"%s\", \"output\": %s, \"multiply_adds\": %lld, \"flash\": %zu, \"ram\": %zu, "
        "\"peak\": %s",
        row->op, cli_dims_of(row->output.rank, row->output.dims).text,
        (long long)row->multiply_adds, row->flash, row->ram, row->peak ? "true" : "false");
    if (t->clock > 0) printf(", \"instructions\": %.0f", row->instructions);
    fputs("}", stdout);
}

static void print_json(const table *t, const dt_costs *c)
{
    if (t->rows == 0) fputs("{\n  \"layers\": [", stdout);
    printf("],\n  \"flash\": %zu, \"arena\": %zu, \"peak\": %zu, \"input\": %zu, \"output\": %zu,\n"
           "  \"multiply_adds\": %lld, \"cmsis_arena\": ",
           c->flash, c->arena, t->most, c->input, c->output, (long long)t->multiply_adds);
    if (c->integers) printf("%zu", c->cmsis_arena);
    else fputs("null", stdout);
    if (t->clock > 0) {
        printf(",\n  \"cortex_m4\": {\"clock_mhz\": %d, \"instructions\": %.0f, \"cycles\": %.0f, "
               "\"ms\": ",
               t->clock, c->instructions, c->cycles);
        cli_json_number(c->cycles / t->clock / 1e3);
        fputs("}", stdout);
    }
    puts("\n}");
}

dt_status cli_print_device(dt_module *m, const dt_model_info *info, int clock, bool json)
{
    static const char *const heads[] = { "layer",        "op",    "output", "mult-adds",
                                         "instructions", "flash", "RAM",    "" };
    table t = { .clock = clock, .text = { .form = clock > 0 ? "lllorrrl" : "lllorrl" } };
    dt_costs costs;
    for (int i = 0; i < 8; i++) {
        if (i != 4 || clock > 0) cli_table_put(&t.text, heads[i]);
    }
    const dt_status s = dt_export_costs(m, info, json ? print_json_row : put_row, &t, &costs);
    if (s == DT_OK && json) print_json(&t, &costs);
    if (s == DT_OK && !json) print_text(&t, &costs);
    else cli_table_free(&t.text);
    return s;
}
