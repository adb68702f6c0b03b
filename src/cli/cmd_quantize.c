/* detent quantize: weights to integers without training, of a file of tensors that has no model. */
#include "cli.h"
#include "rounded.h"

#include <stdio.h>
#include <string.h>

enum { OUTPUT, CALIBRATION, CODES, JSON, QUIET }; /* options, as in main.c */

/* ---- what is asked for ------------------------------------------------------------------------- */

static bool is_override(const char *word) { return word[0] == '~' || strchr(word, '=') != NULL; }

/* Without RECIPE its defaults, which words may change. */
static int read_recipe(const cli_args *args, dt_ctx *ctx, dt_recipe **out)
{
    static const char defaults[] = "quantize: {}\n";
    dt_recipe_source source = { .path = "defaults",
                                .text = defaults,
                                .bytes = sizeof defaults - 1,
                                .use = DT_RECIPE_TO_QUANTIZE };
    const bool has_recipe = args->n_words > 1 && !is_override(args->words[1]);
    if (has_recipe) {
        source = (dt_recipe_source){ .path = args->words[1], .use = DT_RECIPE_TO_QUANTIZE };
    }
    return cli_read_source(args, ctx, has_recipe ? 2 : 1, &source, out);
}

static int read_codes(const cli_args *args, int *codes)
{
    static const char *const names[] = { "packed", "i8", NULL };
    const char *given = args->option[CODES];
    for (*codes = 0; given != NULL && names[*codes] != NULL; ++*codes) {
        if (strcmp(names[*codes], given) == 0) return CLI_DONE;
    }
    if (given == NULL) return CLI_DONE;
    return cli_fail(args, CLI_USAGE, "--codes is packed or i8, not '%s'", given);
}

/* ---- a file of tensors -------------------------------------------------------------------------- */

static void show_row(void *user, const dt_quantize_summary *s)
{
    (void)user;
    rounded_row(s);
}

static int explain(const cli_args *args, dt_ctx *ctx, const dt_recipe *recipe)
{
    if (dt_error_status(ctx) == DT_ERR_CONFIG && dt_recipe_error_count(recipe) > 0) {
        return cli_print_errors(recipe);
    }
    return cli_fail_file(args, ctx);
}

static int run(const cli_args *args, dt_ctx *ctx, dt_recipe *recipe, int codes)
{
    const bool json = args->option[JSON] != NULL;
    const dt_tensors_job job = {
        .weights = args->words[0],
        .calibration = args->option[CALIBRATION],
        .output = args->option[OUTPUT],
        .codes = codes,
        .stop = cli_stopped,
        .weight = json || args->option[QUIET] != NULL ? NULL : show_row,
    };
    dt_quantize_summary summary;
    int status = CLI_DONE;
    cli_catch_signals();
    if (dt_quantize_tensors(ctx, recipe, &job, &summary) != DT_OK) {
        status = explain(args, ctx, recipe);
    } else if (json) {
        status = cli_written(dt_quantize_summary_json(&summary, cli_stdout, NULL));
    } else if (args->option[QUIET] == NULL) {
        rounded_total(job.output, &summary);
    }
    dt_quantize_summary_free(&summary);
    return status;
}

static int quantize_tensors(const cli_args *args, dt_ctx *ctx)
{
    int codes;
    dt_recipe *recipe = NULL;
    int status = read_codes(args, &codes);
    if (status == CLI_DONE) status = read_recipe(args, ctx, &recipe);
    if (status == CLI_DONE) status = run(args, ctx, recipe, codes);
    dt_recipe_free(recipe);
    return status;
}

/* ---- which of both ------------------------------------------------------------------------------ */

/* A file that says how its model is built is a model. */
static int is_model(const cli_args *args, dt_ctx *ctx, bool *out)
{
    dt_file *file;
    if (dt_file_open(ctx, args->words[0], &file) != DT_OK) return cli_fail_file(args, ctx);
    *out = dt_file_meta(file, "detent.model") != NULL;
    dt_file_close(file);
    return CLI_DONE;
}

int cli_quantize(const cli_args *args)
{
    bool model = false;
    if (args->option[OUTPUT] == NULL) {
        return cli_fail(args, CLI_USAGE, "-o FILE is missing: where to write the codes");
    }
    dt_ctx *ctx = cli_ctx(args, 0);
    if (ctx == NULL) return CLI_FAILED;
    int status = is_model(args, ctx, &model);
    if (status == CLI_DONE) status = quantize_tensors(args, ctx);
    dt_ctx_free(ctx);
    return status;
}
