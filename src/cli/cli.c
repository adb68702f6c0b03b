/* Helpers of all commands: messages, exit statuses, a context, a recipe from the command line. */
#include "cli/cli.h"
#include "cli/print/meter.h"
#include "cli/print/screen.h"
#include "cli/shipped.h"
#include "cli/print/text.h"

#include <detent/experimental/plugin.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int cli_fail(const cli_args *args, int status, const char *format, ...)
{
    char before[128];
    va_list arguments;
    snprintf(before, sizeof before, "%sdetent %s:%s ", screen_style_of(stderr, SCREEN_RED),
             args->command->name, screen_style_of(stderr, SCREEN_PLAIN));
    meter_keep();
    va_start(arguments, format);
    cli_tell_by(stderr, before, format, arguments);
    va_end(arguments);
    return status;
}

int cli_exit_of(dt_status status)
{
    switch (status) {
    case DT_OK: return CLI_DONE;
    case DT_ERR_CONFIG: return CLI_USAGE;
    case DT_ERR_NUMERIC: return CLI_NONFINITE;
    case DT_ERR_IO:
    case DT_ERR_FORMAT: return CLI_BAD_FILE;
    case DT_ERR_INTERRUPTED: return CLI_INTERRUPTED;
    default: return CLI_FAILED;
    }
}

int cli_exit_by(const dt_ctx *ctx)
{
    return dt_error_of_machine(ctx) ? CLI_FAILED : cli_exit_of(dt_error_status(ctx));
}

int cli_fail_by(const cli_args *args, const dt_ctx *ctx)
{
    return cli_fail(args, cli_exit_by(ctx), "%s", dt_error(ctx));
}

int cli_fail_file(const cli_args *args, const dt_ctx *ctx)
{
    if (dt_error_status(ctx) != DT_ERR_UNSUPPORTED) return cli_fail_by(args, ctx);
    return cli_fail(args, CLI_BAD_FILE, "%s", dt_error(ctx));
}

static void note(void *user, const char *line)
{
    (void)user;
    meter_remove();
    cli_tell(stderr, "%s", line);
}

bool cli_is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

double cli_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Reports an invalid environment variable. */
static int check_environment(const cli_args *args, dt_ctx *ctx)
{
    const char *blas = getenv("DETENT_BLAS"), *threads = getenv("OMP_NUM_THREADS");
    if (blas != NULL && *blas != 0 && strcmp(blas, "system") != 0) {
        return cli_fail(args, CLI_USAGE, "DETENT_BLAS is '%s'; it can be system", blas);
    }
    if (threads != NULL && *threads != 0 && strtol(threads, NULL, 10) < 1) {
        return cli_fail(args, CLI_USAGE, "OMP_NUM_THREADS is '%s'; it can be a number from 1 on",
                        threads);
    }
    if (dt_kernels_name(ctx) != NULL) return CLI_DONE;
    if (dt_error_status(ctx) == DT_ERR_NOMEM) return cli_fail_by(args, ctx);
    return cli_fail(args, CLI_USAGE, "%s", dt_error(ctx)); /* $DETENT_CPU */
}

/* The recipe of a run's folder. */
static bool is_run(const char *folder, char path[CLI_PATH])
{
    const int n = snprintf(path, CLI_PATH, "%s/recipe.yaml", folder);
    return n > 0 && n < CLI_PATH && access(path, F_OK) == 0;
}

/* Finds the recipe of the run that a model belongs to, or the recipe that a command is given
 * besides a model; false: there is none. */
static bool recipe_of(const cli_args *args, char path[CLI_PATH])
{
    const bool given = args->n_words > 1 && strstr(args->command->usage, "[RECIPE") != NULL &&
                       strchr(args->words[1], '=') == NULL;
    if (args->run != NULL) return is_run(args->run, path);
    if (!given) return false;
    if (is_run(args->words[1], path)) return true;
    return snprintf(path, CLI_PATH, "%s", args->words[1]) < CLI_PATH &&
           /* otherwise the folder has checkpoints only, or the word names a shipped recipe */
           access(path, R_OK) == 0;
}

/* Loads the plugins of the command line, then those of the recipe. */
static int load_plugins(const cli_args *args, dt_ctx *ctx)
{
    static const char *const reads[] = { "run", NULL };
    char path[CLI_PATH];
    for (int i = 0; i < args->n_plugins; i++) {
        if (dt_plugin_load(ctx, args->plugin[i]) != DT_OK) return cli_fail_file(args, ctx);
    }
    if (!recipe_of(args, path)) return CLI_DONE;
    dt_recipe *recipe = NULL;
    const dt_recipe_source source = {
        .path = path, .leave_files = true, .saved = true, .told = true, .reads = reads
    };
    const dt_status s = dt_recipe_read(ctx, &source, &recipe);
    int status = s == DT_ERR_NOMEM ? cli_fail_by(args, ctx) : CLI_DONE;
    for (int i = 0; s == DT_ERR_CONFIG && i < dt_recipe_error_count(recipe); i++) {
        const char *line = dt_recipe_error_at(recipe, i);
        /* other errors of the recipe do not matter to the model */
        if (strstr(line, "'run.plugins'") == NULL) continue;
        cli_tell(stderr, "%s", line);
        status = CLI_BAD_FILE;
    }
    dt_recipe_free(recipe);
    return status;
}

static int open_with(const cli_args *args, const dt_ctx_options *options, dt_ctx **out)
{
    *out = NULL;
    if (dt_ctx_create(out, options) != DT_OK) return cli_fail(args, CLI_FAILED, "out of memory");
    int status = check_environment(args, *out);
    if (status == CLI_DONE) status = load_plugins(args, *out);
    if (status == CLI_DONE) return status;
    dt_ctx_free(*out);
    *out = NULL;
    return status;
}

int cli_open(const cli_args *args, int threads, dt_ctx **out)
{
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = threads;
    options.log = note;
    return open_with(args, &options, out);
}

int cli_open_quiet(const cli_args *args, dt_ctx **out)
{
    const dt_ctx_options options = dt_ctx_defaults();
    return open_with(args, &options, out);
}

dt_status cli_stdout(void *user, const char *text, size_t bytes)
{
    (void)user;
    return fwrite(text, 1, bytes, stdout) == bytes ? DT_OK : DT_ERR_IO;
}

int cli_written(dt_status status)
{
    if (status == DT_ERR_NOMEM) cli_leave_out("the results");
    return status == DT_OK ? CLI_DONE : CLI_FAILED;
}

int cli_read_count(const cli_args *args, int option, int most, int *out)
{
    const char *text = args->option[option];
    if (text == NULL) return CLI_DONE;
    char *end;
    const long value = strtol(text, &end, 10);
    if (strspn(text, "0123456789") == strlen(text) && *text != 0 && value >= 1 && value <= most) {
        *out = (int)value;
        return CLI_DONE;
    }
    return cli_fail(args, CLI_USAGE, "%s is '%s', and should be 1 to %d",
                    args->command->options[option].name, text, most);
}

int cli_read_choice(const cli_args *args, int option, const char *const *choices, int *out)
{
    const char *value = args->option[option];
    char all[120] = "";
    for (int i = 0; value != NULL && choices[i] != NULL; i++) {
        if (strcmp(choices[i], value) == 0) {
            *out = i;
            return CLI_DONE;
        }
        const size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "", choices[i]);
    }
    if (value == NULL) return CLI_DONE;
    return cli_fail(args, CLI_USAGE, "%s must be one of %s, not '%s'",
                    args->command->options[option].name, all, value);
}

void cli_json_string(const char *text) { cli_json_text(text, strlen(text)); }

void cli_json_text(const char *text, size_t n)
{
    char out[DT_TEXT_JSON];
    putchar('"');
    for (size_t i = 0, took; i < n; i += took) {
        took = dt_text_json(text + i, n - i, out);
        fputs(out, stdout);
    }
    putchar('"');
}

void cli_json_number(double value)
{
    char text[32] = "null";
    if (value == trunc(value) && fabs(value) < 1e15) { /* prints 30, not 3e+01 */
        printf("%.0f", value);
        return;
    }
    for (int digits = 1; isfinite(value) && digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    fputs(text, stdout);
}

int cli_print_errors(const dt_recipe *recipe)
{
    static const char typed[] = "command line: "; /* errors of the command line are printed first */
    const int n = dt_recipe_error_count(recipe);
    for (int later = 0; later < 2; later++) {
        for (int i = 0; i < n; i++) {
            const char *line = dt_recipe_error_at(recipe, i);
            const bool other = strncmp(line, typed, sizeof typed - 1) != 0;
            if (other == (later != 0)) cli_tell(stderr, "%s", line);
        }
    }
    return CLI_USAGE;
}

int cli_fail_recipe(const cli_args *args, const dt_ctx *ctx, const dt_recipe *recipe)
{
    const bool blamed = dt_error_status(ctx) == DT_ERR_CONFIG && dt_recipe_error_count(recipe) > 0;
    return blamed ? cli_print_errors(recipe) : cli_fail_file(args, ctx);
}

/* Whether `path` names a recipe shipped with detent. */
static bool is_shipped(const char *path)
{
    shipped s;
    if (!shipped_find(&s)) return false;
    int i = 0;
    while (i < s.n && strcmp(s.names[i], path) != 0) i++;
    return i < s.n;
}

int cli_fail_source(const cli_args *args, const dt_ctx *ctx, const char *path)
{
    const bool missing = dt_error_status(ctx) == DT_ERR_IO && access(path, F_OK) != 0;
    if (!missing || !is_shipped(path)) return cli_fail_by(args, ctx);
    return cli_fail(args, CLI_BAD_FILE,
                    "%s; `detent cp %s` copies the recipe of that name that comes with detent, to "
                    "%s.yaml",
                    dt_error(ctx), path, path);
}

int cli_read_source(const cli_args *args, dt_ctx *ctx, int first, const dt_recipe_source *source,
                    dt_recipe **out)
{
    dt_recipe_source s = *source;
    s.overrides = args->words + first;
    s.n_overrides = args->n_words - first;
    const dt_status status = dt_recipe_read(ctx, &s, out);
    if (status == DT_OK) return CLI_DONE;
    return status == DT_ERR_CONFIG ? cli_print_errors(*out) : cli_fail_source(args, ctx, s.path);
}

int cli_read_recipe(const cli_args *args, dt_ctx *ctx, int first, bool leave_files, dt_recipe **out)
{
    const dt_recipe_source source = { .path = args->words[first], .leave_files = leave_files };
    return cli_read_source(args, ctx, first + 1, &source, out);
}

/* Finds recipe.yaml of the run to which a file belongs: in its folder, or one or two folders
 * above. */
static bool find_recipe(const char *model, char path[CLI_PATH])
{
    static const char *const up[] = { "", "../", "../../" };
    const char *slash = strrchr(model, '/');
    const int folder = slash == NULL ? 0 : (int)(slash - model) + 1;
    for (size_t i = 0; i < sizeof up / sizeof up[0]; i++) {
        const int n = snprintf(path, CLI_PATH, "%.*s%srecipe.yaml", folder, model, up[i]);
        if (n > 0 && n < CLI_PATH && access(path, F_OK) == 0) return true;
    }
    return false;
}

bool cli_lies_in_run(const char *model)
{
    char path[CLI_PATH];
    return find_recipe(model, path);
}

bool cli_is_override(const char *word) { return word[0] == '~' || strchr(word, '=') != NULL; }

const char *const cli_rounding_reads[] = { "run",     "data",         "!data.augment",
                                           "qat",     "model.family", "quantize",
                                           "convert", "cluster",      NULL };

const char *const cli_observing_reads[] = {
    "run",          "data",     "!data.augment", "qat",     "train.batch_size",
    "model.family", "quantize", "convert",       "cluster", NULL
};

int cli_read_recipe_of(const cli_args *args, dt_ctx *ctx, const char *what,
                       const char *const *reads, dt_recipe **out)
{
    static const char empty[] = "{}\n";
    char path[CLI_PATH];
    dt_recipe_source source = { .leave_files = true, .use = DT_RECIPE_TO_EVALUATE, .reads = reads };
    if (args->n_words > 1 && !cli_is_override(args->words[1])) {
        source.path = args->words[1];
        source.saved = is_run(args->words[1], path);
        if (source.saved) source.path = path;
        return cli_read_source(args, ctx, 2, &source, out);
    }
    source.path = path;
    if (find_recipe(args->words[0], path)) {
        const int kept = cli_check_kept(args, path);
        if (kept != CLI_DONE) return kept;
        source.saved = true;
        return cli_read_source(args, ctx, 1, &source, out);
    }
    if (args->n_words == 1) {
        return cli_fail(
            args, CLI_USAGE,
            "%s is not in the folder of a run: give a recipe or a run for its %s (detent %s %s "
            "RECIPE), or keys of data such as data.test=FILE",
            args->words[0], what, args->command->name, args->words[0]);
    }
    source.path = "command line";
    source.text = empty;
    source.bytes = sizeof empty - 1;
    return cli_read_source(args, ctx, 1, &source, out);
}
