/* detent config show|validate|schema|keys: prints or checks a recipe; prints the schema or all
 * keys. */
#include "cli/cli.h"
#include "cli/print/inspect_tables.h"
#include "cli/narrow.h"
#include "cli/print/screen.h"

#include <stdio.h>
#include <string.h>

enum { JSON, LEAVE_FILES, SUMMARY }; /* options, as in main.c */

/* Reads a recipe for any use. */
static int read_any(const cli_args *args, dt_ctx *ctx, dt_recipe **out)
{
    const dt_recipe_source source = { .path = args->words[1],
                                      .leave_files = args->option[LEAVE_FILES] != NULL,
                                      .use = DT_RECIPE_ANY };
    return cli_read_source(args, ctx, 2, &source, out);
}

/* Prints the layers of the recipe's model. */
static int summarize(const cli_args *args, dt_ctx *ctx, dt_recipe *recipe, bool json)
{
    if (dt_recipe_only_quantizes(recipe)) {
        return cli_fail(args, CLI_USAGE, "--summary: the recipe has no model");
    }
    const dt_status s = cli_print_recipe_layers(ctx, recipe, json);
    return s == DT_OK ? cli_written(DT_OK) : cli_fail_by(args, ctx);
}

static int show(const cli_args *args, dt_ctx *ctx)
{
    dt_recipe *recipe = NULL;
    int status = read_any(args, ctx, &recipe);
    const bool json = args->option[JSON] != NULL;
    if (status == CLI_DONE && args->option[SUMMARY] != NULL) {
        status = summarize(args, ctx, recipe, json);
    } else if (status == CLI_DONE && json) {
        status = cli_written(dt_recipe_json(recipe, cli_stdout, NULL));
    } else if (status == CLI_DONE && screen_wraps(stdout)) {
        narrow lines = { .width = screen_width(stdout) };
        status = cli_written(dt_recipe_show(recipe, narrow_add, &lines));
    } else if (status == CLI_DONE) {
        status = cli_written(dt_recipe_show(recipe, cli_stdout, NULL));
    }
    dt_recipe_free(recipe);
    return status;
}

static void print_errors(const dt_recipe *recipe)
{
    const int n = recipe == NULL ? 0 : dt_recipe_error_count(recipe);
    printf("{\"valid\": %s, \"errors\": [", n == 0 ? "true" : "false");
    for (int i = 0; i < n; i++) {
        fputs(i == 0 ? "\n  " : ",\n  ", stdout);
        cli_json_string(dt_recipe_error_at(recipe, i));
    }
    puts(n == 0 ? "]}" : "\n]}");
}

/* Builds the model, for checks that need it. */
static dt_status check_model(dt_ctx *ctx, dt_recipe *recipe)
{
    const dt_model_options *o = &dt_recipe_get(recipe)->model;
    dt_module *model = NULL;
    dt_status status = o->family->create(ctx, o->options, &model);
    if (status == DT_ERR_ARG) {
        char words[512];
        snprintf(words, sizeof words, "%s", dt_error(ctx));
        status = dt_recipe_refuse(recipe, "model", "%s", words);
    }
    if (status == DT_OK) status = dt_recipe_adapt(recipe, model);
    if (status == DT_OK) status = dt_recipe_check_model(recipe, model);
    dt_module_free(model);
    return status;
}

/* Opens the data, and makes all checks that a run makes before its first update. Missing or
 * malformed files are errors of the recipe that names them; failures of the machine are not. */
static dt_status check_data(dt_ctx *ctx, dt_recipe *recipe)
{
    char words[1024];
    const dt_run_control control = { .check_only = true };
    const dt_status status = dt_run(ctx, recipe, &control, NULL);
    const bool of_file =
        status == DT_ERR_FORMAT || status == DT_ERR_IO || status == DT_ERR_UNSUPPORTED;
    if (!of_file || dt_error_of_machine(ctx)) return status;
    snprintf(words, sizeof words, "%s", dt_error(ctx));
    return dt_recipe_refuse(recipe, "data", "%s", words);
}

/* Whether the recipe names its data, and they can be read. */
static bool opens_data(const cli_args *args, const dt_recipe *recipe)
{
    const dt_data_options *o = &dt_recipe_get(recipe)->data;
    return args->option[LEAVE_FILES] == NULL && (o->format != DT_DATA_GIVEN || o->source != NULL);
}

/* If the data have errors, checks the model alone, so that all errors are found. */
static int check_run(const cli_args *args, dt_ctx *ctx, dt_recipe *recipe)
{
    const bool opens = opens_data(args, recipe);
    const dt_status of_data = opens ? check_data(ctx, recipe) : DT_OK;
    if (of_data != DT_OK && of_data != DT_ERR_CONFIG) return cli_fail_by(args, ctx);
    const dt_status of_model = opens && of_data == DT_OK ? DT_OK : check_model(ctx, recipe);
    if (dt_recipe_error_count(recipe) > 0) return cli_print_errors(recipe);
    return of_model == DT_OK ? CLI_DONE : cli_fail_by(args, ctx);
}

static int validate(const cli_args *args, dt_ctx *ctx)
{
    dt_recipe *recipe = NULL;
    int status = read_any(args, ctx, &recipe);
    if (status == CLI_DONE && !dt_recipe_only_quantizes(recipe)) {
        status = check_run(args, ctx, recipe);
    }
    if (args->option[JSON] != NULL && recipe != NULL) {
        print_errors(recipe);
    } else if (status == CLI_DONE) {
        printf("%s: no errors\n", args->words[1]);
    }
    dt_recipe_free(recipe);
    return status;
}

static int schema(const cli_args *args, dt_ctx *ctx)
{
    (void)args;
    return cli_written(dt_recipe_schema(ctx, cli_stdout, NULL));
}

static int keys(const cli_args *args, dt_ctx *ctx)
{
    (void)args;
    return cli_written(dt_recipe_markdown(ctx, cli_stdout, NULL));
}

int cli_config(const cli_args *args, dt_ctx *ctx)
{
    static const struct {
        const char *name;
        int (*run)(const cli_args *args, dt_ctx *ctx);
        bool wants_recipe;
    } verbs[] = {
        { "show", show, true },
        { "validate", validate, true },
        { "schema", schema, false },
        { "keys", keys, false },
    };
    const char *names[] = { "show", "validate", "schema", "keys", NULL };
    const char *verb = args->words[0];
    int i = 0;
    while (i < 4 && strcmp(verbs[i].name, verb) != 0) i++;
    if (i == 4) {
        const char *meant = dt_nearest(names, verb);
        if (meant != NULL) {
            return cli_fail(args, CLI_USAGE, "no '%s' (did you mean '%s'?)", verb, meant);
        }
        return cli_fail(args, CLI_USAGE, "no '%s'; there are: show, validate, schema, keys", verb);
    }
    if (verbs[i].wants_recipe ? args->n_words < 2 : args->n_words > 1) {
        return cli_fail(args, CLI_USAGE, "usage: detent config %s%s", verb,
                        verbs[i].wants_recipe ? " RECIPE [key=value ...]" : "");
    }
    return verbs[i].run(args, ctx);
}
