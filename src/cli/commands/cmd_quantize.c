/* detent quantize: post-training quantization of a model, or of a file of tensors without a
 * model. */
#include "cli/print/meter.h"
#include "cli/round_model.h"

#include <string.h>

enum { OUTPUT, CALIBRATION, CODES, JSON, QUIET }; /* options, as in main.c */

/* Reads the recipe; without RECIPE the defaults, changed by overrides. */
static int read_recipe(const cli_args *args, dt_ctx *ctx, dt_recipe **out)
{
    static const char defaults[] = "quantize: {}\n";
    dt_recipe_source source = { .path = "defaults",
                                .text = defaults,
                                .bytes = sizeof defaults - 1,
                                .use = DT_RECIPE_TO_QUANTIZE };
    const bool has_recipe = args->n_words > 1 && !cli_is_override(args->words[1]);
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
    return cli_fail(args, CLI_USAGE, "--codes must be packed or i8, not '%s'", given);
}

static rounded_view view_of(const cli_args *args)
{
    return (rounded_view){ .output = args->option[OUTPUT],
                           .json = args->option[JSON] != NULL,
                           .quiet = args->option[QUIET] != NULL };
}

static int run(const cli_args *args, dt_ctx *ctx, dt_recipe *recipe, int codes)
{
    const rounded_view view = view_of(args);
    const dt_tensors_job job = {
        .weights = args->words[0],
        .calibration = args->option[CALIBRATION],
        .output = view.output,
        .codes = codes,
        .stop = cli_stopped,
        .weight = rounded_row,
    };
    dt_quantize_summary summary;
    cli_catch_signals();
    meter_begin("quantize", view.quiet);
    dt_set_progress(ctx, meter_told, NULL);
    const bool good = dt_quantize_tensors(ctx, recipe, &job, &summary) == DT_OK;
    dt_set_progress(ctx, NULL, NULL);
    meter_end();
    const int status = good ? rounded_end(&view, &summary) : cli_fail_recipe(args, ctx, recipe);
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

/* Whether there is a recipe with data: a given one, that of the model's run, or overrides of
 * data.*. */
static bool has_recipe(const cli_args *args)
{
    if (cli_lies_in_run(args->words[0])) return true;
    for (int i = 1; i < args->n_words; i++) {
        const bool is_data = strncmp(args->words[i], "data", 4) == 0;
        if (!cli_is_override(args->words[i]) || is_data) return true;
    }
    return false;
}

/* Whether an activation may have a static range, which is observed on data. */
static bool observes(const dt_qat_options *o)
{
    dt_quant_spec weight, activation = { .range = DT_RANGE_DYNAMIC };
    const bool quantized = dt_qat_preset(o->preset, &weight, &activation);
    const int own = o->activation.has_range ? o->activation.quant.range : activation.range;
    bool any = (quantized || o->activation.has_range) && own != DT_RANGE_DYNAMIC;
    for (int64_t i = 0; i < o->n_rules; i++) {
        const dt_quant_patch *p = &o->rules[i].activation;
        any = any || (p->has_range && p->quant.range != DT_RANGE_DYNAMIC);
    }
    return o->given && any;
}

/* Reads the recipe; where static ranges are observed, also its settings of training batches. */
static int read_own(const cli_args *args, dt_ctx *ctx, dt_recipe **out)
{
    static const char what[] = "'qat' and its data";
    if (!has_recipe(args)) return read_recipe(args, ctx, out);
    const int status = cli_read_recipe_of(args, ctx, what, cli_rounding_reads, out);
    if (status != CLI_DONE) return status;
    if (!observes(&dt_recipe_get(*out)->qat)) return CLI_DONE;
    dt_recipe_free(*out);
    *out = NULL;
    return cli_read_recipe_of(args, ctx, what, cli_observing_reads, out);
}

static int quantize_model(const cli_args *args, dt_ctx *ctx)
{
    dt_recipe *recipe = NULL;
    const round_model r = { .model = args->words[0], .view = view_of(args) };
    if (args->option[CALIBRATION] != NULL || args->option[CODES] != NULL) {
        return cli_fail(args, CLI_USAGE,
                        "%s is a model: it calibrates with its recipe's data, and its codes are "
                        "packed; %s is for files of tensors",
                        r.model, args->option[CODES] != NULL ? "--codes" : "--calibration");
    }
    int status = read_own(args, ctx, &recipe);
    if (status == CLI_DONE) status = round_model_run(args, ctx, recipe, &r);
    dt_recipe_free(recipe);
    return status;
}

/* ---- model or tensors
 * -------------------------------------------------------------------------- */

/* Whether a file is a model: its metadata describe one. */
static int is_model(const cli_args *args, dt_ctx *ctx, bool *out)
{
    dt_file *file;
    if (dt_file_open(ctx, args->words[0], &file) != DT_OK) return cli_fail_file(args, ctx);
    *out = dt_file_meta(file, "detent.model") != NULL;
    dt_file_close(file);
    return CLI_DONE;
}

int cli_quantize(const cli_args *args, dt_ctx *ctx)
{
    bool model = false;
    if (args->option[OUTPUT] == NULL) {
        return cli_fail(args, CLI_USAGE, "-o FILE is missing: where to write the codes");
    }
    int status = is_model(args, ctx, &model);
    if (status == CLI_DONE) status = (model ? quantize_model : quantize_tensors)(args, ctx);
    return status;
}
