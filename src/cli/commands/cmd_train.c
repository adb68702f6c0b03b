/* detent train RECIPE: trains by a recipe, shows progress, prints a table of results. */
#include "cli/cli.h"
#include "cli/print/inspect_tables.h"
#include "cli/print/meter.h"
#include "cli/print/watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RESUME, FOLDS, DRY_RUN, JSON, QUIET }; /* options, as in main.c */

static void progress(void *user, const dt_progress *p) { watch_step(user, p); }

/* The folder of the run to resume: RECIPE itself, or the recipe's run.dir. */
static int find_run(const cli_args *args, dt_ctx *ctx, char dir[CLI_PATH])
{
    const char *given = args->words[0];
    struct stat found;
    const bool there = stat(given, &found) == 0;
    if (!there && cli_exit_errno(errno) == CLI_FAILED) {
        return cli_fail(args, CLI_FAILED, "%s: %s", given, strerror(errno));
    }
    if (there && S_ISDIR(found.st_mode)) {
        snprintf(dir, CLI_PATH, "%s", given);
        return CLI_DONE;
    }
    dt_recipe *recipe = NULL;
    const int status = cli_read_recipe(args, ctx, 0, true, &recipe);
    if (status == CLI_DONE) snprintf(dir, CLI_PATH, "%s", dt_recipe_get(recipe)->run.dir);
    dt_recipe_free(recipe);
    return status;
}

/* Writes run.dir='...', quoted for YAML. */
static void quote_dir(const char *dir, char text[2 * CLI_PATH])
{
    char *to = text + sprintf(text, "run.dir='");
    for (; *dir != 0; dir++) {
        *to++ = *dir;
        if (*dir == '\'') *to++ = '\'';
    }
    strcpy(to, "'");
}

/* Refuses an override of run.dir with --resume, which would have no effect. */
static int check_dir(const cli_args *args, const char *dir)
{
    static const char key[] = "run.dir=";
    for (int i = 1; i < args->n_words && cli_is_folder(args->words[0]); i++) {
        const char *word = args->words[i];
        if (strncmp(word, key, sizeof key - 1) != 0) continue;
        if (strcmp(word + sizeof key - 1, dir) == 0) continue;
        return cli_fail(args, CLI_USAGE, "%s: the resumed run stays in '%s'", word, dir);
    }
    return CLI_DONE;
}

/* Reads the run's own recipe, with the words after RECIPE as overrides. */
static int read_resumed(const cli_args *args, dt_ctx *ctx, dt_recipe **out)
{
    char dir[CLI_PATH], path[CLI_PATH + 16], in_dir[2 * CLI_PATH + 16];
    int status = find_run(args, ctx, dir);
    if (status == CLI_DONE) status = check_dir(args, dir);
    if (status != CLI_DONE) return status;
    snprintf(path, sizeof path, "%s/recipe.yaml", dir);
    struct stat found;
    const bool there = stat(path, &found) == 0;
    if (!there && cli_exit_errno(errno) == CLI_FAILED) {
        return cli_fail(args, CLI_FAILED, "%s: %s", path, strerror(errno));
    }
    if (!there) { /* a run that was killed before it had a recipe starts from the beginning */
        if (!cli_is_folder(args->words[0])) return cli_read_recipe(args, ctx, 0, false, out);
        return cli_fail(args, CLI_BAD_FILE, "'%s' has no run to resume: there is no %s", dir, path);
    }
    quote_dir(dir, in_dir);
    const char **words = malloc(((size_t)args->n_words + 1) * sizeof *words);
    if (words == NULL) return cli_fail(args, CLI_FAILED, "out of memory");
    memcpy(words, args->words, (size_t)args->n_words * sizeof *words);
    words[0] = path;
    words[args->n_words] = in_dir;
    cli_args changed = *args;
    changed.words = words;
    changed.n_words = args->n_words + 1;
    const dt_recipe_source source = { .path = path, .saved = true };
    status = cli_read_source(&changed, ctx, 1, &source, out);
    free(words);
    return status;
}

/* Reports a folder in place of a recipe: that of a run, or of data. */
static int refuse_folder(const cli_args *args)
{
    const char *folder = args->words[0];
    char path[CLI_PATH];
    snprintf(path, sizeof path, "%s/recipe.yaml", folder);
    if (access(path, F_OK) == 0) {
        return cli_fail(args, CLI_USAGE, "'%s' is a folder; --resume continues the run in it",
                        folder);
    }
    return cli_fail(args, CLI_USAGE,
                    "'%s' is a folder, and not of a run; expected a recipe: detent new --data "
                    "%s writes one for your data",
                    folder, folder);
}

static int read_recipe(const cli_args *args, dt_ctx *ctx, dt_recipe **out)
{
    if (args->option[RESUME] != NULL) return read_resumed(args, ctx, out);
    if (cli_is_folder(args->words[0])) {
        return refuse_folder(args);
    }
    return cli_read_recipe(args, ctx, 0, false, out);
}

static int explain(const cli_args *args, dt_ctx *ctx, const dt_recipe *recipe, bool begun)
{
    const int n = dt_recipe_error_count(recipe);
    if (dt_error_status(ctx) == DT_ERR_CONFIG && n > 0) {
        return cli_print_errors(recipe);
    }
    if (dt_error_status(ctx) == DT_ERR_IO && begun) {
        return cli_fail(args, CLI_FAILED, "%s", dt_error(ctx));
    }
    return cli_fail_by(args, ctx);
}

static int run(const cli_args *args, dt_ctx *ctx, dt_recipe *recipe)
{
    watch w = watch_begin(args->option[QUIET] != NULL);
    const dt_run_control control = { .resume = args->option[RESUME] != NULL,
                                     .dry_run = args->option[DRY_RUN] != NULL,
                                     .cluster = true,
                                     .stop = cli_stopped,
                                     .progress = progress,
                                     .doing = progress,
                                     .user = &w };
    dt_run_summary summary;
    cli_catch_signals();
    const dt_status status = dt_run(ctx, recipe, &control, &summary);
    meter_keep();
    if (summary.rank > 0 && !summary.by_itself) return cli_exit_of(status); /* rank 0 reports */
    if (status != DT_OK) return explain(args, ctx, recipe, summary.begun);
    if (control.dry_run) {
        if (args->option[JSON] == NULL && cli_print_recipe_layers(ctx, recipe, false) != DT_OK) {
            return cli_fail_by(args, ctx);
        }
        print_model(&summary, args->option[JSON] != NULL);
    } else if (args->option[JSON] != NULL) {
        return cli_written(dt_run_summary_json(ctx, &summary, cli_stdout, NULL));
    } else {
        print_table(dt_recipe_get(recipe), &summary);
    }
    return CLI_DONE;
}

/* Trains the recipe as a sweep with folds, by the command `sweep`, whose options have the same
 * indices. */
static int train_folds(const cli_args *args, dt_ctx *ctx, const char *name)
{
    if (args->option[RESUME] != NULL) {
        return cli_fail(args, CLI_USAGE,
                        "--resume and %s exclude each other; %s continues "
                        "without it",
                        name, name);
    }
    if (args->n_words > 1 && strchr(args->words[1], '=') == NULL) {
        return cli_fail(args, CLI_USAGE, "'%s': expected key=value, or ~key, behind the recipe",
                        args->words[1]);
    }
    return cli_sweep(args, ctx);
}

/* Trains by run.folds, as by --folds. */
static int train_folds_of(const cli_args *args, dt_ctx *ctx, int64_t folds)
{
    char text[24];
    cli_args changed = *args;
    snprintf(text, sizeof text, "%lld", (long long)folds);
    changed.option[FOLDS] = text;
    return train_folds(&changed, ctx, "run.folds");
}

int cli_train(const cli_args *args, dt_ctx *ctx)
{
    if (args->option[RESUME] != NULL && args->option[DRY_RUN] != NULL) {
        return cli_fail(args, CLI_USAGE, "--resume and --dry-run exclude each other");
    }
    if (args->option[FOLDS] != NULL) return train_folds(args, ctx, "--folds");
    dt_recipe *recipe = NULL;
    int status = read_recipe(args, ctx, &recipe);
    const int64_t folds = status == CLI_DONE ? dt_recipe_get(recipe)->run.folds : 0;
    if (status == CLI_DONE && folds == 0) status = run(args, ctx, recipe);
    dt_recipe_free(recipe);
    return folds > 0 ? train_folds_of(args, ctx, folds) : status;
}
