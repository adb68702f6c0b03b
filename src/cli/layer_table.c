/* The table of a model's layers, by dt_model_layers. */
#include "layer_table.h"

#include "text.h"

#include <stdio.h>
#include <string.h>

typedef struct table {
    bool json;
    int name_width, shape_width;
    int64_t rows, parameters, multiply_adds, bytes;
} table;

static const char *shape_of(const dt_layer_row *row, char text[160])
{
    size_t used = (size_t)snprintf(text, 160, "[");
    for (int i = 0; i < row->output.rank && used < 130; i++) {
        used += (size_t)snprintf(text + used, 160 - used, i == 0 ? "%lld" : ", %lld",
                                 (long long)row->output.dims[i]);
    }
    snprintf(text + used, 160 - used, "]");
    return text;
}

static void measure(void *user, const dt_layer_row *row)
{
    table *t = user;
    char text[160];
    const int name = cli_columns(row->path), shape = (int)strlen(shape_of(row, text));
    if (name > t->name_width) t->name_width = name < 48 ? name : 48;
    if (shape > t->shape_width) t->shape_width = shape;
}

static void add(table *t, const dt_layer_row *row)
{
    t->rows++;
    t->parameters += row->parameters;
    t->multiply_adds += row->multiply_adds;
    t->bytes += row->bytes;
}

static double bits_of(int64_t bytes, int64_t parameters)
{
    return parameters == 0 ? 0 : 8 * (double)bytes / (double)parameters;
}

static void print_row(void *user, const dt_layer_row *row)
{
    table *t = user;
    char text[160];
    add(t, row);
    cli_print_name(row->path, t->name_width);
    printf("  %-17.17s  %-*s %10lld %12lld ", row->type, t->shape_width, shape_of(row, text),
           (long long)row->parameters, (long long)row->multiply_adds);
    if (row->parameters == 0) printf("%6s %10s\n", "", "");
    else printf("%6.2f %10lld\n", bits_of(row->bytes, row->parameters), (long long)row->bytes);
}

static void print_json_row(void *user, const dt_layer_row *row)
{
    table *t = user;
    fputs(t->rows == 0 ? "\n  {\"layer\": " : ",\n  {\"layer\": ", stdout);
    add(t, row);
    cli_json_string(row->path);
    printf(", \"type\": \"%s\", \"output\": [", row->type);
    for (int i = 0; i < row->output.rank; i++) {
        printf(i == 0 ? "%lld" : ", %lld", (long long)row->output.dims[i]);
    }
    printf("], \"parameters\": %lld, \"multiply_adds\": %lld, \"bytes\": %lld}",
           (long long)row->parameters, (long long)row->multiply_adds, (long long)row->bytes);
}

dt_status cli_print_layers(dt_module *m, const dt_family *family, const void *options, bool json)
{
    table t = { .json = json, .name_width = 5, .shape_width = 6 };
    if (family == NULL || family->shapes == NULL) {
        if (json) puts("null");
        return DT_OK;
    }
    dt_status s = dt_model_layers(m, family, options, true, measure, &t);
    if (s != DT_OK) return s;
    if (json) {
        putchar('[');
        s = dt_model_layers(m, family, options, true, print_json_row, &t);
        puts("\n]");
        return s;
    }
    printf("%-*s  %-17s  %-*s %10s %12s %6s %10s\n", t.name_width, "layer", "type", t.shape_width,
           "output", "parameters", "mult-adds", "bits", "bytes");
    s = dt_model_layers(m, family, options, true, print_row, &t);
    printf("%-*s  %-17s  %-*s %10lld %12lld %6.2f %10lld\n", t.name_width, "all", "", t.shape_width,
           "", (long long)t.parameters, (long long)t.multiply_adds, bits_of(t.bytes, t.parameters),
           (long long)t.bytes);
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
