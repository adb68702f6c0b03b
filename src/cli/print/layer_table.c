/* The table of a model's layers, by dt_model_layers. */
#include "cli/print/inspect_tables.h"

#include "cli/print/text.h"

#include <stdio.h>

typedef struct table {
    cli_table text;
    int64_t rows, parameters, multiply_adds, bytes;
} table;

static void add(table *t, const dt_layer_row *row)
{
    t->rows++;
    t->parameters += row->parameters;
    t->multiply_adds += row->multiply_adds;
    t->bytes += row->bytes;
}

/* Prints parameters, multiply-adds, bits per parameter and bytes; the last two only where there are
 * parameters. */
static void put_sizes(table *t, int64_t parameters, int64_t multiply_adds, int64_t bytes)
{
    cli_table_format(&t->text, "%lld", (long long)parameters);
    cli_table_format(&t->text, "%lld", (long long)multiply_adds);
    if (parameters == 0) {
        cli_table_put(&t->text, "");
        cli_table_put(&t->text, "");
        return;
    }
    cli_table_format(&t->text, "%.2f", 8 * (double)bytes / (double)parameters);
    cli_table_format(&t->text, "%lld", (long long)bytes);
}

static void put_row(void *user, const dt_layer_row *row)
{
    table *t = user;
    add(t, row);
    cli_table_put(&t->text, row->path);
    cli_table_put(&t->text, row->type);
    cli_table_put(&t->text, cli_dims_of(row->output.rank, row->output.dims).text);
    put_sizes(t, row->parameters, row->multiply_adds, row->bytes);
}

static void put_head(table *t)
{
    static const char *const heads[] = { "layer",     "type", "output", "parameters",
                                         "mult-adds", "bits", "bytes" };
    for (int i = 0; i < 7; i++) cli_table_put(&t->text, heads[i]);
}

static void print_json_row(void *user, const dt_layer_row *row)
{
    table *t = user;
    fputs(t->rows == 0 ? "\n  {\"layer\": " : ",\n  {\"layer\": ", stdout);
    add(t, row);
    cli_json_string(row->path);
    printf(", \"type\": \"%s\", \"output\": %s, \"parameters\": %lld, \"multiply_adds\": %lld, "
           "\"bytes\": %lld}",
           row->type, cli_dims_of(row->output.rank, row->output.dims).text,
           (long long)row->parameters, (long long)row->multiply_adds, (long long)row->bytes);
}

dt_status cli_print_layers(dt_module *m, const dt_family *family, const void *options, bool json)
{
    table t = { .text = { .form = "lllrrrr" } };
    if (family == NULL || family->shapes == NULL) {
        if (json) puts("null");
        return DT_OK;
    }
    if (json) {
        putchar('[');
        const dt_status s = dt_model_layers(m, family, options, true, print_json_row, &t);
        puts("\n]");
        return s;
    }
    put_head(&t);
    const dt_status s = dt_model_layers(m, family, options, true, put_row, &t);
    cli_table_put(&t.text, "all");
    cli_table_put(&t.text, "");
    cli_table_put(&t.text, "");
    put_sizes(&t, t.parameters, t.multiply_adds, t.bytes);
    cli_table_print(&t.text);
    return s;
}

dt_status cli_print_recipe_layers(dt_ctx *ctx, dt_recipe *recipe, bool json)
{
    const dt_recipe_options *o = dt_recipe_get(recipe);
    dt_module *m;
    dt_status s = o->model.family->create(ctx, o->model.options, &m);
    if (s != DT_OK) return s;
    if (o->qat.given) s = dt_prepare(m, &o->qat);
    if (s == DT_OK) s = cli_print_layers(m, o->model.family, o->model.options, json);
    dt_module_free(m);
    return s;
}
