/* detent merge: merges a model's adapters into its weights, float or prepared; packed weights are
 * rounded again. */
#include "cli/cli.h"
#include "cli/print/text.h"

#include <string.h>

enum { OUTPUT, QUIET }; /* options, as in main.c */

/* Whether a file is, by its hash, the base model of the adapters or a copy of it. */
static bool is_base(dt_ctx *ctx, const dt_model_info *info, const char *path)
{
    dt_file *file = NULL;
    if (info->base == NULL || dt_file_open(ctx, path, &file) != DT_OK) return false;
    const char *hash = dt_file_meta(file, "detent.xxh3");
    const bool is = hash != NULL && strstr(info->base, hash) != NULL;
    dt_file_close(file);
    return is;
}

static int merge(const cli_args *args, dt_ctx *ctx)
{
    dt_module *m = NULL;
    dt_model_info info;
    const char *from = args->words[0], *to = args->option[OUTPUT];
    if (dt_model_load(ctx, from, &m, &info) != DT_OK) return cli_fail_file(args, ctx);
    int status = CLI_DONE;
    const bool base = is_base(ctx, &info, to);
    info.base = NULL; /* the whole model is written */
    if (base) {
        status =
            cli_fail(args, CLI_USAGE,
                     "%s would be overwritten: it holds the weights beside the adapters of %s; "
                     "give another output",
                     to, from);
    } else if (!dt_has_lora(m)) {
        status = cli_fail(args, CLI_BAD_FILE, "%s: none of its layers has an adapter", from);
    } else if (dt_lora_merge(m) != DT_OK || dt_model_save(m, &info, to) != DT_OK) {
        status = cli_fail_by(args, ctx);
    } else if (args->option[QUIET] == NULL) {
        cli_say("%s: %lld parameter%s, without adapters", to, (long long)dt_param_count(m),
                CLI_S(dt_param_count(m)));
    }
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    return status;
}

int cli_merge(const cli_args *args, dt_ctx *ctx)
{
    const char *to = args->option[OUTPUT];
    if (to == NULL) {
        return cli_fail(args, CLI_USAGE, "-o FILE is missing: where to write the merged model");
    }
    const int apart = cli_check_apart(args, to);
    if (apart != CLI_DONE) return apart;
    return merge(args, ctx);
}
