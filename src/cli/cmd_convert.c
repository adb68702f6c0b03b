/* detent convert: a QAT checkpoint, or the newest of a run, to the integers that a device runs. */
#include "cli.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

enum { JSON, OUTPUT }; /* options, as in main.c */

/* What is to be converted: the file itself, or a run's newest good checkpoint. */
static dt_status find_source(dt_ctx *ctx, const char *word, char path[PATH_MAX])
{
    struct stat about;
    char folder[PATH_MAX];
    const bool is_run = stat(word, &about) == 0 && S_ISDIR(about.st_mode);
    const int n =
        snprintf(is_run ? folder : path, PATH_MAX, is_run ? "%s/checkpoints" : "%s", word);
    if (n < 0 || n >= PATH_MAX) return dt_fail(ctx, DT_ERR_IO, "%s: too long a path", word);
    return is_run ? dt_checkpoint_newest(ctx, folder, path, PATH_MAX, NULL) : DT_OK;
}

static void print_report(const cli_args *args, const char *from, const dt_convert_report *r)
{
    const char *to = args->option[OUTPUT];
    if (args->option[JSON] == NULL) {
        printf("%s: %lld weights converted from %s", to, (long long)r->converted, from);
        if (r->enabled > 0) {
            printf("; %lld were trained in float so far", (long long)r->enabled);
        }
        printf("; %lld of %lld elements clipped\n", (long long)r->clipped, (long long)r->elements);
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

static int convert_and_save(const cli_args *args, dt_module *m, const dt_model_info *info,
                            const char *from)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_convert_report report;
    if (dt_is_converted(m)) {
        return cli_fail(args, CLI_BAD_FILE, "%s: converted already; a QAT checkpoint is wanted",
                        from);
    }
    if (!dt_is_prepared(m)) {
        return cli_fail(args, CLI_BAD_FILE,
                        "%s: a float model: none of its weights is prepared for "
                        "integers; train it with a recipe that has `qat`",
                        from);
    }
    if (dt_convert(m, NULL, &report) != DT_OK) return cli_fail_by(args, ctx);
    if (dt_model_save(m, info, args->option[OUTPUT]) != DT_OK) return cli_fail_by(args, ctx);
    print_report(args, from, &report);
    return CLI_DONE;
}

static int run(const cli_args *args, dt_ctx *ctx)
{
    char path[PATH_MAX];
    dt_module *m = NULL;
    dt_model_info info = { .family = NULL };
    if (find_source(ctx, args->words[0], path) != DT_OK ||
        dt_model_load(ctx, path, &m, &info) != DT_OK) {
        return cli_fail_file(args, ctx);
    }
    const int status = convert_and_save(args, m, &info, path);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    return status;
}

int cli_convert(const cli_args *args)
{
    if (args->option[OUTPUT] == NULL) {
        return cli_fail(args, CLI_USAGE, "-o FILE is missing: where to write the converted model");
    }
    dt_ctx *ctx = cli_ctx(args, 0);
    if (ctx == NULL) return CLI_FAILED;
    const int status = run(args, ctx);
    dt_ctx_free(ctx);
    return status;
}
