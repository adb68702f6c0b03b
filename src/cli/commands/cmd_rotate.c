/* detent rotate: rotates a language model so that its activations have fewer outliers
 * (ptq/rotate). */
#include "cli/cli.h"
#include "cli/print/text.h"

#include <detent/experimental/train.h>

enum { OUTPUT, LEARN, HADAMARD, QUIET }; /* options, as in main.c */

/* Reads the recipe whose data the matrices are learned from; *out NULL: they are not learned. */
static int read_recipe(const cli_args *args, dt_ctx *ctx, dt_recipe **out)
{
    if (args->option[LEARN] != NULL) {
        return cli_read_recipe_of(args, ctx, "data", cli_rounding_reads, out);
    }
    if (args->n_words == 1) return CLI_DONE;
    return cli_fail(args, CLI_USAGE, "'%s': a recipe and its keys are read with --learn",
                    args->words[1]);
}

int cli_rotate(const cli_args *args, dt_ctx *ctx)
{
    int order = 0;
    dt_rotate_job job = { .model = args->words[0], .output = args->option[OUTPUT] };
    dt_recipe *recipe = NULL;
    if (job.output == NULL) {
        return cli_fail(args, CLI_USAGE, "-o FILE is missing: where to write the rotated model");
    }
    int status = cli_check_apart(args, job.output);
    if (status == CLI_DONE) status = cli_read_count(args, HADAMARD, 1 << 12, &order);
    job.hadamard = order;
    if (status == CLI_DONE) status = read_recipe(args, ctx, &recipe);
    if (status == CLI_DONE && dt_rotate_model(ctx, recipe, &job) != DT_OK) {
        status = recipe == NULL ? cli_fail_file(args, ctx) : cli_fail_recipe(args, ctx, recipe);
    }
    dt_recipe_free(recipe);
    if (status == CLI_DONE && args->option[QUIET] == NULL) cli_say("%s: rotated", job.output);
    return status;
}
