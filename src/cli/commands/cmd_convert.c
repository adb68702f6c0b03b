/* detent convert: converts a QAT checkpoint, or the newest one of a run, to an integer model. A run
 * is converted by its recipe's `convert`; a checkpoint alone by rounding to nearest, which needs no
 * data. */
#include "cli/round_model.h"
#include "cli/print/text.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

enum { JSON, OUTPUT, QUIET }; /* options, as in main.c */

/* Finds the checkpoint to convert: the file itself, or a run's newest valid checkpoint. */
static dt_status find_source(dt_ctx *ctx, const char *word, char path[PATH_MAX])
{
    struct stat about;
    char folder[PATH_MAX];
    const bool is_folder = cli_is_folder(word);
    int n = snprintf(folder, PATH_MAX, "%s/checkpoints", word);
    const bool is_run = is_folder && n > 0 && n < PATH_MAX && stat(folder, &about) == 0;
    if (!is_run) n = snprintf(path, PATH_MAX, "%s", word);
    if (n < 0 || n >= PATH_MAX) return dt_fail(ctx, DT_ERR_IO, "%s: too long a path", word);
    return is_run ? dt_checkpoint_newest(ctx, folder, path, PATH_MAX, NULL) : DT_OK;
}

static void print_report(const cli_args *args, const char *from, const dt_convert_report *r)
{
    const char *to = args->option[OUTPUT];
    if (args->option[JSON] == NULL) {
        cli_text l = { .used = 0 };
        cli_text_add(&l, "%s: %lld weight%s converted from %s", to, (long long)r->converted,
                     CLI_S(r->converted), from);
        if (r->enabled > 0) {
            cli_text_add(&l, "; %lld %s trained in float so far", (long long)r->enabled,
                         r->enabled == 1 ? "was" : "were");
        }
        cli_say("%s; %lld of %lld elements clipped", l.text, (long long)r->clipped,
                (long long)r->elements);
        return;
    }
    fputs("{\"from\": ", stdout);
    cli_json_string(from);
    fputs(", \"output\": ", stdout);
    cli_json_string(to);
    printf(", \"converted\": %lld, \"enabled\": %lld, \"clipped\": %lld, \"elements\": %lld}\n",
           (long long)r->converted, (long long)r->enabled, (long long)r->clipped,
           (long long)r->elements);
}

/* Reads a run's recipe if its rounder is not nearest; else *out is NULL. */
static int find_rounder(const cli_args *args, dt_ctx *ctx, dt_recipe **out)
{
    struct stat found;
    char path[PATH_MAX];
    const char *word = path;
    cli_args own = *args;
    *out = NULL;
    const int n = snprintf(path, sizeof path, "%s/recipe.yaml", args->words[0]);
    if (n < 0 || n >= PATH_MAX || stat(path, &found) != 0) return CLI_DONE;
    own.words = &word;
    own.n_words = 1;
    const dt_recipe_source source = {
        .path = path, .leave_files = true, .saved = true, .reads = cli_rounding_reads
    };
    const int status = cli_read_source(&own, ctx, 1, &source, out);
    if (status != CLI_DONE) return status;
    if (dt_recipe_get(*out)->convert.rounding.rounder != DT_ROUND_NEAREST) return CLI_DONE;
    dt_recipe_free(*out);
    *out = NULL;
    return CLI_DONE;
}

static int check_prepared(const cli_args *args, dt_module *m, const char *from)
{
    if (dt_is_converted(m)) {
        return cli_fail(args, CLI_BAD_FILE, "%s: converted already; give a QAT checkpoint", from);
    }
    if (!dt_is_prepared(m)) {
        return cli_fail(args, CLI_BAD_FILE,
                        "%s: a float model: none of its weights is prepared for "
                        "integers; train it with a recipe that has `qat`, or `detent quantize` it",
                        from);
    }
    return CLI_DONE;
}

static int convert_and_save(const cli_args *args, dt_module *m, const dt_model_info *info,
                            const char *from)
{
    struct stat a, b;
    if (stat(args->option[OUTPUT], &a) == 0 && stat(from, &b) == 0 && a.st_dev == b.st_dev &&
        a.st_ino == b.st_ino) {
        return cli_fail(args, CLI_USAGE, "%s would be overwritten: it is read; give another output",
                        from);
    }
    dt_ctx *ctx = dt_module_ctx(m);
    dt_convert_report report;
    if (dt_convert(m, NULL, &report) != DT_OK) return cli_fail_by(args, ctx);
    if (dt_model_save(m, info, args->option[OUTPUT]) != DT_OK) return cli_fail_by(args, ctx);
    print_report(args, from, &report);
    return CLI_DONE;
}

static int convert(const cli_args *args, dt_ctx *ctx, dt_recipe *recipe)
{
    char path[PATH_MAX];
    dt_module *m = NULL;
    dt_model_info info = { .family = NULL };
    if (find_source(ctx, args->words[0], path) != DT_OK ||
        dt_model_load(ctx, path, &m, &info) != DT_OK) {
        return cli_fail_file(args, ctx);
    }
    int status = check_prepared(args, m, path);
    if (status == CLI_DONE && recipe == NULL) status = convert_and_save(args, m, &info, path);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    if (status != CLI_DONE || recipe == NULL) return status;
    const round_model r = {
        .model = path,
        .converts = true,
        .view = { .output = args->option[OUTPUT],
                  .json = args->option[JSON] != NULL,
                  .quiet = args->option[QUIET] != NULL },
    };
    return round_model_run(args, ctx, recipe, &r);
}

static int run(const cli_args *args, dt_ctx *ctx)
{
    dt_recipe *recipe = NULL;
    int status = find_rounder(args, ctx, &recipe);
    if (status == CLI_DONE) status = convert(args, ctx, recipe);
    dt_recipe_free(recipe);
    return status;
}

int cli_convert(const cli_args *args, dt_ctx *ctx)
{
    if (args->option[OUTPUT] == NULL) {
        return cli_fail(args, CLI_USAGE, "-o FILE is missing: where to write the converted model");
    }
    return run(args, ctx);
}
